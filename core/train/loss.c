/* A loss as a session without a model: its graph is a loss's, and its plan, memory and program are made as any other's.
 */
#include "train/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "runtime/encode.h"
#include "runtime/plan.h"
#include "runtime/prepare.h"
#include "runtime/rungs.h"
#include "runtime/submit.h"

enum { LABELS_MOST = 1 << 24 }; /* numbers of columns that a float holds */

struct loss {
    struct wherry_session *session;
    struct loss_options options; /* with lists of its own, below */
    uint32_t dimensions[LOSS_DIMENSIONS_MOST];
    float dimension_weights[LOSS_DIMENSIONS_MOST];
    float *class_weights;                 /* [length], NULL: 1 each */
    uint32_t parts, columns, length;      /* parts: losses that are summed, one for each dimension */
    uint32_t examples;                    /* at most */
    int targets[LOSS_DIMENSIONS_MOST];    /* tensors */
    float *storage[LOSS_DIMENSIONS_MOST]; /* [examples][targets + 1]: what they hold in a run */
    uint32_t *offsets;                    /* [examples + 1] */
    float values[LOSS_UNDER_WAY];         /* of runs under way, by slot */
    int oldest, under_way;                /* slots */
};

/* ---- kinds ---- */

static const struct kind_row {
    const char *name;
    uint32_t fewest, most; /* columns */
    bool labels, values, cuts, scaled;
} kind_rows[LOSS_KINDS] = {
    [LOSS_CONTRASTIVE] = {"contrastive", 2, UINT32_MAX, false, false, true, true},
    [LOSS_COSENT] = {"cosent", 2, 2, false, true, true, true},
    [LOSS_COSINE] = {"cosine", 2, 2, false, true, true, false},
    [LOSS_VECTORS] = {"vectors", 1, 1, false, true, true, false},
    [LOSS_MARGIN] = {"margin", 3, 3, false, true, true, false},
    [LOSS_CLASSES] = {"classes", 1, 1, true, false, false, false},
    [LOSS_BINARY] = {"binary", 1, 1, false, true, false, false},
    [LOSS_REGRESSION] = {"regression", 1, 1, false, true, false, false},
};

uint32_t loss_columns(enum loss_kind kind) { return kind_rows[kind].fewest; }

size_t loss_targets_each(enum loss_kind kind, size_t row_length)
{
    if (kind == LOSS_CONTRASTIVE) return 0;
    return loss_row_targets(kind, 2) > 1 ? row_length : 1;
}

static const char *name_of(const struct loss *l) { return kind_rows[l->options.kind].name; }

/* ---- options ---- */

static bool positive(float x) { return isfinite(x) && x > 0; }

static bool check_dimensions(const struct loss_options *o, size_t length, struct error *e)
{
    const struct kind_row *kind = &kind_rows[o->kind];
    if (!o->n_dimensions) return true;
    if (!kind->cuts)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the loss %s is of scores, which are not cut: leave the dimensions out", kind->name);
    if (o->n_dimensions > LOSS_DIMENSIONS_MOST || !o->dimensions)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%u dimensions of a loss: there may be 1 to %d in a list",
                    (unsigned)o->n_dimensions, LOSS_DIMENSIONS_MOST);
    for (uint32_t k = 0; k < o->n_dimensions; k++) {
        if (!o->dimensions[k] || o->dimensions[k] > length)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "vectors cut to %u dimensions: these have %zu",
                        (unsigned)o->dimensions[k], length);
        if (o->dimension_weights && !(isfinite(o->dimension_weights[k]) && o->dimension_weights[k] >= 0))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the weight of %u dimensions is %s: it must be at least 0",
                        (unsigned)o->dimensions[k], NUMBER("%g", (double)o->dimension_weights[k]));
    }
    return true;
}

