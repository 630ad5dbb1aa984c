/* Messages between processes: put together, started, waited for. */
#include "train/exchange.h"

#include "base/platform.h"

bool exchange_check(const wherry_exchange *d, struct error *e)
{
    if (d->struct_size != sizeof *d)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_exchange.struct_size is not %zu", sizeof *d);
    return (d->start && d->finish && d->problem && d->process < d->processes) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "wherry_exchange: a function is NULL, or process %u is not below processes, %u", (unsigned)d->process,
                (unsigned)d->processes);
}

bool exchange_open(const struct host *host, const wherry_exchange *desc, struct exchange *out, struct error *e)
{
    *out = (struct exchange){.of = {.processes = 1}, .host = host};
    if (!desc) return true;
    size_t most = EXCHANGE_EACH * (size_t)desc->processes;
    out->of = *desc;
    out->sends = host_alloc(host, most, sizeof *out->sends, e);
    out->receives = out->sends ? host_alloc(host, most, sizeof *out->receives, e) : NULL;
    return out->receives != NULL;
}

void exchange_close(struct exchange *x)
{
    if (!x->host) return;
    host_free(x->host, x->sends);
    host_free(x->host, x->receives);
}

void exchange_send(struct exchange *x, uint32_t to, const void *data, size_t bytes)
{
    if (!bytes) return;
    x->sends[x->n_sends++] = (wherry_message){.process = to, .data = (void *)data, .bytes = bytes};
    x->times.bytes_sent += bytes;
}

void exchange_receive(struct exchange *x, uint32_t from, void *data, size_t bytes)
{
    if (bytes) x->receives[x->n_receives++] = (wherry_message){.process = from, .data = data, .bytes = bytes};
}

static bool failed(const struct exchange *x, struct error *e)
{
    const char *why = x->of.problem(x->of.user);
    return fail(e, WHERRY_STATUS_IO, "process %u of %u can't go on with the others: %s", (unsigned)x->of.process,
                (unsigned)x->of.processes, why ? why : "its messages failed");
}

bool exchange_start(struct exchange *x, struct error *e)
{
    size_t sends = x->n_sends, receives = x->n_receives;
    x->n_sends = x->n_receives = 0;
    return x->of.start(x->of.user, x->sends, sends, x->receives, receives) || failed(x, e);
}

bool exchange_finish(struct exchange *x, struct error *e)
{
    double seconds;
    const uint64_t begin = clock_ns();
    if (!x->of.finish(x->of.user, &seconds)) return failed(x, e);
    x->times.others_seconds += (double)(clock_ns() - begin) * 1e-9;
    return true;
}

bool exchange_share(struct exchange *x, size_t bytes, void **memory, struct error *e)
{
    return x->of.share(x->of.user, bytes, memory) || failed(x, e);
}

bool exchange_gather(struct exchange *x, void *all, const size_t *begins, struct error *e)
{
    uint32_t own = x->of.process, n = x->of.processes;
    char *at = all;
    if (n == 1) return true;
    for (uint32_t i = 1; i < n; i++) { /* not all of them to process 0 first */
        uint32_t to = (own + i) % n, from = (own + n - i) % n;
        exchange_send(x, to, at + begins[own], begins[own + 1] - begins[own]);
        exchange_receive(x, from, at + begins[from], begins[from + 1] - begins[from]);
    }
    return exchange_start(x, e) && exchange_finish(x, e);
}

bool exchange_same(struct exchange *x, uint64_t value, uint32_t *other, bool *same, struct error *e)
{
    uint32_t n = x->of.processes;
    *same = true;
    if (n == 1) return true;
    uint64_t *values = host_alloc(x->host, n, sizeof *values, e);
    size_t *begins = values ? host_alloc(x->host, n + 1, sizeof *begins, e) : NULL;
    bool ok = begins != NULL;
    for (uint32_t p = 0; ok && p <= n; p++) begins[p] = p * sizeof *values;
    if (ok) values[x->of.process] = value;
    ok = ok && exchange_gather(x, values, begins, e);
    /* The first one's counts, so that all processes say the same. */
    for (uint32_t p = 1; ok && *same && p < n; p++)
        if (values[p] != values[0]) {
            *same = false;
            *other = p;
        }
    host_free(x->host, begins);
    host_free(x->host, values);
    return ok;
}
