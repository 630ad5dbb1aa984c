/* Ceilings: what a device reaches when it only copies, only computes, only launches. */
#include "measure/roof.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "base/number.h"
#include "measure/statistics.h"
#include "measure/timer.h"

enum { REPEATS = 21, CPU_LEAST = 5 };
enum { FILLER, SENTINEL, TIMER, OWN_WORKS }; /* works of every roof */

static const double warm_default = 0.5;
static const double cpu_stage_seconds = 2; /* after which a stage has rounds enough where none were asked for */

/* ---- keeping what was measured ---- */

static bool ceiling_add(struct wherry_roof *roof, const wherry_ceiling *ceiling, struct error *e)
{
    wherry_ceiling *grown =
        host_grow(&roof->context->host, roof->ceilings, roof->n_ceilings, roof->n_ceilings + 1, sizeof *grown, e);
    if (!grown) return false;
    roof->ceilings = grown;
    grown[roof->n_ceilings++] = *ceiling;
    return true;
}

static bool point_add(struct wherry_roof *roof, wherry_roof_point **list, size_t *count, const struct work *w,
                      wherry_time time, struct error *e)
{
    wherry_roof_point *grown = host_grow(&roof->context->host, *list, *count, *count + 1, sizeof *grown, e);
    if (!grown) return false;
    *list = grown;
    grown[(*count)++] = (wherry_roof_point){.bytes = w->ceiling.footprint_bytes, .time = time};
    return true;
}

/* Rates of works first to end - 1; several turns over the same bytes are one run. */
static bool rates_add(struct bench *b, struct wherry_roof *roof, size_t first, size_t end, struct error *e)
{
    for (size_t i = first; i < end; i++) {
        struct work *w = &b->works[i];
        w->passes = 1;
        w->ceiling.time = work_time(w);
        w->ceiling.value = w->ceiling.amount / w->ceiling.time.median;
        TRY(ceiling_add(roof, &w->ceiling, e));
    }
    return true;
}

static bool seconds_add(struct wherry_roof *roof, const char *id, wherry_time time, struct error *e)
{
    wherry_ceiling c = {.unit = WHERRY_UNIT_SECONDS, .value = time.median, .amount = 1, .time = time};
    snprintf(c.id, sizeof c.id, "%s", id);
    return ceiling_add(roof, &c, e);
}

static bool better(const wherry_ceiling *a, const wherry_ceiling *b)
{
    return a->unit == WHERRY_UNIT_SECONDS ? a->value < b->value : a->value > b->value;
}

/* Within an id the best first; insertion keeps the rest in order. */
static void ceilings_sort(struct wherry_roof *roof)
{
    wherry_ceiling *list = roof->ceilings;
    for (size_t i = 1; i < roof->n_ceilings; i++) {
        wherry_ceiling moved = list[i];
        size_t to = i, same = i;
        while (same > 0 && strcmp(list[same - 1].id, moved.id)) same--;
        if (!same) continue; /* the first of its id */
        for (to = same; to > 0 && !strcmp(list[to - 1].id, moved.id) && better(&moved, &list[to - 1]);) to--;
        memmove(list + to + 1, list + to, (i - to) * sizeof *list);
        list[to] = moved;
    }
    for (size_t i = 0; i < roof->n_ceilings; i++) list[i].best = !i || strcmp(list[i].id, list[i - 1].id) != 0;
}

/* ---- the stages ---- */

static bool stage(struct bench *b, size_t first, size_t end, const char *what, struct error *e)
{
    bool asked = b->desc->repeats;
    uint32_t rounds = asked ? b->desc->repeats : REPEATS, least = asked ? rounds : CPU_LEAST;
    return works_measure(b, first, end, rounds, least, b->limits->cpu ? cpu_stage_seconds : 4 * cpu_stage_seconds, what,
                         e);
}

static bool measure_sentinel(struct bench *b, wherry_time *out, struct error *e)
{
    TRY(stage(b, SENTINEL, SENTINEL + 1, "drift", e));
    *out = work_time(&b->works[SENTINEL]);
    return true;
}

static bool wants_sweep(const struct bench *b) { return bench_wants(b, "cache.read") || bench_wants(b, "cache.copy"); }

static bool wants_launch(const struct bench *b)
{
    return bench_wants(b, "launch.seconds") || bench_wants(b, "launch.bandwidth");
}

static bool wants_gap(const struct bench *b) { return bench_wants(b, "launch.gap") || bench_wants(b, "host.submit"); }

/* The sweep, and the ceilings of the cache where it shows one. */
static bool measure_cache(struct bench *b, struct wherry_roof *roof, size_t first, size_t end, struct error *e)
{
    TRY(stage(b, first, end, "the cache", e));
    for (size_t i = first; i < end; i++)
        TRY(point_add(roof, &roof->sweep, &roof->n_sweep, &b->works[i], work_time(&b->works[i]), e));
    roof->cache_bytes = sweep_edge(roof->sweep, roof->n_sweep);
    if (!roof->cache_bytes) return true;
    size_t own = b->n_works;
    TRY(cache_add(b, roof->cache_bytes, e) && works_prepare(b, own, e));
    for (size_t i = own; i < b->n_works; i++) TRY(work_verify(b, &b->works[i], e));
    return stage(b, own, b->n_works, "the cache", e) && rates_add(b, roof, own, b->n_works, e);
}