static bool check_numbers(const struct loss_options *o, size_t length, struct error *e)
{
    const struct kind_row *kind = &kind_rows[o->kind];
    if (o->scale != 0 && !(kind->scaled && positive(o->scale)))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a scale of %s: the losses contrastive and cosent have one, above 0",
                    NUMBER("%g", (double)o->scale));
    if (o->positive_weight != 0 && !(o->kind == LOSS_BINARY && positive(o->positive_weight)))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a positive weight of %s: the loss binary has one, above 0",
                    NUMBER("%g", (double)o->positive_weight));
    if (o->symmetric && o->kind != LOSS_CONTRASTIVE)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss %s is not symmetric: contrastive can be", kind->name);
    if (o->class_weights && o->kind != LOSS_CLASSES)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss %s has no classes to weigh", kind->name);
    for (size_t c = 0; o->class_weights && c < length; c++)
        if (!(isfinite(o->class_weights[c]) && o->class_weights[c] >= 0))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the weight of class %zu is %s: it must be at least 0", c,
                        NUMBER("%g", (double)o->class_weights[c]));
    return true;
}

static bool check_options(const struct loss_options *o, size_t max_rows, size_t length, struct error *e)
{
    if ((unsigned)o->kind >= LOSS_KINDS)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "loss %d is none of the kinds of losses", (int)o->kind);
    const struct kind_row *kind = &kind_rows[o->kind];
    uint32_t columns = o->columns ? o->columns : kind->fewest;
    if (columns < kind->fewest || columns > kind->most)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss %s of examples of %u texts: it takes %u%s", kind->name,
                    (unsigned)columns, (unsigned)kind->fewest, kind->most > kind->fewest ? " or more" : "");
    if (!length || max_rows < columns || max_rows % columns)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the loss %s of at most %zu rows of %zu values: an example has %u rows, and there must be one",
                    kind->name, max_rows, length, (unsigned)columns);
    if (length >= LABELS_MOST || max_rows >= LABELS_MOST)
        return fail(e, WHERRY_STATUS_TOO_LONG, "the loss %s of %zu rows of %zu values: there may be %d of each",
                    kind->name, max_rows, length, LABELS_MOST - 1);
    return check_dimensions(o, length, e) && check_numbers(o, length, e);
}

static bool take_options(struct loss *l, const struct host *host, const struct loss_options *o, size_t max_rows,
                         size_t length, struct error *e)
{
    l->options = *o;
    l->length = (uint32_t)length;
    l->columns = o->columns ? o->columns : kind_rows[o->kind].fewest;
    l->examples = (uint32_t)(max_rows / l->columns);
    l->parts = o->n_dimensions ? o->n_dimensions : 1;
    for (uint32_t k = 0; k < l->parts; k++) {
        l->dimensions[k] = o->n_dimensions ? o->dimensions[k] : l->length;
        l->dimension_weights[k] = o->n_dimensions && o->dimension_weights ? o->dimension_weights[k] : 1;
    }
    l->options.dimensions = l->dimensions;
    if (!o->class_weights) return true;
    l->class_weights = host_alloc(host, length, sizeof *l->class_weights, e);
    if (l->class_weights) memcpy(l->class_weights, o->class_weights, length * sizeof *l->class_weights);
    return l->class_weights != NULL;
}

/* ---- life ---- */

static const struct wherry_model no_model;

static bool plan(struct loss *l, struct error *e)
{
    static const wherry_session_desc defaults = {.struct_size = sizeof defaults};
    struct wherry_session *s = l->session;
    const struct loss_options *o = &l->options;
    const struct loss_graph_options graph = {.kind = o->kind,
                                             .scale = !kind_rows[o->kind].scaled ? 1
                                                      : o->scale > 0             ? o->scale
                                                                                 : 20,
                                             .symmetric = o->symmetric,
                                             .positive_weight = o->positive_weight > 0 ? o->positive_weight : 1,
                                             .columns = l->columns,
                                             .length = l->length,
                                             .examples = l->examples,
                                             .dimensions = l->dimensions,
                                             .n_dimensions = o->n_dimensions};
    bool over;
    if (!(s->plan = plan_find("unfused", e))) return false;
    s->max_length = l->columns;
    s->limits = (struct batch_shape){.sequences = l->examples,
                                     .tokens = (uint64_t)l->examples * l->columns,
                                     .pairs = (uint64_t)l->examples * l->columns * l->columns,
                                     .longest = l->columns};
    s->keep = o->keep;
    TRY(loss_graph_create(&s->context->host, &graph, &s->graph, l->targets, e));
    TRY(session_rungs(s, NULL, e) && session_cover(s, NULL, false, e));
    if (!session_place(s, &defaults, &over, e)) {
        struct error cause = *e;
        return over && fail(e, cause.status, "the loss %s: %.600s use fewer examples", name_of(l), cause.text);
    }
    return session_finish(s, e) && (o->planned || session_prepare(s, NULL, NULL, NULL, e));
}

