/* Tuning: which sizes are listed, how measurements are kept, stopped and gone on with, what sessions make of the file,
 * and that wrong numbers are never chosen. On every device, at a small shape. */
#include "base/platform.h"
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/variants.h"
#include "runtime/encode.h"
#include "runtime/tuned.h"
#include "support.h"
#include "tune/tune.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { HIDDEN = 64, TOKENS_MOST = 128, CANDIDATES = 2, ROUNDS = 2, VOCABULARY = 97 };

static const uint32_t lengths[] = {64, 33, 31, 0};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64], folder[512];
static size_t n_devices;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* ---- candidates: no device ---- */

static struct device_limits large_gpu(void)
{
    return (struct device_limits){.f16 = true,
                                  .subgroup_min = 32,
                                  .subgroup_max = 32,
                                  .shared_bytes = 49152,
                                  .max_local_size = 1024,
                                  .max_buffer_bytes = UINT64_MAX,
                                  .max_binding_bytes = UINT64_MAX,
                                  .compute_units = 132,
                                  .rungs = 1};
}

static struct call gemm_call(uint32_t form)
{
    struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
    call_set(&call, CONST_N, 1024);
    call_set(&call, CONST_K, 4096);
    call_set(&call, CONST_ROWS, HEADER_TOKENS);
    call_set(&call, CONST_FORM, form);
    if (form == GEMM_TN) call_set(&call, CONST_M, 4096);
    return call;
}

static void test_constants(void **state)
{
    (void)state;
    for (uint8_t id = 0; id < CONST_COUNT; id++)
        if (!constants[id].name || !constants[id].role) fail_msg("constant %d has no row in core/plan/constants.c", id);
}

static void test_candidates(void **state)
{
    (void)state;
    const struct device_limits limits = large_gpu();
    struct choices *list = calloc(1, sizeof *list);
    for (uint32_t form = GEMM_NT; form <= GEMM_TN; form++) {
        struct call call = gemm_call(form), sized = call;
        struct sizes s = call_sizes(&call, NULL, &limits, true, 4096, 512);
        struct choice usual;
        call_tiles(&sized, NULL, &limits, true, 4096, 512);
        assert_true(choice_of(&sized, NULL, &usual));
        choices_legal(&call, &s, list);
        int legal = list->n;
        assert_in_range(legal, CHOICES_MEASURED, CHOICES_LEGAL - 1);
        assert_true(list->refused > 0); /* some need more shared memory or registers than there are */
        int cut = choices_prune(list, &usual, CHOICES_MEASURED, false);
        assert_int_equal(list->n, CHOICES_MEASURED);
        assert_in_range(cut, legal - CHOICES_MEASURED - 1, legal - CHOICES_MEASURED);
        for (int i = 0; i < list->n; i++) {
            char text[CHOICE_TEXT], other[CHOICE_TEXT];
            struct call calls[GROUP_MAX_CALLS] = {call};
            int count = 1;
            choice_text(&list->of[i], text);
            choice_text(&usual, other);
            assert_string_not_equal(text, other);
            for (int k = 0; k < i; k++) {
                choice_text(&list->of[k], other);
                assert_string_not_equal(text, other);
            }
            choice_apply(&list->of[i], calls, 0, &count, &s);
            assert_true(call_shared_bytes(&calls[0]) <= limits.shared_bytes);
            assert_true(call_get(&calls[0], CONST_LOCAL_SIZE, 0) <= limits.max_local_size);
            assert_int_equal(count, call_get(&calls[0], CONST_COLUMN_SUMS, 0) ? 2 : 1);
        }
    }
    free(list);
}

