/* How long each call of a session takes, by the host's clock: seconds for each unit of its work, of which there are as
 * many as floating-point operations and tokens. Measured on a small batch when the session is prepared, and brought up
 * to date by every portion whose end somebody was waiting for. */
#include "runtime/portions.h"

#include "base/platform.h"
#include "runtime/batches.h"

struct portions {
    double *rates; /* [n_calls]: seconds of a unit */
};

double call_units(const struct wherry_session *s, const struct batch_shape *shape, int call)
{
    const int group = s->call_groups[call];
    return group_flops(&s->graph, shape, &s->groups[group]) + (double)shape->tokens;
}

int portion_end(const struct wherry_session *s, const struct batch_shape *shape, int first)
{
    double seconds = 0;
    int end = first;
    for (; end < s->n_calls; end++) {
        seconds += s->portions->rates[end] * call_units(s, shape, end);
        if (end > first && seconds > s->max_submit_seconds) break;
    }
    return end;
}

void portion_learn(struct wherry_session *s, const struct batch_shape *shape, int first, int end, double seconds)
{
    double expected = 0;
    for (int i = first; i < end; i++) expected += s->portions->rates[i] * call_units(s, shape, i);
    if (expected <= 0) return;
    /* What takes longer counts at once, what takes less by and by: others may have had the device meanwhile. */
    double ratio = seconds / expected;
    if (ratio < 0.9) ratio = 0.9;
    if (ratio > 2) ratio = 2;
    for (int i = first; i < end; i++) s->portions->rates[i] *= ratio;
}

/* Twice: the first time may be the driver's, which compiles. */
static bool measure(struct wherry_session *s, const struct batch_shape *shape, double *rates, struct error *e)
{
    const struct backend *backend = s->device->backend;
    struct transfer uploads[SESSION_UPLOADS];
    for (int turn = 0; turn < 2; turn++) {
        int n = session_uploads(s, shape, uploads);
        for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
        for (int i = 0; i < s->n_calls; i++) {
            const struct run run = {.uploads = uploads,
                                    .n_uploads = i ? 0 : n,
                                    .grids = s->grids,
                                    .batch = shape,
                                    .first = i,
                                    .end = i + 1};
            const uint64_t start = clock_ns();
            TRY(backend->program_run(s->device->handle, s->program, &run, e));
            rates[i] = 1e-9 * (double)(clock_ns() - start) / call_units(s, shape, i);
        }
        s->lengths_sent = s->types_sent = true;
    }
    return true;
}

/* Zeros, in sequences as long as the session takes. */
bool calls_measure(struct wherry_session *s, uint32_t tokens, double *rates, struct batch_shape *shape, struct error *e)
{
    const struct host *host = &s->context->host;
    uint32_t offsets[BARE_SEQUENCES + 1] = {0}, n = 0, left = tokens;
    const uint32_t most = s->limits.sequences < BARE_SEQUENCES ? s->limits.sequences : BARE_SEQUENCES;
    int32_t *ids = host_alloc(host, 2 * (size_t)tokens, sizeof *ids, e);
    if (!ids) return false;
    while (left && n < most) {
        uint32_t length = left < s->max_length ? left : s->max_length;
        offsets[n + 1] = offsets[n] + length;
        left -= length;
        n++;
    }
    wherry_batch batch = {.struct_size = sizeof batch, .sequences = n, .offsets = offsets, .ids = ids};
    session_bare_labels(s, &batch, ids + tokens, tokens);
    bool ok = session_batch(s, &batch, shape, e) && measure(s, shape, rates, e);
    host_free(host, ids);
    return ok;
}

bool portions_create(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    if (s->max_submit_seconds <= 0 || s->part || s->graph.out_gradient >= 0) return true;
    if (!(s->portions = host_alloc(host, 1, sizeof *s->portions, e))) return false;
    s->portions->rates = host_alloc(host, (size_t)s->n_calls, sizeof *s->portions->rates, e);
    if (!s->portions->rates) return false;
    enum { TOKENS = 256 };
    struct batch_shape shape;
    return calls_measure(s, s->limits.tokens < TOKENS ? (uint32_t)s->limits.tokens : TOKENS, s->portions->rates, &shape,
                         e);
}

void portions_destroy(struct wherry_session *s)
{
    if (!s->portions) return;
    host_free(&s->context->host, s->portions->rates);
    host_free(&s->context->host, s->portions);
    s->portions = NULL;
}