static uint32_t row_targets(const struct loss *l, uint32_t part)
{
    return loss_row_targets(l->options.kind, l->dimensions[part]);
}

static bool make(struct loss *l, struct error *e)
{
    const struct host *host = &l->session->context->host;
    TRY(plan(l, e));
    if (!(l->offsets = host_alloc(host, (size_t)l->examples + 1, sizeof *l->offsets, e))) return false;
    for (uint32_t i = 0; i <= l->examples; i++) l->offsets[i] = i * l->columns;
    for (uint32_t k = 0; k < l->parts; k++) {
        size_t floats = (size_t)l->examples * (row_targets(l, k) + 1);
        if (!(l->storage[k] = host_alloc(host, floats, sizeof *l->storage[k], e))) return false;
    }
    return true;
}

struct loss *loss_create(struct wherry_device *device, const struct loss_options *options, size_t max_rows,
                         size_t row_length, struct error *e)
{
    struct wherry_context *context = device->context;
    if (!check_options(options, max_rows, row_length, e)) return NULL;
    struct loss *l = host_alloc(&context->host, 1, sizeof *l, e);
    if (!l) return NULL;
    l->session = session_new(context, device, &no_model, e);
    if (l->session && take_options(l, &context->host, options, max_rows, row_length, e) && make(l, e)) return l;
    if (l->session)
        loss_destroy(l);
    else
        host_free(&context->host, l);
    return NULL;
}

void loss_destroy(struct loss *loss)
{
    if (!loss) return;
    const struct host *host = &loss->session->context->host;
    for (uint32_t k = 0; k < LOSS_DIMENSIONS_MOST; k++) host_free(host, loss->storage[k]);
    host_free(host, loss->class_weights);
    host_free(host, loss->offsets);
    wherry_session_destroy(loss->session);
    host_free(host, loss);
}

struct wherry_session *loss_session(const struct loss *loss) { return loss->session; }

/* ---- targets ---- */

static bool check_labels(const struct loss *l, const struct loss_targets *t, struct error *e)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->labels[i] != LOSS_IGNORED && (t->labels[i] < 0 || (uint32_t)t->labels[i] >= l->length))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "the label of row %zu is %d: there are %u classes from 0 on, and %d for rows that do not count",
                        i, (int)t->labels[i], (unsigned)l->length, LOSS_IGNORED);
    return true;
}

static bool check_values(const struct loss *l, const struct loss_targets *t, struct error *e)
{
    size_t each = loss_targets_each(l->options.kind, l->length);
    for (size_t i = 0; i < t->count; i++) {
        if (!isfinite(t->values[i]))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "target %zu of example %zu is %s, no finite number",
                        i % each, i / each, NUMBER("%g", (double)t->values[i]));
        if (l->options.kind == LOSS_BINARY && !(t->values[i] >= 0 && t->values[i] <= 1))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "target %zu of example %zu is %s: the loss binary wants 0 to 1", i % each, i / each,
                        NUMBER("%g", (double)t->values[i]));
    }
    return true;
}