static bool measure_compute(struct bench *b, struct wherry_roof *roof, size_t first, size_t end, struct error *e)
{
    for (size_t i = first; i < end; i++) TRY(work_calibrate(b, &b->works[i], b->limits->cpu ? 5e-3 : 2e-3, e));
    return stage(b, first, end, "arithmetic", e) && rates_add(b, roof, first, end, e);
}

/* a and b of every round by itself, so that their spread is known. */
static bool fit_rounds(struct bench *b, struct wherry_roof *roof, size_t first, size_t end, double *a, double *rates,
                       struct error *e)
{
    double bytes[ROOF_WORKS], seconds[ROOF_WORKS];
    uint32_t rounds = b->works[first].n, kept = 0;
    size_t n = end - first;
    for (uint32_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (double)b->works[first + i].ceiling.footprint_bytes;
            seconds[i] = b->works[first + i].samples[r];
        }
        launch_fit(bytes, seconds, n, &a[kept], &rates[kept]);
        if (!(a[kept] > 0)) a[kept] = seconds[0]; /* the smallest copy's whole time: no launch is shorter */
        if (rates[kept] > 0) kept++;
    }
    if (!kept) return true; /* as long for many bytes as for few: nothing can be said */
    double largest = bytes[n - 1];
    for (uint32_t r = 0; r < kept; r++) rates[r] = largest / rates[r];
    wherry_ceiling c = {.id = "launch.bandwidth", .dtype = WHERRY_DTYPE_F32, .amount = largest};
    c.footprint_bytes = (uint64_t)largest;
    c.time = time_summary(rates, kept, rates[0]);
    c.value = largest / c.time.median;
    if (bench_wants(b, "launch.seconds")) TRY(seconds_add(roof, "launch.seconds", time_summary(a, kept, a[0]), e));
    return !bench_wants(b, "launch.bandwidth") || ceiling_add(roof, &c, e);
}

static bool measure_launch(struct bench *b, struct wherry_roof *roof, size_t first, size_t end, struct error *e)
{
    if (first == end) return true;
    TRY(stage(b, first, end, "launches", e));
    double *a = host_alloc(b->host, 2 * (size_t)b->works[first].n, sizeof *a, e);
    bool ok = a && fit_rounds(b, roof, first, end, a, a + b->works[first].n, e);
    host_free(b->host, a);
    TRY(ok);
    for (size_t i = first; i < end; i++)
        TRY(point_add(roof, &roof->launches, &roof->n_launches, &b->works[i], work_time(&b->works[i]), e));
    return true;
}

static bool measure_gap(struct bench *b, struct wherry_roof *roof, struct error *e)
{
    uint32_t n = b->desc->repeats ? b->desc->repeats : REPEATS;
    double *gaps = host_alloc(b->host, 2 * (size_t)n, sizeof *gaps, e);
    double *submits = gaps ? gaps + n : NULL;
    bool ok = gaps && launch_gaps(b, gaps, submits, n, e);
    if (ok && bench_wants(b, "launch.gap")) ok = seconds_add(roof, "launch.gap", time_summary(gaps, n, gaps[0]), e);
    if (ok && bench_wants(b, "host.submit"))
        ok = seconds_add(roof, "host.submit", time_summary(submits, n, submits[0]), e);
    host_free(b->host, gaps);
    return ok;
}

/* The bench's own works, in the order of their names above. */
static bool own_add(struct bench *b, struct error *e)
{
    uint32_t local = b->limits->cpu ? 64 : 256;
    return memory_work(b, "fill", ROOF_WRITE, 4, b->limits->cpu ? 4 : 1, local, b->bytes, 0, e) &&
           memory_work(b, "sentinel", ROOF_COPY, 4, b->limits->cpu ? 4 : 1, local, b->bytes, 0, e) &&
           arithmetic_work(b, "timer", false, b->limits->cpu ? 8 : 2, local, e);
}

/* Everything, on an open bench. */
static bool measure(struct bench *b, struct wherry_roof *roof, struct error *e)
{
    TRY(own_add(b, e) && dram_add(b, e));
    size_t sweep = b->n_works;
    if (wants_sweep(b)) TRY(sweep_add(b, e));
    size_t compute = b->n_works;
    TRY(compute_add(b, e));
    size_t launch = b->n_works;
    if (wants_launch(b) || wants_gap(b)) TRY(launches_add(b, e));
    size_t end = b->n_works;
    TRY(works_prepare(b, 0, e) && memory_fill(b, e));
    if (!b->host_clock) {
        TRY(timer_measure(b, &b->works[TIMER], &roof->timer, e));
        b->host_clock = roof->timer.status != WHERRY_TIMER_OK;
    }
    for (size_t i = SENTINEL; i < end; i++) TRY(work_verify(b, &b->works[i], e));
    TRY(work_warm(b, &b->works[SENTINEL], b->desc->warm_seconds, e));
    TRY(measure_sentinel(b, &roof->sentinel_first, e));
    TRY(stage(b, OWN_WORKS, sweep, "memory", e) && rates_add(b, roof, OWN_WORKS, sweep, e));
    if (wants_sweep(b)) TRY(measure_cache(b, roof, sweep, compute, e));
    TRY(measure_compute(b, roof, compute, launch, e));
    if (wants_launch(b)) TRY(measure_launch(b, roof, launch, end, e));
    if (wants_gap(b)) TRY(measure_gap(b, roof, e));
    return measure_sentinel(b, &roof->sentinel_last, e);
}