/* Work is what a bucket shares: rows up to the same power of two, any probability of dropout, any epsilon. */
static void test_works(void **state)
{
    (void)state;
    const struct device_limits limits = large_gpu();
    struct call call = gemm_call(GEMM_NT), other = call;
    char a[WORK_TEXT], b[WORK_TEXT];
    struct choices *lists = calloc(2, sizeof *lists);
    struct sizes s = call_sizes(&call, NULL, &limits, true, 4096, 512);
    struct sizes fewer = call_sizes(&other, NULL, &limits, true, 2049, 77);
    work_text(&call, &s, a);
    work_text(&other, &fewer, b);
    assert_string_equal(a, b);
    choices_legal(&call, &s, &lists[0]);
    choices_legal(&other, &fewer, &lists[1]);
    assert_int_equal(lists[0].n, lists[1].n);
    for (int i = 0; i < lists[0].n; i++) {
        char one[CHOICE_TEXT], two[CHOICE_TEXT];
        choice_text(&lists[0].of[i], one);
        choice_text(&lists[1].of[i], two);
        assert_string_equal(one, two);
    }
    call_set(&call, CONST_DROPOUT, 6554);
    call_set(&other, CONST_DROPOUT, 13107);
    work_text(&call, &s, a);
    work_text(&other, &fewer, b);
    assert_string_equal(a, b);
    fewer.max_rows = 2048;
    work_text(&other, &fewer, b);
    assert_string_not_equal(a, b);
    fewer.max_rows = 4096;
    call_set(&other, CONST_K, 2048);
    work_text(&other, &fewer, b);
    assert_string_not_equal(a, b);
    free(lists);
}

static bool same_call(const struct call *a, const struct call *b)
{
    bool same = !strcmp(a->kernel, b->kernel) && a->n_constants == b->n_constants && a->n_maps == b->n_maps;
    for (int i = 0; same && i < a->n_constants; i++)
        same = a->constants[i].id == b->constants[i].id && a->constants[i].value == b->constants[i].value;
    for (int i = 0; same && i < a->n_maps; i++)
        same = a->maps[i].slot == b->maps[i].slot && a->maps[i].rows == b->maps[i].rows &&
               a->maps[i].columns == b->maps[i].columns && a->maps[i].stride == b->maps[i].stride &&
               a->maps[i].box_rows == b->maps[i].box_rows && a->maps[i].box_columns == b->maps[i].box_columns;
    return same;
}

/* What the table gives a variant is made again by its sizes alone, maps and parts included; each candidate has the maps
 * of its own tile, and keeps within what the kernel may take. */
static void test_variants(void **state)
{
    (void)state;
    struct device_limits limits = large_gpu();
    struct choices *list = calloc(1, sizeof *list);
    for (size_t v = 0; variant_at(v); v++)
        for (uint32_t form = GEMM_NT; form <= GEMM_TN; form++) {
            const char *refused;
            struct call call = gemm_call(form), table[GROUP_MAX_CALLS], again[GROUP_MAX_CALLS];
            int count = 1, made = 1;
            limits.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(variant_at(v)->rung);
            struct sizes s = call_sizes(&call, NULL, &limits, true, 4096, 512);
            if (strcmp(variant_at(v)->kernel, "gemm") || !variant_runs(variant_at(v), &call, &s, &refused)) continue;
            table[0] = again[0] = call;
            call_tiles(&table[0], NULL, &limits, true, 4096, 512);
            calls_divide(table, &count, &limits, true, 4096);
            struct choice usual;
            assert_true(choice_of(&table[0], NULL, &usual));
            choice_apply(&usual, again, 0, &made, &s);
            assert_int_equal(made, count);
            assert_true(same_call(&again[0], &table[0]));
            choices_legal(&call, &s, list);
            for (int i = 0; i < list->n; i++) {
                const struct variant *variant = variant_find(list->of[i].kernel);
                again[0] = call;
                made = 1;
                choice_apply(&list->of[i], again, 0, &made, &s);
                assert_true(!variant || variant->shared_bytes(&again[0]) <= 232448);
                if (variant && again[0].n_maps && form == GEMM_NT) {
                    assert_int_equal(again[0].maps[0].box_rows, call_get(&again[0], CONST_TILE_M, 0));
                    assert_int_equal(again[0].maps[1].box_rows, call_get(&again[0], CONST_TILE_N, 0));
                }
            }
        }
    free(list);
}

/* ---- a device with a session ---- */

struct setup {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch;
    float *out;
    size_t floats;
    const char *gemm; /* NULL: what the device has */
};

/* Or the host's cores: nothing there has sizes. */
static bool has_no_sizes(const struct setup *s) { return !s->device->kernels_hash; }

