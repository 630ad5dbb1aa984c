/* An application that lends its OpenCL context: ids come from its buffer, results go to it, and events say when, in
 * both directions. */
#ifdef WHERRY_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#endif
#include "base/half.h"
#include "support.h"
#include "wherry/wherry_opencl.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifndef WHERRY_HAVE_OPENCL
int main(void) { return 77; }
#else

enum { HIDDEN = 64, VOCABULARY = 97, MOST_TOKENS = 200, BYTES = 1 << 16 };

/* ---- the application's OpenCL ---- */

static struct {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* another one than Wherry's */
    cl_mem ids, results;
} app;

#define CL(call) assert_int_equal(call, CL_SUCCESS)

static bool device_find(void)
{
    cl_platform_id platforms[8];
    cl_uint count = 0;
    struct error e;
    if (!opencl_functions_load(&e)) return false;
    if (clGetPlatformIDs(8, platforms, &count)) return false;
    for (cl_uint i = 0; i < count && i < 8; i++)
        if (!clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &app.id, NULL)) return true;
    return false;
}

static wherry_context *context;
static wherry_device *device;
static wherry_model *model;
static wherry_session *session;
static wherry_batch batch;
static float expected[8 * HIDDEN], out[8 * HIDDEN];

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

static int open_all(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {5, 40, 1, 17, 30, 0};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 136,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2};
    cl_int code;
    cl_device_type type = 0;
    CL(clGetDeviceInfo(app.id, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    const wherry_context_desc about = {.struct_size = sizeof about,
                                       .cache_dir = getenv("WHERRY_TEST_CACHE"),
                                       .unoptimized = !(type & CL_DEVICE_TYPE_GPU)};
    app.context = clCreateContext(NULL, 1, &app.id, NULL, NULL, &code);
    CL(code);
    app.queue = clCreateCommandQueue(app.context, app.id, 0, &code);
    CL(code);
    app.ids = clCreateBuffer(app.context, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CL(code);
    app.results = clCreateBuffer(app.context, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CL(code);
    const wherry_opencl_device_desc desc = {.struct_size = sizeof desc, .context = app.context, .device = app.id};
    assert_int_equal(wherry_context_create(&about, &context), WHERRY_STATUS_OK);
    OK(wherry_device_wrap_opencl(context, &desc, &device));
    OK(wherry_model_create_random(context, &config, 3, &model));
    batch = support_batch(lengths, VOCABULARY, 2, 5);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
    support_batch_free(&batch);
    clReleaseMemObject(app.ids);
    clReleaseMemObject(app.results);
    clReleaseCommandQueue(app.queue);
    clReleaseContext(app.context);
    return 0;
}

static void session_open(wherry_dtype dtype)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = MOST_TOKENS, .dtype = dtype};
    OK(wherry_session_create(context, device, model, &desc, &session));
    OK(wherry_encode(session, &batch, expected, 8 * HIDDEN));
}

static void row_check(uint32_t sequence, const char *at, bool half)
{
    const float *want = expected + (size_t)sequence * HIDDEN;
    const uint16_t *halves = (const uint16_t *)at;
    float got[HIDDEN];
    memcpy(got, at, half ? 0 : sizeof got);
    for (int i = 0; half && i < HIDDEN; i++) got[i] = half_to_float(halves[i]);
    if (memcmp(got, want, sizeof got))
        fail_msg("the row of sequence %u has other bits in the buffer", (unsigned)sequence);
}

#include "lent_training.h"

/* ---- the tests ---- */

/* The application writes ids in a queue of its own, Wherry encodes after that, and the application reads after that. */
static void chain(wherry_dtype type, uint64_t stride, bool with_out)
{
    enum { IDS_AT = 64, RESULTS_AT = 12 };
    static char got[BYTES];
    const bool half = type == WHERRY_DTYPE_F16;
    cl_event written;
    void *done = NULL;
    wherry_ticket *ticket;
    CL(clEnqueueWriteBuffer(app.queue, app.ids, CL_FALSE, IDS_AT, batch.offsets[batch.sequences] * sizeof *batch.ids,
                            batch.ids, 0, NULL, &written));
    CL(clFlush(app.queue));
    void *waits[] = {written};
    const wherry_opencl_submit objects = {.struct_size = sizeof objects,
                                          .wait_count = 1,
                                          .waits = waits,
                                          .event = &done,
                                          .ids = {app.ids, IDS_AT},
                                          .result = {app.results, RESULTS_AT},
                                          .result_stride = stride,
                                          .result_type = type};
    const wherry_submit_desc desc = {
        .struct_size = sizeof desc, .out = with_out ? out : NULL, .out_floats = 8 * HIDDEN, .opencl = &objects};
    wherry_batch without = batch;
    without.ids = NULL;
    memset(out, 0, sizeof out);
    OK(wherry_encode_submit(session, &without, &desc, &ticket));
    assert_non_null(done);
    CL(clEnqueueReadBuffer(app.queue, app.results, CL_TRUE, 0, BYTES, got, 1, (cl_event *)&done, NULL));
    const uint64_t step = stride ? stride : HIDDEN * (half ? 2 : 4);
    for (uint32_t s = 0; s < batch.sequences; s++) row_check(s, got + RESULTS_AT + s * step, half);
    OK(wherry_ticket_wait(ticket, UINT64_MAX));
    if (with_out) assert_memory_equal(out, expected, batch.sequences * HIDDEN * sizeof *out);
    wherry_ticket_destroy(ticket);
    clReleaseEvent(written);
    clReleaseEvent(done);
}

static void test_chain(void **state)
{
    (void)state;
    for (wherry_dtype dtype = WHERRY_DTYPE_F32; dtype <= WHERRY_DTYPE_F16; dtype++) {
        session_open(dtype);
        for (int with_out = 0; with_out < 2; with_out++) {
            chain(WHERRY_DTYPE_DEFAULT, 0, with_out);
            chain(WHERRY_DTYPE_F32, HIDDEN * 4 + 20, with_out);
            if (dtype == WHERRY_DTYPE_F16) chain(WHERRY_DTYPE_F16, with_out ? 300 : 0, with_out);
        }
        OK(wherry_encode(session, &batch, out, 8 * HIDDEN)); /* and the host's ids again */
        assert_memory_equal(out, expected, batch.sequences * HIDDEN * sizeof *out);
        wherry_session_destroy(session);
    }
}

/* Ids that are none of the vocabulary are taken for 0, whatever they are. */
static void test_unknown_ids(void **state)
{
    (void)state;
    static const int32_t unknown[] = {VOCABULARY, -1, INT32_MAX, INT32_MIN};
    int32_t ids[MOST_TOKENS];
    wherry_ticket *ticket;
    session_open(WHERRY_DTYPE_DEFAULT);
    const uint32_t tokens = batch.offsets[batch.sequences];
    wherry_batch known = batch, without = batch;
    memcpy(ids, batch.ids, tokens * sizeof *ids);
    for (int i = 0; i < 4; i++) ids[7 * i] = 0;
    ids[tokens - 1] = VOCABULARY - 1;
    known.ids = ids;
    without.ids = NULL;
    OK(wherry_encode(session, &known, expected, 8 * HIDDEN));
    for (int i = 0; i < 4; i++) ids[7 * i] = unknown[i];
    CL(clEnqueueWriteBuffer(app.queue, app.ids, CL_TRUE, 0, tokens * sizeof *ids, ids, 0, NULL, NULL));
    const wherry_opencl_submit objects = {.struct_size = sizeof objects, .ids = {app.ids, 0}};
    const wherry_submit_desc desc = {
        .struct_size = sizeof desc, .out = out, .out_floats = 8 * HIDDEN, .opencl = &objects};
    OK(wherry_encode_submit(session, &without, &desc, &ticket));
    OK(wherry_ticket_wait(ticket, UINT64_MAX));
    assert_memory_equal(out, expected, batch.sequences * HIDDEN * sizeof *out);
    wherry_ticket_destroy(ticket);
    wherry_session_destroy(session);
}

/* What waits for an event is not done before it, nor is what is behind it. */
static void test_held(void **state)
{
    (void)state;
    cl_int code;
    session_open(WHERRY_DTYPE_DEFAULT);
    cl_event gate = clCreateUserEvent(app.context, &code);
    CL(code);
    void *waits[] = {gate};
    const wherry_opencl_submit objects = {
        .struct_size = sizeof objects, .wait_count = 1, .waits = waits, .result = {app.results, 0}};
    const wherry_submit_desc desc = {.struct_size = sizeof desc, .opencl = &objects};
    const wherry_submit_desc plain = {.struct_size = sizeof plain, .out = out, .out_floats = 8 * HIDDEN};
    wherry_ticket *held, *behind, *none = NULL;
    OK(wherry_encode_submit(session, &batch, &desc, &held));
    OK(wherry_encode_submit(session, &batch, &plain, &behind));
    assert_int_equal(wherry_ticket_poll(held), WHERRY_STATUS_TIMEOUT);
    assert_int_equal(wherry_ticket_wait(behind, 20000000), WHERRY_STATUS_TIMEOUT);
    assert_int_equal(wherry_encode_submit(session, &batch, &desc, &none), WHERRY_STATUS_BUSY);
    assert_null(none);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    OK(wherry_ticket_wait(behind, UINT64_MAX));
    OK(wherry_ticket_poll(held));
    assert_memory_equal(out, expected, batch.sequences * HIDDEN * sizeof *out);
    wherry_ticket_destroy(held);
    wherry_ticket_destroy(behind);
    wherry_session_destroy(session);
    clReleaseEvent(gate);
}

/* Runs in flight whose transfers go by a second queue: the same bits, also of those that are waited for, are behind one
 * that is held, or are under way when the session goes. */
static void test_copy_queue(void **state)
{
    (void)state;
    enum { TICKETS = 9 };
    static float got[TICKETS][8 * HIDDEN];
    cl_int code;
    cl_command_queue queues[2];
    for (int i = 0; i < 2; i++) queues[i] = clCreateCommandQueue(app.context, app.id, 0, &code);
    CL(code);
    const wherry_opencl_device_desc desc = {.struct_size = sizeof desc,
                                            .context = app.context,
                                            .device = app.id,
                                            .queue = queues[0],
                                            .copy_queue = queues[1]};
    wherry_device *only = device;
    OK(wherry_device_wrap_opencl(context, &desc, &device));
    session_open(WHERRY_DTYPE_DEFAULT);
    wherry_ticket *tickets[TICKETS];
    for (int round = 0; round < 3; round++) {
        cl_event gate = clCreateUserEvent(app.context, &code);
        CL(code);
        void *waits[] = {gate};
        const wherry_opencl_submit objects = {.struct_size = sizeof objects, .wait_count = 1, .waits = waits};
        for (int i = 0; i < TICKETS; i++) {
            const wherry_submit_desc to = {.struct_size = sizeof to,
                                           .out = got[i],
                                           .out_floats = 8 * HIDDEN,
                                           .opencl = round == 1 && !i ? &objects : NULL};
            memset(got[i], 0, sizeof got[i]);
            OK(wherry_encode_submit(session, &batch, &to, &tickets[i]));
        }
        CL(clSetUserEventStatus(gate, CL_COMPLETE));
        for (int i = 0; i < TICKETS && round < 2; i++) {
            OK(wherry_ticket_wait(tickets[i], UINT64_MAX));
            assert_memory_equal(got[i], expected, batch.sequences * HIDDEN * sizeof *out);
            wherry_ticket_destroy(tickets[i]);
        }
        clReleaseEvent(gate);
    }
    wherry_session_destroy(session);
    for (int i = 0; i < TICKETS; i++) wherry_ticket_destroy(tickets[i]);
    wherry_device_close(device);
    device = only;
    for (int i = 0; i < 2; i++) clReleaseCommandQueue(queues[i]);
}

static void refused(const wherry_opencl_submit *objects, wherry_status want, const char *part)
{
    const wherry_submit_desc desc = {.struct_size = sizeof desc, .opencl = objects};
    wherry_ticket *ticket = NULL;
    wherry_status got = wherry_encode_submit(session, &batch, &desc, &ticket);
    if (got != want || !strstr(wherry_last_error(context), part))
        fail_msg("status %s with \"%s\": wanted %s with \"%s\"", wherry_status_name(got), wherry_last_error(context),
                 wherry_status_name(want), part);
    assert_null(ticket);
}

static void test_refused(void **state)
{
    (void)state;
    cl_int code;
    cl_context other = clCreateContext(NULL, 1, &app.id, NULL, NULL, &code);
    CL(code);
    cl_mem foreign = clCreateBuffer(other, CL_MEM_READ_WRITE, BYTES, NULL, &code);
    CL(code);
    cl_event stranger = clCreateUserEvent(other, &code);
    CL(code);
    void *strangers[] = {stranger}, *nothing[] = {NULL};
    session_open(WHERRY_DTYPE_F32);
    const wherry_opencl_submit good = {.struct_size = sizeof good, .result = {app.results, 0}};
    wherry_opencl_submit bad;
#define BAD(status, part, ...)                                                                                         \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        __VA_ARGS__;                                                                                                   \
        refused(&bad, status, part);                                                                                   \
    } while (0)
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "struct_size", bad.struct_size = 3);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "no buffer", bad.result.memory = NULL);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "of another cl_context", bad.result.memory = foreign);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "of another cl_context", bad.ids.memory = foreign);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "event 0", (bad.wait_count = 1, bad.waits = strangers));
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "event 0", (bad.wait_count = 1, bad.waits = nothing));
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "at most 8", bad.wait_count = 9);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "do not fit", bad.result.offset = BYTES - 5 * HIDDEN * 4 + 4);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "multiple of 4", bad.result.offset = 2);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "multiple of 4", bad.result.offset = BYTES + 4);
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "buffer of ids has 368 bytes",
        (bad.ids.memory = app.ids, bad.ids.offset = BYTES - 368));
    BAD(WHERRY_STATUS_INVALID_ARGUMENT, "a stride of 252 bytes", bad.result_stride = 252);
    BAD(WHERRY_STATUS_UNSUPPORTED, "stores f32", bad.result_type = WHERRY_DTYPE_F16);
    const wherry_submit_desc wrong = {.struct_size = sizeof wrong, .vulkan = (const void *)&good};
    wherry_ticket *ticket;
    assert_int_equal(wherry_encode_submit(session, &batch, &wrong, &ticket), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "objects of Vulkan can't be used there"));
    wherry_session_destroy(session);
    CL(clSetUserEventStatus(stranger, CL_COMPLETE)); /* for which some drivers wait before they let a context go */
    clReleaseEvent(stranger);
    clReleaseMemObject(foreign);
    clReleaseContext(other);
}