static void roof_clear(struct wherry_roof *roof)
{
    const struct host *host = &roof->context->host;
    host_free(host, roof->ceilings);
    host_free(host, roof->sweep);
    host_free(host, roof->launches);
    *roof = (struct wherry_roof){.context = roof->context, .timer = roof->timer};
}

/* A timer that lies only now and then is found out while it is used: then all is measured again without it. */
static bool measure_all(struct wherry_device *device, const wherry_roof_desc *desc, wherry_progress progress,
                        void *user, struct wherry_roof *roof, struct error *e)
{
    bool again = false;
    for (int attempt = 0; attempt < 2; attempt++) {
        struct bench b;
        bool ok = bench_open(&b, device, desc, e);
        b.progress = progress;
        b.user = user;
        b.host_clock = again;
        e->timer = 0;
        ok = ok && measure(&b, roof, e);
        bench_close(&b);
        if (ok || again || !e->timer) return ok;
        again = true;
        timer_condemn(&roof->timer, (wherry_timer_status)e->timer, e->text);
        roof_clear(roof);
    }
    return false;
}

static bool check_desc(const wherry_roof_desc *desc, wherry_roof_desc *out, struct error *e)
{
    *out = desc ? *desc : (wherry_roof_desc){.struct_size = sizeof *out};
    if (out->struct_size != sizeof *out)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_roof_measure: desc->struct_size is %u, not %zu",
                    (unsigned)out->struct_size, sizeof *out);
    if (!(out->warm_seconds >= 0) || out->warm_seconds > 3600 || out->repeats > 1000000)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_roof_measure: warm_seconds is %s, at most 3600, and repeats %u, at most 1000000",
                    NUMBER("%g", out->warm_seconds), (unsigned)out->repeats);
    if (out->warm_seconds == 0) out->warm_seconds = warm_default;
    return true;
}

wherry_status wherry_roof_measure(wherry_device *device, const wherry_roof_desc *desc, wherry_progress progress,
                                  void *user, wherry_roof **out)
{
    if (!device) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = device->context;
    struct error *e = context_error(context);
    wherry_roof_desc filled;
    if (!out) return context_invalid(context, "wherry_roof_measure: out is NULL");
    if (!check_desc(desc, &filled, e)) return context_status(context, false);
    if (!strcmp(device->info.id, "reference")) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "the reference has no kernels whose ceilings could be measured");
        return context_status(context, false);
    }
    struct wherry_roof *roof = host_alloc(&context->host, 1, sizeof *roof, e);
    if (!roof) return context_status(context, false);
    roof->context = context;
    bool ok = device_executes(device, e) && measure_all(device, &filled, progress, user, roof, e);
    if (ok) {
        ceilings_sort(roof);
        *out = roof;
    } else {
        wherry_roof_destroy(roof);
    }
    return context_status(context, ok);
}

/* ---- what was measured ---- */

void wherry_roof_destroy(wherry_roof *roof)
{
    if (!roof) return;
    const struct host *host = &roof->context->host;
    host_free(host, roof->ceilings);
    host_free(host, roof->sweep);
    host_free(host, roof->launches);
    host_free(host, roof);
}

const wherry_ceiling *wherry_roof_ceilings(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_ceilings : 0;
    return roof ? roof->ceilings : NULL;
}

const wherry_ceiling *wherry_roof_ceiling(const wherry_roof *roof, const char *id)
{
    for (size_t i = 0; roof && id && i < roof->n_ceilings; i++)
        if (roof->ceilings[i].best && !strcmp(roof->ceilings[i].id, id)) return &roof->ceilings[i];
    return NULL;
}

const wherry_roof_point *wherry_roof_sweep(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_sweep : 0;
    return roof ? roof->sweep : NULL;
}

const wherry_roof_point *wherry_roof_launches(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_launches : 0;
    return roof ? roof->launches : NULL;
}

uint64_t wherry_roof_cache_bytes(const wherry_roof *roof) { return roof ? roof->cache_bytes : 0; }

const wherry_timer_info *wherry_roof_timer(const wherry_roof *roof) { return roof ? &roof->timer : NULL; }

void wherry_roof_sentinel(const wherry_roof *roof, wherry_time *first, wherry_time *last)
{
    if (first) *first = roof ? roof->sentinel_first : (wherry_time){0};
    if (last) *last = roof ? roof->sentinel_last : (wherry_time){0};
}