static void setup_session(struct setup *s, const char *tuning, bool keep)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS_MOST,
                                      .max_sequences = 3,
                                      .max_length = 64,
                                      .dtype = has_no_sizes(s) ? WHERRY_DTYPE_F32 : WHERRY_DTYPE_F16,
                                      .keep_intermediates = keep,
                                      .kernels = s->gemm,
                                      .tuning = tuning};
    EXPECT_OK(wherry_session_create(context, s->device, s->model, &desc, &s->session));
}

static void setup_open(struct setup *s, const char *device)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 128,
                                        .vocabulary = VOCABULARY,
                                        .positions = 64,
                                        .token_types = 2};
    memset(s, 0, sizeof *s);
    s->batch = support_batch(lengths, VOCABULARY, 2, 3);
    s->floats = (size_t)s->batch.sequences * HIDDEN;
    s->out = calloc(s->floats, sizeof *s->out);
    EXPECT_OK(wherry_device_open(context, device, &s->device));
    EXPECT_OK(wherry_model_create_random(context, &config, 3, &s->model));
}

static void setup_close(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    support_batch_free(&s->batch);
    free(s->out);
}

static void path_of(const struct setup *s, const char *kind, char path[TUNING_PATH])
{
    const struct tuning_key key = device_tuning_key(s->session->device);
    tuning_path(folder, kind, &key, path);
}

static void remove_files(const struct setup *s)
{
    char path[TUNING_PATH];
    path_of(s, "tuned", path);
    remove(path);
    path_of(s, "tuning", path);
    remove(path);
}

/* ---- the whole flow: measured, stopped, gone on with ---- */

struct watching {
    size_t left; /* candidates until it is stopped */
    size_t shown;
    uint32_t results, wrong;
};

static bool watch(const char *what, size_t done, size_t total, void *user)
{
    struct watching *w = user;
    assert_true(*what && done <= total);
    w->shown++;
    return !w->left || --w->left;
}

static bool take(const wherry_tune_result *r, void *user)
{
    struct watching *w = user;
    w->results++;
    w->wrong += r->wrong;
    assert_true(r->groups > 0 && *r->group && *r->work && *r->usual && *r->best);
    assert_true(r->best_seconds <= r->usual_seconds);
    assert_true(r->chosen == (strcmp(r->usual, r->best) != 0));
    if (r->measured) assert_true(r->usual_seconds > 0);
    return true;
}

static wherry_status tune(struct setup *s, size_t stop, bool fresh, wherry_tune_summary *summary,
                          struct watching *watching)
{
    const wherry_tune_desc desc = {
        .struct_size = sizeof desc, .candidates = CANDIDATES, .rounds = ROUNDS, .fresh = fresh};
    *summary = (wherry_tune_summary){.struct_size = sizeof *summary};
    *watching = (struct watching){.left = stop};
    return wherry_tune(s->session, &s->batch, &desc, watch, take, watching, summary);
}

static uint32_t log_lines(const struct setup *s)
{
    char path[TUNING_PATH], *text;
    size_t size;
    struct error e;
    uint32_t n = 0;
    path_of(s, "tuning", path);
    assert_true(file_read(&support_host, path, 1 << 24, &text, &size, &e));
    for (char *at = text; (at = strstr(at, "\tmeasured\ttried\t")); at++) n++;
    free(text);
    return n;
}

/* As a process leaves the file that is killed while it writes a line. */
static void tear(const struct setup *s, size_t bytes)
{
    char path[TUNING_PATH], *text;
    size_t size;
    struct error e;
    path_of(s, "tuning", path);
    assert_true(file_read(&support_host, path, 1 << 24, &text, &size, &e) && size > bytes);
    assert_true(cache_write(path, text, size - bytes, &e));
    free(text);
}

