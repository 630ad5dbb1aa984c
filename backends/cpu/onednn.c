/* The only file that knows oneDNN's API, whose names changed from version 2 to 3: a build knows that of its headers.
 * The library is opened when it is asked for, never linked. Bias, activation and residual are post-operations. Whoever
 * calls is the only thread: OpenMP, with which distributions build it, is kept to one. */
#include "backends/cpu/onednn.h"

#ifdef WHERRY_HAVE_ONEDNN

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/platform.h"
#include "interface/interface.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define MAJOR TEXT(DNNL_VERSION_MAJOR)

/* ---- the library ---- */
#define FUNCTIONS_OF_BOTH(X)                                                                                           \
    X(engine_create)                                                                                                   \
    X(engine_destroy)                                                                                                  \
    X(memory_create)                                                                                                   \
    X(memory_destroy)                                                                                                  \
    X(memory_desc_get_size)                                                                                            \
    X(post_ops_append_binary)                                                                                          \
    X(post_ops_append_eltwise)                                                                                         \
    X(post_ops_create)                                                                                                 \
    X(post_ops_destroy)                                                                                                \
    X(primitive_attr_create)                                                                                           \
    X(primitive_attr_destroy)                                                                                          \
    X(primitive_attr_set_fpmath_mode)                                                                                  \
    X(primitive_attr_set_post_ops)                                                                                     \
    X(primitive_attr_set_scratchpad_mode)                                                                              \
    X(primitive_create)                                                                                                \
    X(primitive_desc_destroy)                                                                                          \
    X(primitive_desc_query)                                                                                            \
    X(primitive_desc_query_md)                                                                                         \
    X(primitive_destroy)                                                                                               \
    X(primitive_execute)                                                                                               \
    X(reorder_primitive_desc_create)                                                                                   \
    X(stream_create)                                                                                                   \
    X(stream_destroy)                                                                                                  \
    X(stream_wait)                                                                                                     \
    X(version)
#if DNNL_VERSION_MAJOR >= 3
#define FUNCTIONS(X)                                                                                                   \
    FUNCTIONS_OF_BOTH(X)                                                                                               \
    X(matmul_primitive_desc_create)                                                                                    \
    X(memory_desc_create_with_strides)                                                                                 \
    X(memory_desc_create_with_tag)                                                                                     \
    X(memory_desc_destroy)
#else
#define FUNCTIONS(X)                                                                                                   \
    FUNCTIONS_OF_BOTH(X)                                                                                               \
    X(matmul_desc_init)                                                                                                \
    X(memory_desc_init_by_strides)                                                                                     \
    X(memory_desc_init_by_tag)                                                                                         \
    X(primitive_desc_create)
#endif

struct onednn {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(MEMBER)
    int (*threads)(void); /* OpenMP's, for the thread that asks; NULL: it was built without */
    void (*set_threads)(int);
    dnnl_engine_t engine;
    char name[32];
};

/* The first library that is there; NULL: none. WHERRY_ONEDNN_NAME is the headers' own (cmake/onednn.cmake). */
static const char *library_name(void)
{
    static const char *const names[] = {WHERRY_ONEDNN_NAME, "libdnnl.so." MAJOR,
                                        "libdnnl.so." MAJOR "." TEXT(DNNL_VERSION_MINOR)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const name[] = {names[i], NULL};
        if (library_find(name, "dnnl_version")) return names[i];
    }
    return NULL;
}

static bool version_read(struct onednn *o, const char *found, struct error *e)
{
    const char *const name[] = {found, NULL};
    library_function function = library_find(name, "dnnl_version");
    memcpy(&o->version, &function, sizeof function);
    const dnnl_version_t *version = o->version();
    snprintf(o->name, sizeof o->name, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    if (version->major == DNNL_VERSION_MAJOR) return true;
    return fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%s is %s, and this build knows the functions of oneDNN " MAJOR
                ": install that, or build with the other's headers",
                found, o->name);
}