static bool check_targets(const struct loss *l, const struct loss_targets *t, size_t examples, struct error *e)
{
    const struct kind_row *kind = &kind_rows[l->options.kind];
    size_t want = examples * loss_targets_each(l->options.kind, l->length);
    if (t->count != want)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss %s of %zu examples has %zu targets, not %zu",
                    kind->name, examples, want, t->count);
    if ((kind->labels && !t->labels) || (kind->values && !t->values))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "the loss %s needs %s", kind->name,
                    kind->labels ? "labels" : "values");
    if (kind->labels) return check_labels(l, t, e);
    return !kind->values || check_values(l, t, e);
}

static double class_weight(const struct loss *l, int32_t label)
{
    if (label == LOSS_IGNORED) return 0;
    return l->class_weights ? (double)l->class_weights[label] : 1;
}

/* A row that does not count has the weight 0, and any label. */
static bool fill_labels(const struct loss *l, const int32_t *labels, size_t rows, float *out, struct error *e)
{
    double all = 0;
    for (size_t r = 0; r < rows; r++) all += class_weight(l, labels[r]);
    if (!(all > 0))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "no row of this batch counts: each label is %d or of a class of weight 0", LOSS_IGNORED);
    for (size_t r = 0; r < rows; r++) {
        double weight = class_weight(l, labels[r]);
        out[2 * r] = weight > 0 ? (float)labels[r] : 0;
        out[2 * r + 1] = (float)(weight / all);
    }
    return true;
}

/* The leading values of a target vector, of length 1 where vectors are cut. */
static void fill_values(const struct loss *l, const float *values, uint32_t width, float *out)
{
    double square = 0, length = 1;
    for (uint32_t c = 0; c < width; c++) square += (double)values[c] * (double)values[c];
    if (l->options.kind == LOSS_VECTORS && l->options.n_dimensions) length = square > 1e-24 ? sqrt(square) : 1e-12;
    for (uint32_t c = 0; c < width; c++) out[c] = (float)((double)values[c] / length);
}

static bool fill_targets(const struct loss *l, uint32_t part, const struct loss_targets *t, size_t examples,
                         struct error *e)
{
    size_t each = loss_targets_each(l->options.kind, l->length);
    uint32_t width = row_targets(l, part);
    double weight = (double)l->dimension_weights[part] / ((double)width * (double)examples);
    float *out = l->storage[part];
    if (l->options.kind == LOSS_CLASSES) return fill_labels(l, t->labels, examples, out, e);
    if (l->options.kind == LOSS_COSENT) weight = (double)l->dimension_weights[part];
    if (l->options.symmetric) weight /= 2;
    for (size_t r = 0; r < examples; r++, out += width + 1) {
        if (each)
            fill_values(l, t->values + r * each, width, out);
        else
            out[0] = (float)r;
        out[width] = (float)weight;
    }
    return true;
}

/* ---- running ---- */

static bool check_count(const struct loss *l, size_t n, float scale, struct error *e)
{
    size_t most = (size_t)l->examples * l->columns;
    if (!n || n % l->columns)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the loss %s of %zu rows: examples have %u rows each, and there "
                    "must be one",
                    name_of(l), n, (unsigned)l->columns);
    if (n > most)
        return fail(e, WHERRY_STATUS_TOO_LONG, "the loss %s of %zu rows: it was made for %zu", name_of(l), n, most);
    if (!isfinite(scale) || scale == 0)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "gradients scaled by %s", NUMBER("%g", (double)scale));
    return true;
}

static bool check_rows(const struct loss *l, const float *rows, size_t n, struct error *e)
{
    for (size_t i = 0; i < n * l->length; i++)
        if (!isfinite(rows[i]))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "value %zu of row %zu is %s, no finite number: the model's "
                        "output has overflowed, or its weights have",
                        i % l->length, i / l->length, NUMBER("%g", (double)rows[i]));
    return true;
}

enum { UPLOADS = SESSION_UPLOADS + 2 + LOSS_DIMENSIONS_MOST };

/* All but the rows: their number. */
static int uploads_fill(struct loss *l, size_t examples, float *scale, struct batch_shape *shape,
                        struct transfer uploads[UPLOADS])
{
    struct wherry_session *s = l->session;
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = (uint32_t)examples, .offsets = l->offsets};
    session_batch_fill(s, &batch, shape);
    int n = session_uploads(s, shape, uploads);
    uploads[n++] = session_transfer(s, shape, s->graph.out_gradient, scale);
    for (uint32_t k = 0; k < l->parts; k++) uploads[n++] = session_transfer(s, shape, l->targets[k], l->storage[k]);
    return n;
}