/* An application's own loss: it reads the output from its buffer when the forward pass says so, and the backward pass
 * waits for its gradient. */
static void passes(wherry_dtype dtype, uint64_t stride)
{
    enum { RESULTS_AT = 12, GRADIENT_AT = 64 };
    static char got[BYTES], rows[BYTES];
    float gradient[8 * HIDDEN];
    size_t floats;
    const bool half = dtype == WHERRY_DTYPE_F16;
    const wherry_step step = {.struct_size = sizeof step, .step = 1, .seed = 7};
    float *want = training_open(dtype, gradient, &floats);
    void *done = NULL, *ended = NULL;
    cl_event written;
    wherry_opencl_submit objects = {.struct_size = sizeof objects,
                                    .event = &done,
                                    .result = {app.results, RESULTS_AT},
                                    .result_stride = stride,
                                    .result_type = dtype};
    const wherry_pass_desc desc = {.struct_size = sizeof desc, .opencl = &objects};
    OK(wherry_forward_submit(session, &batch, &step, &desc));
    CL(clEnqueueReadBuffer(app.queue, app.results, CL_TRUE, 0, BYTES, got, 1, (cl_event *)&done, NULL));
    const uint64_t row = HIDDEN * (half ? 2 : 4), apart = stride ? stride : row;
    for (uint32_t s = 0; s < batch.sequences; s++) row_check(s, got + RESULTS_AT + s * apart, half);
    for (uint32_t s = 0; s < batch.sequences; s++)
        for (uint32_t i = 0; i < HIDDEN; i++) {
            uint16_t narrow = half_from_float(gradient[s * HIDDEN + i]);
            memcpy(rows + s * apart + i * row / HIDDEN, half ? (void *)&narrow : (void *)&gradient[s * HIDDEN + i],
                   row / HIDDEN);
        }
    CL(clEnqueueWriteBuffer(app.queue, app.ids, CL_FALSE, GRADIENT_AT, BYTES - GRADIENT_AT, rows, 0, NULL, &written));
    CL(clFlush(app.queue));
    void *waits[] = {written};
    objects = (wherry_opencl_submit){.struct_size = sizeof objects,
                                     .wait_count = 1,
                                     .waits = waits,
                                     .event = &ended,
                                     .gradient = {app.ids, GRADIENT_AT},
                                     .result_stride = stride,
                                     .result_type = dtype};
    OK(wherry_backward_submit(session, &desc));
    CL(clWaitForEvents(1, (cl_event *)&ended));
    OK(wherry_passes_wait(session));
    float *have = gradients_read(&floats);
    assert_memory_equal(have, want, floats * sizeof *have);
    assert_int_equal(wherry_backward_submit(session, &desc), WHERRY_STATUS_INVALID_ARGUMENT); /* no forward pass */
    free(want);
    free(have);
    clReleaseEvent(written);
    clReleaseEvent(done);
    clReleaseEvent(ended);
    wherry_session_destroy(session);
}

