/* The adapters' program: tables of work-groups, steps, and runs of one kernel's steps. */
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "train/adapters_state.h"
#include "train/elements.h"

/* ---- tables ---- */

static uint32_t tiles(uint32_t size, uint32_t tile) { return (uint32_t)divide_up(size, tile); }

static uint32_t groups_of(const struct adapters *a, const struct adapted_matrix *m, enum adapter_kernel kernel)
{
    const uint32_t tile = kernel == MERGE ? ADAPTER_TILE : ADAPTER_SPAN;
    const uint32_t rows = tiles(m->words[MATRIX_ROWS], tile), columns = tiles(m->words[MATRIX_COLUMNS], tile);
    return kernel == MERGE ? rows * columns : (rows + columns) * tiles(a->rank, ADAPTER_RANKS);
}

void adapters_tables_plan(struct adapters *a)
{
    for (int n = 0; n < a->n_launches; n++)
        for (int kernel = 0; kernel < ADAPTER_KERNELS; kernel++) {
            struct adapter_launch *l = &a->launches[n];
            for (int i = l->first; i < l->end; i++)
                l->groups[kernel] += groups_of(a, &a->matrices[i], (enum adapter_kernel)kernel);
            const uint64_t words = ADAPTER_TABLE + (uint64_t)l->groups[kernel] * GROUP_WORDS +
                                   (uint64_t)(l->end - l->first) * MATRIX_WORDS;
            l->tables[kernel] =
                (struct range){a->tables_bytes, a->tables_bytes + round_up(4 * words, MEMORY_ALIGNMENT)};
            a->tables_bytes = l->tables[kernel].end;
        }
}

static uint32_t *group_add(uint32_t *entry, uint32_t matrix, uint32_t first, uint32_t second, uint32_t of)
{
    entry[GROUP_MATRIX] = matrix;
    entry[GROUP_FIRST] = first;
    entry[GROUP_SECOND] = second;
    entry[GROUP_OF] = of;
    return entry + GROUP_WORDS;
}

/* B's groups first: what they sum over is as long, or longer, where a layer narrows. */
static uint32_t *groups_add(const struct adapters *a, const struct adapted_matrix *m, enum adapter_kernel kernel,
                            uint32_t matrix, uint32_t *entry)
{
    const uint32_t rows = m->words[MATRIX_ROWS], columns = m->words[MATRIX_COLUMNS];
    for (uint32_t row = 0; kernel == MERGE && row < rows; row += ADAPTER_TILE)
        for (uint32_t column = 0; column < columns; column += ADAPTER_TILE)
            entry = group_add(entry, matrix, row, column, 0);
    for (uint32_t k = 0; kernel == DIFFERENTIATE && k < a->rank; k += ADAPTER_RANKS) {
        for (uint32_t row = 0; row < rows; row += ADAPTER_SPAN) entry = group_add(entry, matrix, row, k, GROUP_OF_B);
        for (uint32_t column = 0; column < columns; column += ADAPTER_SPAN)
            entry = group_add(entry, matrix, column, k, GROUP_OF_A);
    }
    return entry;
}

static void table_fill(const struct adapters *a, const struct adapter_launch *l, enum adapter_kernel kernel,
                       uint32_t *table)
{
    uint32_t *entry = table + ADAPTER_TABLE;
    table[ADAPTER_GROUPS] = l->groups[kernel];
    table[ADAPTER_MATRICES] = ADAPTER_TABLE + l->groups[kernel] * GROUP_WORDS;
    for (int i = l->first; i < l->end; i++) {
        const struct adapted_matrix *m = &a->matrices[i];
        const uint32_t matrix = (uint32_t)(i - l->first) * MATRIX_WORDS;
        entry = groups_add(a, m, kernel, matrix, entry);
        memcpy(table + table[ADAPTER_MATRICES] + matrix, m->words, sizeof m->words);
    }
}