static bool run(struct loss *l, const float *rows, size_t examples, float scale, float *value, float *d_rows,
                struct error *e)
{
    struct wherry_session *s = l->session;
    const struct graph *g = &s->graph;
    struct transfer uploads[UPLOADS], downloads[2];
    struct batch_shape *shape = &s->shape;
    TRY(session_passes_wait(s, e));
    int n = uploads_fill(l, examples, &scale, shape, uploads);
    for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    uploads[n++] = session_transfer(s, shape, g->input, (void *)(uintptr_t)rows); /* it is read alone */
    downloads[0] = session_transfer(s, shape, g->output, value);
    if (d_rows) downloads[1] = session_transfer(s, shape, g->in_gradient, d_rows);
    const struct run one = {.uploads = uploads,
                            .n_uploads = n,
                            .downloads = downloads,
                            .n_downloads = d_rows ? 2 : 1,
                            .step_seconds = s->timed,
                            .grids = s->grids,
                            .batch = shape,
                            .end = d_rows ? 0 : s->boundary};
    bool ok = device_executes(s->device, e) && s->device->backend->program_run(s->device->handle, s->program, &one, e);
    if (!ok) device_failed(s->device, e);
    s->lengths_sent = s->types_sent = ok;
    return ok;
}

static bool targets_take(struct loss *loss, const struct loss_targets *targets, size_t examples, struct error *e)
{
    static const struct loss_targets none;
    if (!targets) targets = &none;
    TRY(check_targets(loss, targets, examples, e));
    for (uint32_t k = 0; k < loss->parts; k++) TRY(fill_targets(loss, k, targets, examples, e));
    return true;
}

bool loss_run(struct loss *loss, const float *rows, size_t n, const struct loss_targets *targets, float gradient_scale,
              double *value, float *d_rows, struct error *e)
{
    float made;
    size_t examples = n / loss->columns;
    TRY(check_count(loss, n, gradient_scale, e) && check_rows(loss, rows, n, e));
    TRY(targets_take(loss, targets, examples, e));
    TRY(run(loss, rows, examples, gradient_scale, &made, d_rows, e));
    *value = (double)made;
    return true;
}

bool loss_submit(struct loss *loss, size_t n, const struct loss_targets *targets, float gradient_scale, struct error *e)
{
    struct wherry_session *s = loss->session;
    const size_t examples = n / loss->columns;
    const int slot = (loss->oldest + loss->under_way) % LOSS_UNDER_WAY;
    struct transfer uploads[UPLOADS], download;
    TRY(check_count(loss, n, gradient_scale, e) && targets_take(loss, targets, examples, e));
    const int uploaded = uploads_fill(loss, examples, &gradient_scale, &s->shape, uploads);
    download = session_transfer(s, &s->shape, s->graph.output, &loss->values[slot]);
    const struct run run = {.uploads = uploads, .n_uploads = uploaded, .downloads = &download, .n_downloads = 1};
    TRY(session_submit(s, slot, &s->shape, &run, e));
    loss->under_way++;
    return true;
}

bool loss_wait(struct loss *loss, double *value, struct error *e)
{
    struct wherry_session *s = loss->session;
    const int slot = loss->oldest;
    loss->oldest = (slot + 1) % LOSS_UNDER_WAY;
    loss->under_way--;
    TRY(pass_wait(s->device, s->program, slot, &s->passes[slot], e));
    *value = (double)loss->values[slot];
    return true;
}

int loss_under_way(const struct loss *loss) { return loss->under_way; }
int loss_rows(const struct loss *loss) { return loss->session->graph.input; }
int loss_gradients(const struct loss *loss) { return loss->session->graph.in_gradient; }
int loss_value(const struct loss *loss) { return loss->session->graph.output; }