static bool functions_read(struct onednn *o, const char *found, struct error *e)
{
    const char *const name[] = {found, NULL};
    library_function function;
#define FIND(symbol)                                                                                                   \
    if (!(function = library_find(name, "dnnl_" #symbol)))                                                             \
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s, %s, has no dnnl_" #symbol, found, o->name);                     \
    memcpy(&o->symbol, &function, sizeof function);
    FUNCTIONS(FIND)
    return true;
}

/* What keeps it to the calling thread. The process is asked first: an application that was linked with another OpenMP
 * gives oneDNN that one. */
static bool threads_read(struct onednn *o, const char *found, struct error *e)
{
    const char *const names[] = {"", found, NULL};
    unsigned runtime = o->version()->cpu_runtime;
    if (runtime == DNNL_RUNTIME_SEQ) return true;
    library_function get = library_find(names, "omp_get_max_threads"), set = library_find(names, "omp_set_num_threads");
    if (runtime != DNNL_RUNTIME_OMP || !get || !set)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s, %s, was built with threads (%u of its DNNL_RUNTIME_) that can't be kept to one: use one that "
                    "was built with OpenMP, or without threads",
                    found, o->name, runtime);
    memcpy(&o->threads, &get, sizeof get);
    memcpy(&o->set_threads, &set, sizeof set);
    return true;
}

bool onednn_open(const struct host *host, struct onednn **out, struct error *e)
{
    const char *found = library_name();
    if (!found)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "oneDNN can't be loaded: the system finds no usable " WHERRY_ONEDNN_NAME ". Install oneDNN " MAJOR
                    ", the major version that this build is for, or ask for other kernels");
    struct onednn *o = host_alloc(host, 1, sizeof *o, e);
    if (!o) return false;
    bool ok = version_read(o, found, e) && threads_read(o, found, e) && functions_read(o, found, e);
    if (ok) {
        int status = (int)o->engine_create(&o->engine, dnnl_cpu, 0);
        ok = !status || fail_native(e, WHERRY_STATUS_UNSUPPORTED, status,
                                    "%s has no engine for this processor: status %d", o->name, status);
    }
    if (ok)
        *out = o;
    else
        host_free(host, o);
    return ok;
}

void onednn_close(const struct host *host, struct onednn *o)
{
    if (!o) return;
    o->engine_destroy(o->engine);
    host_free(host, o);
}

const char *onednn_name(const struct onednn *o) { return o->name; }

/* OpenMP keeps a number for each thread that asks, and one of ours is the application's. */
static int threads_one(const struct onednn *o)
{
    int before = o->threads ? o->threads() : 1;
    if (before != 1) o->set_threads(1);
    return before;
}

static void threads_back(const struct onednn *o, int before)
{
    if (before != 1) o->set_threads(before);
}

/* ---- descriptions, whose functions the versions have by other names ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t desc_view;
static desc_view view(const dnnl_memory_desc_t *d) { return *d; }
static int desc_make(const struct onednn *o, dnnl_memory_desc_t *d, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return (int)o->memory_desc_create_with_strides(d, 2, dims, dnnl_f32, strides);
}
static int desc_make_any(const struct onednn *o, dnnl_memory_desc_t *d, const dnnl_dims_t dims)
{
    return (int)o->memory_desc_create_with_tag(d, 2, dims, dnnl_f32, dnnl_format_tag_any);
}
static void desc_free(const struct onednn *o, dnnl_memory_desc_t *d)
{
    if (*d) o->memory_desc_destroy(*d);
}
static int append_eltwise(const struct onednn *o, dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    return (int)o->post_ops_append_eltwise(ops, kind, 0.0f, 0.0f);
}
static int matmul_make(const struct onednn *o, dnnl_primitive_desc_t *out, desc_view x, desc_view w, desc_view bias,
                       desc_view y, dnnl_primitive_attr_t attributes)
{
    return (int)o->matmul_primitive_desc_create(out, o->engine, x, w, bias, y, attributes);
}
#else
typedef const dnnl_memory_desc_t *desc_view;
static desc_view view(const dnnl_memory_desc_t *d) { return d; }
static int desc_make(const struct onednn *o, dnnl_memory_desc_t *d, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return (int)o->memory_desc_init_by_strides(d, 2, dims, dnnl_f32, strides);
}
static int desc_make_any(const struct onednn *o, dnnl_memory_desc_t *d, const dnnl_dims_t dims)
{
    return (int)o->memory_desc_init_by_tag(d, 2, dims, dnnl_f32, dnnl_format_tag_any);
}
static void desc_free(const struct onednn *o, dnnl_memory_desc_t *d) { (void)o, (void)d; }
static int append_eltwise(const struct onednn *o, dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    return (int)o->post_ops_append_eltwise(ops, 1.0f, kind, 0.0f, 0.0f);
}
static int matmul_make(const struct onednn *o, dnnl_primitive_desc_t *out, desc_view x, desc_view w, desc_view bias,
                       desc_view y, dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t desc;
    int status = (int)o->matmul_desc_init(&desc, x, w, bias, y);
    return status ? status : (int)o->primitive_desc_create(out, &desc, attributes, o->engine, NULL);
}
#endif

/* ---- primitives ---- */

struct onednn_block {
    struct onednn_work work;
    dnnl_memory_desc_t bias, plain, any;
    desc_view packed; /* the weight as the primitive of most rows wants it, and all take it */
    dnnl_primitive_desc_t reorder_desc;
    dnnl_primitive_t reorder;
    struct rows {
        dnnl_memory_desc_t x, y;
        dnnl_primitive_desc_t desc;
        dnnl_primitive_t primitive;
    } rows[ONEDNN_SIZES];
    size_t packed_floats, scratch_floats;
};

static const dnnl_alg_kind_t activations[] = {[ACTIVATION_RELU] = dnnl_eltwise_relu,
                                              [ACTIVATION_GELU] = dnnl_eltwise_gelu_erf,
                                              [ACTIVATION_GELU_TANH] = dnnl_eltwise_gelu_tanh,
                                              [ACTIVATION_TANH] = dnnl_eltwise_tanh};

static int append_all(const struct onednn *o, const struct onednn_work *work, const struct rows *r, dnnl_post_ops_t ops)
{
    int status = 0;
    if (work->activation >= sizeof activations / sizeof *activations) return (int)dnnl_unimplemented;
    if (work->activation != ACTIVATION_NONE) status = append_eltwise(o, ops, activations[work->activation]);
    if (!status && work->residual) status = (int)o->post_ops_append_binary(ops, dnnl_binary_add, view(&r->y));
    return status;
}

/* 32-bit products whatever the environment says, and scratch memory of the caller's. */
static int attributes_make(const struct onednn *o, dnnl_primitive_attr_t *out)
{
    int status = (int)o->primitive_attr_create(out);
    if (!status) status = (int)o->primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
    if (!status) status = (int)o->primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return status;
}

static size_t floats_of(const struct onednn *o, desc_view d)
{
    return (o->memory_desc_get_size(d) + sizeof(float) - 1) / sizeof(float);
}

static int rows_make(const struct onednn *o, struct onednn_block *b, struct rows *r, size_t rows)
{
    const struct onednn_work *work = &b->work;
    const dnnl_dims_t x = {(int64_t)rows, (int64_t)work->k}, x_strides = {(int64_t)work->x_row, 1},
                      y = {(int64_t)rows, (int64_t)work->columns}, y_strides = {(int64_t)work->y_row, 1};
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    int status = desc_make(o, &r->x, x, x_strides);
    if (!status) status = desc_make(o, &r->y, y, y_strides);
    if (!status) status = attributes_make(o, &attributes);
    if (!status) status = (int)o->post_ops_create(&ops);
    if (!status) status = append_all(o, work, r, ops);
    if (!status) status = (int)o->primitive_attr_set_post_ops(attributes, ops);
    if (!status)
        status = matmul_make(o, &r->desc, view(&r->x), b->packed ? b->packed : view(&b->any),
                             work->bias ? view(&b->bias) : NULL, view(&r->y), attributes);
    if (ops) o->post_ops_destroy(ops);
    if (attributes) o->primitive_attr_destroy(attributes);
    if (status) return status;
    size_t scratch = floats_of(o, o->primitive_desc_query_md(r->desc, dnnl_query_scratchpad_md, 0));
    if (scratch > b->scratch_floats) b->scratch_floats = scratch;
    return (int)o->primitive_create(&r->primitive, r->desc);
}

/* Packing has no scratch memory to give. */
static int reorder_make(const struct onednn *o, struct onednn_block *b)
{
    dnnl_primitive_attr_t attributes = NULL;
    int status = attributes_make(o, &attributes);
    if (!status)
        status = (int)o->reorder_primitive_desc_create(&b->reorder_desc, view(&b->plain), o->engine, b->packed,
                                                       o->engine, attributes);
    if (attributes) o->primitive_attr_destroy(attributes);
    if (status) return status;
    if (floats_of(o, o->primitive_desc_query_md(b->reorder_desc, dnnl_query_scratchpad_md, 0)))
        return (int)dnnl_unimplemented;
    return (int)o->primitive_create(&b->reorder, b->reorder_desc);
}

static int block_make(const struct onednn *o, struct onednn_block *b)
{
    const struct onednn_work *work = &b->work;
    const dnnl_dims_t w = {(int64_t)work->k, (int64_t)work->columns},
                      strides = {(int64_t)work->w_step, (int64_t)work->w_row}, bias = {1, (int64_t)work->columns},
                      bias_strides = {(int64_t)work->columns, 1};
    int status = desc_make_any(o, &b->any, w);
    if (!status) status = desc_make(o, &b->plain, w, strides);
    if (!status) status = desc_make(o, &b->bias, bias, bias_strides);
    for (int i = 0; !status && i < ONEDNN_SIZES; i++) {
        status = rows_make(o, b, &b->rows[i], onednn_rows(i));
        if (!status) b->packed = o->primitive_desc_query_md(b->rows[0].desc, dnnl_query_weights_md, 0);
    }
    if (!status) b->packed_floats = floats_of(o, b->packed);
    return status ? status : reorder_make(o, b);
}

struct onednn_block *onednn_block_create(const struct onednn *o, const struct host *host,
                                         const struct onednn_work *work, struct error *e)
{
    struct onednn_block *b = host_alloc(host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->work = *work;
    int before = threads_one(o), status = block_make(o, b);
    threads_back(o, before);
    if (!status) return b;
    fail_native(e, status == (int)dnnl_out_of_memory ? WHERRY_STATUS_OUT_OF_HOST_MEMORY : WHERRY_STATUS_UNSUPPORTED,
                status,
                status == (int)dnnl_unimplemented ? "it has no kernel for this product"
                                                  : "it makes no kernel for this product: status %d of dnnl_types.h",
                status);
    onednn_block_destroy(o, host, b);
    return NULL;
}

void onednn_block_destroy(const struct onednn *o, const struct host *host, struct onednn_block *b)
{
    if (!b) return;
    for (int i = 0; i < ONEDNN_SIZES; i++) {
        struct rows *r = &b->rows[i];
        if (r->primitive) o->primitive_destroy(r->primitive);
        if (r->desc) o->primitive_desc_destroy(r->desc);
        desc_free(o, &r->x);
        desc_free(o, &r->y);
    }
    if (b->reorder) o->primitive_destroy(b->reorder);
    if (b->reorder_desc) o->primitive_desc_destroy(b->reorder_desc);
    desc_free(o, &b->any);
    desc_free(o, &b->plain);
    desc_free(o, &b->bias);
    host_free(host, b);
}

const char *onednn_block_kernel(const struct onednn *o, const struct onednn_block *b)
{
    const char *name = NULL;
    o->primitive_desc_query(b->rows[0].desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name ? name : "?";
}

size_t onednn_packed(const struct onednn_block *b) { return b->packed_floats; }
size_t onednn_scratch(const struct onednn_block *b) { return b->scratch_floats; }

/* ---- running ---- */

/* Its objects are no two threads' at once, but for primitives and packed weights, which calls only read. */
struct argument {
    int id;
    desc_view desc;
    const float *data; /* NULL: there is none */
};

enum { MOST_ARGUMENTS = 6 };

static int execute(const struct onednn *o, dnnl_primitive_t primitive, dnnl_exec_arg_t *args, int known,
                   const struct argument *more, int n_more)
{
    int n = known, before = threads_one(o);
    dnnl_stream_t stream = NULL;
    int status = (int)o->stream_create(&stream, o->engine, dnnl_stream_default_flags);
    for (int i = 0; !status && i < n_more; i++) {
        if (!more[i].data) continue;
        args[n].arg = more[i].id;
        status = (int)o->memory_create(&args[n].memory, more[i].desc, o->engine, (void *)(uintptr_t)more[i].data);
        n += !status;
    }
    if (!status) status = (int)o->primitive_execute(primitive, stream, n, args);
    if (!status) status = (int)o->stream_wait(stream);
    while (n > known) o->memory_destroy(args[--n].memory);
    if (stream) o->stream_destroy(stream);
    threads_back(o, before);
    return status;
}

/* A pointer to this is a dnnl_memory_t. */
struct onednn_panel *onednn_panel_create(const struct onednn *o, const struct onednn_block *b, float *packed)
{
    dnnl_memory_t memory;
    int before = threads_one(o), status = (int)o->memory_create(&memory, b->packed, o->engine, packed);
    threads_back(o, before);
    return status ? NULL : (struct onednn_panel *)memory;
}

void onednn_panel_destroy(const struct onednn *o, struct onednn_panel *panel)
{
    if (panel) o->memory_destroy((dnnl_memory_t)panel);
}

int onednn_pack(const struct onednn *o, const struct onednn_block *b, const float *w, struct onednn_panel *panel)
{
    dnnl_exec_arg_t args[MOST_ARGUMENTS] = {{DNNL_ARG_TO, (dnnl_memory_t)panel}};
    const struct argument from = {DNNL_ARG_FROM, view(&b->plain), w};
    return execute(o, b->reorder, args, 1, &from, 1);
}

int onednn_multiply(const struct onednn *o, const struct onednn_block *b, int size, const struct onednn_operands *at)
{
    const struct rows *r = &b->rows[size];
    const int second = DNNL_ARG_ATTR_MULTIPLE_POST_OP(b->work.activation != ACTIVATION_NONE) | DNNL_ARG_SRC_1;
    dnnl_exec_arg_t args[MOST_ARGUMENTS] = {{DNNL_ARG_WEIGHTS, (dnnl_memory_t)(uintptr_t)at->w}};
    const struct argument more[] = {
        {DNNL_ARG_SRC, view(&r->x), at->x},
        {DNNL_ARG_DST, view(&r->y), at->y},
        {DNNL_ARG_BIAS, view(&b->bias), b->work.bias ? at->bias : NULL},
        {second, view(&r->y), b->work.residual ? at->residual : NULL},
        {DNNL_ARG_SCRATCHPAD, o->primitive_desc_query_md(r->desc, dnnl_query_scratchpad_md, 0), at->scratch}};
    return execute(o, r->primitive, args, 1, more, sizeof more / sizeof *more);
}

#endif