static bool tables_make(struct adapters *a, struct error *e)
{
    const struct wherry_device *device = a->session->device;
    uint32_t *words = host_alloc(&a->session->context->host, (size_t)a->tables_bytes, 1, e);
    for (int n = 0; words && n < a->n_launches; n++)
        for (int kernel = 0; kernel < ADAPTER_KERNELS; kernel++)
            table_fill(a, &a->launches[n], (enum adapter_kernel)kernel,
                       words + a->launches[n].tables[kernel].begin / 4);
    bool ok = words && (a->tables = device->backend->buffer_create(device->handle, a->tables_bytes, e)) &&
              device->backend->buffer_write(device->handle, a->tables, 0, words, a->tables_bytes, e);
    host_free(&a->session->context->host, words);
    return ok;
}

struct adapters_bytes adapters_bytes(const struct adapters *a)
{
    struct adapters_bytes bytes = {0};
    if (!a) return bytes;
    bytes.values = round_up(4 * a->elements, MEMORY_ALIGNMENT);
    for (int i = 0; i < a->n_launches; i++) bytes.base += 4 * a->launches[i].base_elements;
    bytes.tables = a->tables_bytes + ADAPTER_HEADER;
    return bytes;
}

/* ---- steps ---- */

bool adapters_calls(const struct wherry_session *session, struct call out[ADAPTER_KERNELS], struct error *e)
{
    static const char *const kernels[ADAPTER_KERNELS] = {"adapter_gradient", "adapter_merge"};
    for (int kernel = 0; kernel < ADAPTER_KERNELS; kernel++) {
        elements_call(session, kernels[kernel], &out[kernel]);
        TRY(elements_runs(session, &out[kernel], session_type(session), "can't train adapters", e));
    }
    return true;
}

/* Ascending slots. */
static void step_fill(const struct adapters *a, const struct adapter_launch *l, enum adapter_kernel kernel,
                      struct step *step)
{
    static const char *const names[ADAPTER_KERNELS] = {"adapters_gradient", "adapters_merge"};
    const struct wherry_session *s = a->session;
    const struct call *call = &a->calls[kernel];
    const struct adapted_matrix *first = &a->matrices[l->first];
    const struct range values = {0, adapters_bytes(a).values}, base = {0, 4 * l->base_elements};
    const double products = (kernel == MERGE ? 2.0 : 4.0) * a->rank;
    *step = (struct step){.name = names[kernel],
                          .kernel = call->kernel,
                          .launch = LAUNCH_ELEMENTS,
                          .call = call,
                          .group = (int)kernel,
                          .flops = (40 + products) * (double)l->base_elements,
                          .items_most = (uint64_t)l->groups[kernel] * call_get(call, CONST_LOCAL_SIZE, 1)};
    step_store(step, session_type(s));
    elements_bind(step, SLOT_BATCH, true, false, a->header, (struct range){0, ADAPTER_HEADER});
    if (kernel == MERGE) {
        elements_bind(step, SLOT_X, true, false, l->base, base);
        elements_bind(step, SLOT_W, false, true, s->buffers[first->weight_block], l->weights);
    } else {
        elements_bind(step, SLOT_X, false, false, s->buffers[first->gradient_block], l->gradients);
        elements_bind(step, SLOT_W, true, false, a->values, values);
    }
    elements_bind(step, SLOT_IDS, true, false, a->tables, l->tables[kernel]);
    if (kernel == MERGE)
        elements_bind(step, SLOT_GRADIENT, true, false, a->values, values);
    else
        elements_bind(step, SLOT_Y, true, true, a->gradients, values);
}