static void check_flow(struct setup *s)
{
    wherry_tune_summary first, rest, again;
    struct watching w;
    remove_files(s);
    assert_int_equal(tune(s, 4, false, &first, &w), WHERRY_STATUS_CANCELLED); /* inside the first works */
    uint32_t known = log_lines(s);
    assert_true(known > 0);
    tear(s, 5);
    EXPECT_OK(tune(s, 0, false, &rest, &w));
    assert_int_equal(rest.known, known - 1); /* one measurement is lost */
    assert_int_equal(rest.wrong + rest.failed, 0);
    assert_int_equal(w.results, rest.works);
    assert_true(rest.works >= 6 && rest.measured > rest.known && rest.measured <= CANDIDATES * rest.works);
    assert_true(rest.best_seconds <= rest.usual_seconds && rest.best_seconds > 0);
    assert_int_equal(log_lines(s), rest.measured);
    EXPECT_OK(tune(s, 0, false, &again, &w));
    assert_int_equal(again.known, rest.measured); /* nothing is measured twice */
    assert_int_equal(again.measured, rest.measured);
    assert_int_equal(again.chosen, rest.chosen);
    assert_int_equal(log_lines(s), rest.measured);
    bool exists = false;
    struct error e;
    assert_true(file_exists(again.file, &exists, &e) && exists);
}

/* ---- sessions ---- */

/* Sizes for the group's first call that are not the table's, put into the file as if they had been measured. */
static const struct group *choose_other(struct setup *s, struct choice *chosen, struct call *call)
{
    const struct wherry_session *session = s->session;
    struct choices *list = calloc(1, sizeof *list);
    struct tuning tuning = {0};
    struct tuning_key key = device_tuning_key((session)->device);
    struct choice usual;
    struct call calls[GROUP_MAX_CALLS];
    char path[TUNING_PATH], work[WORK_TEXT], use[CHOICE_TEXT];
    struct error e;
    int g = 0, count;
    while (strcmp(session->calls[group_first_call(session, g)].kernel, "gemm")) g++;
    assert_true(group_calls(&session->graph, &session->groups[g], calls, &count, &e));
    struct sizes sizes = call_sizes(&calls[0], NULL, &session->device_limits, true, TOKENS_MOST, 64);
    assert_true(choice_of(&session->calls[group_first_call(session, g)], NULL, &usual));
    choices_legal(&calls[0], &sizes, list);
    choices_prune(list, &usual, CHOICES_MEASURED, false);
    assert_true(list->n > 0);
    *chosen = list->of[0];
    *call = calls[0];
    work_text(&calls[0], &sizes, work);
    choice_text(chosen, use);
    path_of(s, "tuned", path);
    assert_true(tuning_set(&support_host, &tuning, work, use, 2e-6, 1e-6, &e));
    assert_true(tuning_store(&support_host, path, &key, &tuning, &e));
    tuning_free(&support_host, &tuning);
    free(list);
    return &session->groups[g];
}

static bool uses(const wherry_session *session, int group, const struct choice *choice)
{
    const struct call *call = &session->calls[group_first_call(session, group)];
    bool same = !strcmp(call->kernel, choice->kernel);
    for (int i = 0; i < choice->n_sizes; i++) same &= call_get(call, choice->sizes[i].id, 0) == choice->sizes[i].value;
    return same;
}

static bool no_failure(const wherry_verify_result *result, void *user)
{
    (void)user;
    return result->passed;
}

static bool noted(const wherry_session *session, const char *text)
{
    for (size_t i = 0; wherry_session_note(session, i); i++)
        if (strstr(wherry_session_note(session, i), text)) return true;
    return false;
}

/* A sequence alone and among others: the same bits, with tuned sizes, too. */
static void check_invariance(struct setup *s)
{
    float alone[HIDDEN];
    const uint32_t offsets[] = {0, lengths[1]};
    const wherry_batch one = {.struct_size = sizeof one,
                              .sequences = 1,
                              .offsets = offsets,
                              .ids = s->batch.ids + lengths[0],
                              .types = s->batch.types + lengths[0]};
    EXPECT_OK(wherry_encode(s->session, &s->batch, s->out, s->floats));
    EXPECT_OK(wherry_encode(s->session, &one, alone, HIDDEN));
    assert_memory_equal(alone, s->out + HIDDEN, sizeof alone);
}

