/* Times a session's rungs: small copies of it, with a rung and without, on the same batch in turns. A driver may make
 * of matrices what it likes, element by element if need be. */
#include "runtime/rung_speed.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/platform.h"
#include "runtime/batches.h"
#include "runtime/encode.h"
#include "runtime/plan.h"
#include "runtime/rung_check.h"
#include "runtime/rung_kept.h"
#include "runtime/rung_small.h"
#include "runtime/train.h"

/* Batches grow until the faster one of both takes so long that beginnings and ends of kernels, which are alike, and the
 * host's clock say little about it. */
enum { LEAST_TOKENS = 64, MOST_TOKENS = 1024, GROWTH = 4, ROUNDS = 4 };
static const double enough_seconds = 1e-3;

struct contest {
    struct wherry_session *with, *without;
    double seconds[2]; /* of the last batch */
};

/* ---- sessions ---- */

static struct wherry_session *contender(const struct wherry_session *of, const wherry_model *model,
                                        const wherry_session_desc *of_desc, uint32_t without, struct error *e)
{
    struct small small;
    bool over = false;
    struct wherry_session *s = session_new(of->context, of->device, model, e);
    bool ok = s && small_begin(of, s, of_desc, false, &small, e);
    if (ok) s->device_limits.rungs &= ~without;
    ok = ok && session_cover(s, NULL, !of_desc->only, e);
    if (s) s->tuning = (struct tuning){0};
    if (ok) {
        uint32_t tokens = (uint32_t)s->limits.tokens;
        session_shrink(s, tokens < MOST_TOKENS ? tokens : MOST_TOKENS, s->limits.longest);
    }
    ok = ok && session_place(s, &small.desc, &over, e) && session_finish(s, e);
    if (ok && wherry_session_prepare(s, NULL, NULL, NULL)) ok = false;
    if (ok) return s;
    wherry_session_destroy(s);
    return NULL;
}

/* ---- runs ---- */

static bool set_batch(struct wherry_session *s, uint32_t tokens, struct batch_shape *shape, struct error *e)
{
    uint32_t offsets[MOST_TOKENS + 1] = {0};
    int32_t ids[MOST_TOKENS], labels[MOST_TOKENS];
    wherry_batch batch = {.struct_size = sizeof batch, .offsets = offsets, .ids = ids};
    session_bare_labels(s, &batch, labels, tokens);
    for (uint32_t i = 0; i < tokens; i++) ids[i] = (int32_t)(i % small_words(s->model));
    for (uint32_t end = 0; end < tokens && batch.sequences < s->limits.sequences;) {
        end += s->limits.longest < tokens - end ? s->limits.longest : tokens - end;
        offsets[++batch.sequences] = end;
    }
    return session_batch(s, &batch, shape, e) && session_random_inputs(s, shape, e);
}

static bool run_timed(struct wherry_session *s, uint32_t tokens, double *seconds, struct error *e)
{
    struct batch_shape shape;
    TRY(set_batch(s, tokens, &shape, e));
    uint64_t start = clock_ns();
    TRY(session_run(s, &shape, WHERRY_PHASE_ALL, -1, -1, NULL, e));
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return true;
}

/* The least of some rounds of each, in turns, after one that does not count. */
static bool run_both(struct contest *c, uint32_t tokens, struct error *e)
{
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < 2; i++) {
            double seconds;
            TRY(run_timed(i ? c->without : c->with, tokens, &seconds, e));
            if (round < 2 || seconds < c->seconds[i]) c->seconds[i] = seconds;
        }
    return true;
}

/* *ratio: of the time with the rung to that without it. */
static bool contest_hold(struct contest *c, double *ratio, struct error *e)
{
    uint32_t most = (uint32_t)c->with->limits.tokens, tokens = most < LEAST_TOKENS ? most : LEAST_TOKENS;
    for (;;) {
        TRY(run_both(c, tokens, e));
        bool enough = c->seconds[0] >= enough_seconds && c->seconds[1] >= enough_seconds;
        if (enough || tokens == most) break;
        tokens = tokens * GROWTH < most ? tokens * GROWTH : most;
    }
    *ratio = c->seconds[1] > 0 ? c->seconds[0] / c->seconds[1] : 1;
    return true;
}

static bool measure(struct wherry_session *s, const wherry_session_desc *desc, uint32_t without, double *ratio,
                    struct error *e)
{
    struct contest c = {0};
    wherry_model *model = small_model(s, desc, e);
    bool ok = model && (c.with = contender(s, model, desc, 0, e)) &&
              (c.without = contender(s, model, desc, without, e)) && contest_hold(&c, ratio, e);
    wherry_session_destroy(c.with);
    wherry_session_destroy(c.without);
    small_model_close(model);
    return ok;
}

/* ---- what is known ---- */

static bool too_slow(double ratio, char *reason, size_t reason_size)
{
    if (ratio < 1) return false;
    snprintf(reason, reason_size, "%s times slower on this device than what is below", NUMBER("%.2f", ratio));
    return true;
}

/* A number of its own making; another one is none. */
static bool ratio_read(const char *text, double *ratio)
{
    const char *end;
    *ratio = number_read(text, &end);
    return end != text && !*end && *ratio > 0 && *ratio < 1e9;
}

/* Errors stay here: a rung that can't be measured is left out, for this session. */
static bool rung_slower(struct wherry_session *s, const wherry_session_desc *desc, enum rung rung, char *reason,
                        size_t reason_size)
{
    struct wherry_context *context = s->context;
    struct rung_key key;
    char result[RUNG_RESULT];
    double ratio;
    if (!rung_speed_key_make(s, rung, &key)) {
        snprintf(reason, reason_size, "the names of the device and its driver are too long for a key");
        return true;
    }
    struct rung_check known;
    if (rung_recall(s, &key, &known)) {
        if (known.failed) snprintf(reason, reason_size, "%s", known.reason);
        return known.failed;
    }
    if (!rung_kept(&context->host, &key, result) || !ratio_read(result, &ratio)) {
        struct error *e = context_error(context), before = *e;
        bool ok = measure(s, desc, RUNG_BIT(rung), &ratio, e);
        if (!ok) snprintf(reason, reason_size, "its speed can't be measured: %.180s", e->text);
        *e = before;
        if (!ok) return true;
        snprintf(result, sizeof result, "%s", NUMBER("%.4g", ratio));
        rung_keep(&context->host, &key, result);
    }
    bool slower = too_slow(ratio, reason, reason_size);
    rung_remember(s, &key, slower ? reason : NULL);
    return slower;
}

uint32_t rungs_slower(struct wherry_session *s, const wherry_session_desc *desc, char *reason, size_t reason_size)
{
    uint32_t unmeasured = rungs_taken(s) & s->device_limits.rungs_unmeasured;
    for (int r = RUNG_COUNT - 1; r > RUNG_TILED; r--)
        if (unmeasured & RUNG_BIT(r) && rung_slower(s, desc, (enum rung)r, reason, reason_size)) return RUNG_BIT(r);
    return 0;
}