bool adapters_program_create(struct adapters *a, struct error *e)
{
    const struct wherry_session *s = a->session;
    const struct host *host = &s->context->host;
    const struct backend *backend = s->device->backend;
    const size_t n_steps = (size_t)a->n_launches * ADAPTER_KERNELS;
    struct program_info info;
    TRY(adapters_calls(a->session, a->calls, e) && tables_make(a, e));
    if (!(a->steps = host_alloc(host, n_steps, sizeof *a->steps, e)) ||
        !(a->grids = host_alloc(host, n_steps, sizeof *a->grids, e)) ||
        !(a->header = backend->buffer_create(s->device->handle, ADAPTER_HEADER, e)) ||
        !backend->buffer_write(s->device->handle, a->header, 0, a->words, ADAPTER_HEADER, e)) /* not active */
        return false;
    for (size_t n = 0; n < n_steps; n++) {
        const enum adapter_kernel kernel = (enum adapter_kernel)(n / (size_t)a->n_launches);
        const struct adapter_launch *l = &a->launches[n % (size_t)a->n_launches];
        const uint32_t groups = l->groups[kernel];
        step_fill(a, l, kernel, &a->steps[n]);
        a->grids[n] =
            (struct grid){groups < GRID_WIDTH ? groups : GRID_WIDTH, (uint32_t)divide_up(groups, GRID_WIDTH), 1};
    }
    a->schedule = (struct schedule){.steps = a->steps,
                                    .n_steps = (int)n_steps,
                                    .max_upload = ADAPTER_HEADER,
                                    .staged = ADAPTER_HEADER,
                                    .divided = true};
    a->words[ADAPTER_ACTIVE] = 1;
    a->words[ADAPTER_RANK] = a->rank;
    memcpy(&a->words[ADAPTER_SCALE], &a->scale, sizeof a->scale);
    return (a->program = backend->program_create(s->device->handle, &a->schedule, NULL, NULL, &info, e)) != NULL;
}

void adapters_program_destroy(struct adapters *a)
{
    const struct wherry_session *s = a->session;
    const struct backend *backend = s->device->backend;
    struct error ignored;
    for (int slot = 0; slot < ADAPTER_KERNELS; slot++)
        pass_wait(s->device, a->program, slot, &a->passes[slot], &ignored);
    backend->program_destroy(s->device->handle, a->program);
    backend->buffer_destroy(s->device->handle, a->tables);
    backend->buffer_destroy(s->device->handle, a->header);
    host_free(&s->context->host, a->steps);
    host_free(&s->context->host, a->grids);
}

/* ---- runs ---- */

static bool submit(struct adapters *a, enum adapter_kernel kernel, struct error *e)
{
    if (!a) return true;
    const struct transfer upload = {.buffer = a->header, .bytes = ADAPTER_HEADER, .host = a->words};
    const struct run run = {.uploads = &upload,
                            .n_uploads = 1,
                            .grids = a->grids,
                            .step_seconds = a->timed,
                            .first = (int)kernel * a->n_launches,
                            .end = ((int)kernel + 1) * a->n_launches};
    return pass_submit(a->session->device, a->program, (int)kernel, &a->passes[kernel], &run, e);
}

bool adapters_differentiate(struct adapters *a, struct error *e) { return submit(a, DIFFERENTIATE, e); }
bool adapters_merge(struct adapters *a, struct error *e) { return submit(a, MERGE, e); }

/* ---- measuring ---- */

bool adapters_work(const struct adapters *a, int index, struct adapters_work *out)
{
    if (!a || index < 0 || index >= ADAPTER_KERNELS) return false;
    const uint64_t storage = session_storage(a->session), turns = tiles(a->rank, ADAPTER_RANKS);
    uint64_t elements = 0;
    for (int i = 0; i < a->count; i++) elements += a->matrices[i].target.rows * a->matrices[i].target.columns;
    if (index == MERGE)
        *out = (struct adapters_work){.name = "merge",
                                      .kernel = "adapter_merge",
                                      .read = 4 * elements,
                                      .written = storage * elements,
                                      .flops = 2 * (double)elements * (a->rank + 1)};
    else /* dA's work-groups and dB's read the matrix each */
        *out = (struct adapters_work){.name = "factors",
                                      .kernel = "adapter_gradient",
                                      .read = 2 * turns * storage * elements,
                                      .written = 4 * a->elements,
                                      .flops = 4 * (double)elements * a->rank};
    out->launches = (uint32_t)a->n_launches;
    out->first = (uint32_t)(index * a->n_launches);
    out->program = a->program;
    return true;
}

size_t adapters_steps(const struct adapters *a) { return a ? (size_t)(ADAPTER_KERNELS * a->n_launches) : 0; }

void adapters_time(struct adapters *a, double *seconds)
{
    if (a) a->timed = seconds;
}