/* The session's chosen sizes run, its report names them, and its numbers are right. */
static void check_use(struct setup *s)
{
    struct choice chosen;
    struct call call;
    const struct group *group = choose_other(s, &chosen, &call);
    int index = (int)(group - s->session->groups);
    wherry_group_measure groups[64];
    size_t count = 64;
    const wherry_measure_desc desc = {.struct_size = sizeof desc, .repeats = 2, .warm_seconds = 1e-9};
    wherry_verify_summary verified = {.struct_size = sizeof verified};
    assert_false(uses(s->session, index, &chosen));
    wherry_session_destroy(s->session);
    setup_session(s, NULL, true);
    assert_true(uses(s->session, index, &chosen));
    assert_null(wherry_session_note(s->session, 0));
    EXPECT_OK(wherry_measure(s->session, &s->batch, &desc, groups, &count, NULL));
    assert_non_null(strstr(groups[index].kernels[0].reason, "tuned: 1 us"));
    EXPECT_OK(wherry_verify(s->session, &s->batch, 1, no_failure, NULL, &verified));
    assert_int_equal(verified.failed, 0);
    check_invariance(s);
    wherry_session_destroy(s->session);
    setup_session(s, "", true);
    assert_false(uses(s->session, index, &chosen));
}

/* The file with one thing changed: sessions tell why it is not used, and have the table's sizes. */
static void check_refused(struct setup *s, const char *from, const char *to, const char *note)
{
    struct choice chosen;
    struct call call;
    struct error e;
    char path[TUNING_PATH], *text, *at;
    size_t size;
    int index = (int)(choose_other(s, &chosen, &call) - s->session->groups);
    path_of(s, "tuned", path);
    assert_true(file_read(&support_host, path, 1 << 24, &text, &size, &e));
    assert_non_null(at = strstr(text, from));
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    assert_true(cache_write(path, text, size, &e));
    free(text);
    wherry_session_destroy(s->session);
    setup_session(s, NULL, true);
    if (!noted(s->session, note))
        fail_msg("no note has \"%s\": %s", note,
                 wherry_session_note(s->session, 0) ? wherry_session_note(s->session, 0) : "there is none");
    assert_false(uses(s->session, index, &chosen));
    wherry_session_destroy(s->session);
    setup_session(s, "", true);
}

/* An entry that is whole, and whose sizes no kernel of this library is known to be right with. */
static void check_stale(struct setup *s)
{
    struct choice chosen;
    struct call call;
    struct error e;
    struct tuning tuning = {0};
    struct tuning_key key = device_tuning_key(s->session->device);
    char path[TUNING_PATH], work[WORK_TEXT];
    int index = (int)(choose_other(s, &chosen, &call) - s->session->groups);
    struct sizes sizes = call_sizes(&call, NULL, &s->session->device_limits, true, TOKENS_MOST, 64);
    work_text(&call, &sizes, work);
    path_of(s, "tuned", path);
    assert_true(tuning_set(&support_host, &tuning, work, "gemm 0=64 27=24 28=64", 2e-6, 1e-6, &e));
    assert_true(tuning_store(&support_host, path, &key, &tuning, &e));
    tuning_free(&support_host, &tuning);
    wherry_session_destroy(s->session);
    setup_session(s, path, true); /* by its name */
    assert_true(noted(s->session, "tune again"));
    assert_false(uses(s->session, index, &chosen));
    wherry_session_destroy(s->session);
    setup_session(s, "", true);
}

/* ---- a wrong candidate ---- */