static void pass_refused(const wherry_opencl_submit *objects, bool backward, wherry_status want, const char *part)
{
    const wherry_pass_desc desc = {.struct_size = sizeof desc, .opencl = objects};
    wherry_status got =
        backward ? wherry_backward_submit(session, &desc) : wherry_forward_submit(session, &batch, NULL, &desc);
    if (got != want || !strstr(wherry_last_error(context), part))
        fail_msg("status %s with \"%s\": wanted %s with \"%s\"", wherry_status_name(got), wherry_last_error(context),
                 wherry_status_name(want), part);
}

static void test_passes(void **state)
{
    (void)state;
    float gradient[8 * HIDDEN];
    size_t floats;
    passes(WHERRY_DTYPE_F32, 0);
    passes(WHERRY_DTYPE_F32, HIDDEN * 4 + 20);
    passes(WHERRY_DTYPE_F16, HIDDEN * 2 + 4);
    free(training_open(WHERRY_DTYPE_F16, gradient, &floats));
    wherry_opencl_submit objects = {.struct_size = sizeof objects, .ids = {app.ids, 0}};
    pass_refused(&objects, false, WHERRY_STATUS_UNSUPPORTED, "ids of a training batch");
    objects = (wherry_opencl_submit){.struct_size = sizeof objects, .result = {app.results, 0}};
    pass_refused(&objects, false, WHERRY_STATUS_UNSUPPORTED, "stores f16");
    objects.result_type = WHERRY_DTYPE_F16;
    pass_refused(&objects, false, WHERRY_STATUS_OK, "");
    pass_refused(&objects, true, WHERRY_STATUS_INVALID_ARGUMENT, "takes the buffer `gradient`");
    objects.result.memory = NULL;
    objects.gradient = (wherry_opencl_buffer){app.ids, BYTES - 64};
    pass_refused(&objects, true, WHERRY_STATUS_INVALID_ARGUMENT, "do not fit");
    objects.gradient.offset = 0;
    pass_refused(&objects, false, WHERRY_STATUS_INVALID_ARGUMENT, "is for wherry_backward_submit");
    wherry_session_destroy(session);
    session_open(WHERRY_DTYPE_F32);
    pass_refused(&objects, false, WHERRY_STATUS_INVALID_ARGUMENT, "trains from ids");
    wherry_session_destroy(session);
}

int main(void)
{
    if (!device_find()) {
        printf("skipped: no OpenCL device\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),      cmocka_unit_test(test_unknown_ids), cmocka_unit_test(test_held),
        cmocka_unit_test(test_copy_queue), cmocka_unit_test(test_refused),     cmocka_unit_test(test_passes),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
#endif