/* Half of the work-items leave half of every tile alone: faster than anything right, and never chosen. */
static void check_wrong(struct setup *s)
{
    struct choice chosen;
    struct call call;
    struct choices *list = calloc(1, sizeof *list);
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    wherry_tune_result result = {.groups = 1};
    wherry_tune_candidate shown[1];
    struct error e = {0};
    struct tuning_key key = device_tuning_key(s->session->device);
    int index = (int)(choose_other(s, &chosen, &call) - s->session->groups), best = 0;
    remove_files(s);
    EXPECT_OK(wherry_session_prepare(s->session, NULL, NULL, NULL));
    assert_true(choice_of(&s->session->calls[group_first_call(s->session, index)], NULL, &list->of[0]));
    assert_int_equal(list->of[0].sizes[0].id, CONST_LOCAL_SIZE);
    list->of[0].sizes[0].value /= 2;
    list->n = 1;
    struct tune t = {.session = s->session,
                     .batch = &s->batch,
                     .desc = {.struct_size = sizeof t.desc, .rounds = ROUNDS, .candidates = 1},
                     .summary = &summary,
                     .shown = shown};
    assert_true(session_batch(s->session, &s->batch, &t.shape, &e));
    assert_true(tune_log_open(&t.log, &s->session->context->host, &key, true, &e));
    if (!tune_work(&t, index, 0, NULL, "a wrong one", list, &result, &best, &e)) fail_msg("%s", e.text);
    assert_int_equal(best, -1);
    assert_int_equal(result.measured, 1);
    assert_int_equal(result.wrong, 1);
    assert_non_null(strstr(result.reason, "differs")); /* every value is written, by others than should */
    assert_int_equal(t.log.count, 1);
    assert_int_equal(t.log.entries[0].verdict, WHERRY_TUNE_WRONG);
    assert_int_equal(result.candidates[0].verdict, WHERRY_TUNE_WRONG);
    assert_string_equal(result.candidates[0].reason, t.log.entries[0].text);
    assert_string_equal(result.usual, result.best);
    tune_log_close(&t.log);
    free(list);
}

/* ---- compiled by several ---- */

/* A cache folder's kernels; `forget`: until now. */
static size_t kernels_in(const char *path, bool forget)
{
    size_t n = 0;
    DIR *of = opendir(path);
    for (const struct dirent *entry; of && (entry = readdir(of));) {
        char file[1024];
        if (*entry->d_name == '.' || !strncmp(entry->d_name, "tun", 3)) continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (forget) remove(file);
        n++;
    }
    if (of) closedir(of);
    return n;
}

/* As a process does that is started anew; shares 0: all is tuned. */
static void tune_share_of(const char *device, const wherry_context_desc *desc, uint32_t share, uint32_t shares)
{
    wherry_context *usual = context;
    struct setup s;
    const wherry_tune_desc tuning = {.struct_size = sizeof tuning,
                                     .candidates = CANDIDATES,
                                     .rounds = ROUNDS,
                                     .fresh = true,
                                     .share = share,
                                     .shares = shares};
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    assert_int_equal(wherry_context_create(desc, &context), WHERRY_STATUS_OK);
    setup_open(&s, device);
    setup_session(&s, "", true);
    EXPECT_OK(wherry_tune(s.session, &s.batch, &tuning, NULL, NULL, NULL, &summary));
    assert_int_equal(summary.works > 0, !shares);
    setup_close(&s);
    wherry_context_destroy(context);
    context = usual;
}

/* Shares are parts of what tuning needs, and together nearly all of it: what stands after a call whose sizes were
 * chosen meanwhile is not known before. */
static void test_shares(void **state)
{
    char other[600];
    struct error e;
    const wherry_context_desc desc = {
        .struct_size = sizeof desc, .cache_dir = other, .unoptimized = context->host.unoptimized};
    if (strncmp(*state, "opencl", 6)) skip(); /* the others keep all kernels in one file, or have none */
    snprintf(other, sizeof other, "%s/shares", folder);
    assert_true(folder_make(other, &e));
    kernels_in(other, true);
    tune_share_of(*state, &desc, 0, 2);
    size_t first = kernels_in(other, false);
    tune_share_of(*state, &desc, 1, 2);
    size_t both = kernels_in(other, false);
    tune_share_of(*state, &desc, 0, 0);
    size_t all = kernels_in(other, false);
    assert_true(first > 0 && first < both);
    if (both > all || 10 * (all - both) > all)
        fail_msg("of %zu kernels %zu are of the first share, %zu of both", all, first, both);
    printf("%zu kernels in the first share, %zu in both, %zu in all\n", first, both, all);
}

/* ---- without memory ---- */

static size_t allocations_left; /* 1: the next one fails */

static void *failing_alloc(size_t size, void *user)
{
    (void)user;
    return allocations_left && !--allocations_left ? NULL : malloc(size);
}

/* Stops where one candidate is measured and others are not. */
static bool until_one(const char *what, size_t done, size_t total, void *user)
{
    (void)what;
    (void)user;
    return !done || done == total;
}

/* Every allocation up to the second measurement fails once, which is an error or does no harm, and the session tunes
 * afterwards. */
static void check_out_of_memory(struct setup *s)
{
    const wherry_tune_desc desc = {.struct_size = sizeof desc, .candidates = CANDIDATES, .rounds = 1, .fresh = true};
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    wherry_status status;
    size_t at = 0;
    do {
        allocations_left = ++at;
        const struct host usual = context->host;
        context->host.alloc = failing_alloc;
        status = wherry_tune(s->session, &s->batch, &desc, until_one, NULL, NULL, &summary);
        context->host.alloc = usual.alloc;
        if (status != WHERRY_STATUS_CANCELLED) assert_int_equal(status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_true(*wherry_last_error(context));
    } while (!allocations_left);
    assert_in_range(at, 10, 1000);
}

/* ---- all devices ---- */

static void test_device(void **state)
{
    struct setup s;
    wherry_tune_summary summary;
    struct watching w;
    setup_open(&s, *state);
    setup_session(&s, "", true);
    if (has_no_sizes(&s)) {
        assert_int_equal(tune(&s, 0, false, &summary, &w), WHERRY_STATUS_UNSUPPORTED);
        setup_close(&s);
        return;
    }
    check_flow(&s);
    check_out_of_memory(&s);
    /* What follows changes sizes of the portable product. */
    wherry_session_destroy(s.session);
    s.gemm = "tiled";
    setup_session(&s, "", true);
    check_use(&s);
    check_refused(&s, "driver ", "Driver ", "its header has no driver");
    check_refused(&s, "wherry-tuning 1", "wherry-tuning 9", "does not begin with");
    check_refused(&s, "1.0000", "1.0001", "1 are not used: their lines are damaged");
    char other[32] = "device ";
    snprintf(other, sizeof other, "device %.3s", "abc");
    check_refused(&s, !strncmp(*state, "opencl", 6) ? "device ope" : "device vul", other, "it is of the device \"abc");
    check_stale(&s);
    check_wrong(&s);
    remove_files(&s);
    setup_close(&s);
}

/* Tuning on tuned sizes would compare with what it chose, and without all tensors groups lack their inputs. */
static void test_arguments(void **state)
{
    struct setup s;
    wherry_tune_summary summary;
    struct watching w;
    setup_open(&s, *state);
    setup_session(&s, "", false);
    if (!has_no_sizes(&s)) {
        assert_int_equal(tune(&s, 0, false, &summary, &w), WHERRY_STATUS_INVALID_ARGUMENT);
        summary.struct_size = 1;
        assert_int_equal(wherry_tune(s.session, &s.batch, NULL, NULL, NULL, NULL, &summary),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        const wherry_tune_desc third = {.struct_size = sizeof third, .share = 2, .shares = 2};
        summary.struct_size = sizeof summary;
        wherry_session_destroy(s.session);
        setup_session(&s, "", true);
        assert_int_equal(wherry_tune(s.session, &s.batch, &third, NULL, NULL, NULL, &summary),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        assert_int_equal(wherry_tune(NULL, &s.batch, NULL, NULL, NULL, NULL, &summary), WHERRY_STATUS_INVALID_ARGUMENT);
    }
    setup_close(&s);
}

int main(void)
{
    struct CMUnitTest tests[3 * SUPPORT_MAX_DEVICES + 4] = {
        cmocka_unit_test(test_constants), cmocka_unit_test(test_candidates), cmocka_unit_test(test_works),
        cmocka_unit_test(test_variants)};
    size_t n = 4;
    if (!(context = support_tuning_context("tune", folder, sizeof folder, devices, &n_devices))) return 1;
    for (size_t d = 0; d < n_devices; d++) {
        tests[n++] = (struct CMUnitTest){devices[d], test_device, NULL, NULL, devices[d]};
        tests[n++] = (struct CMUnitTest){devices[d], test_arguments, NULL, NULL, devices[d]};
        tests[n++] = (struct CMUnitTest){devices[d], test_shares, NULL, NULL, devices[d]};
    }
    int failed = _cmocka_run_group_tests("tune", tests, n, NULL, NULL);
    wherry_context_destroy(context);
    return failed != 0;
}
