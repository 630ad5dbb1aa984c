/* Compiles what a tuning is going to run, as far as possible side by side, so that it is there when it is tried. */
#include "runtime/calls.h"
#include "runtime/prepare.h"
#include "tune/tune.h"

/* Nothing is run: where there is no memory (of a candidate that needs more scratch, or of a session that is only
 * planned), any does. Without room for a batch the backend does not launch a kernel to see it run, either. */
static void stand_in(const struct wherry_session *s, struct step *step)
{
    for (int b = 0; b < step->n_bindings; b++) {
        struct binding *binding = &step->bindings[b];
        if (!binding->buffer || !binding->bytes) {
            binding->buffer = step->bindings[0].buffer;
            binding->offset = step->bindings[0].offset;
            binding->bytes = step->bindings[0].bytes;
        }
        if (s->prepared) continue;
        binding->offset = 0;
        binding->bytes = 4;
    }
}

void tune_compile(struct wherry_session *s, int group, int index, const struct choice *first,
                  const struct choice *const *choices, int n)
{
    const struct host *host = &s->context->host;
    struct error ignored = {0};
    struct program_info info;
    int n_steps = 0, made = 0;
    struct step *steps = host_alloc(host, (size_t)n * GROUP_MAX_CALLS + 1, sizeof *steps, &ignored);
    struct trial *trials = steps ? host_alloc(host, (size_t)n + 1, sizeof *trials, &ignored) : NULL;
    for (int i = 0; trials && i < n; i++) {
        struct trial *trial = &trials[made];
        const struct choice *forced[GROUP_MAX_CALLS] = {index ? first : choices[i], index ? choices[i] : NULL};
        const char *reasons[GROUP_MAX_CALLS];
        uint64_t scratch;
        if (!session_calls(s, &s->graph, &s->groups[group], forced, trial->calls, reasons, &trial->n_calls, &scratch,
                           &ignored))
            continue;
        for (int k = 0; k < trial->n_calls; k++) {
            session_step(s, &trial->calls[k], group, &steps[n_steps]);
            stand_in(s, &steps[n_steps++]);
        }
        made++;
    }
    const struct schedule schedule = {
        .steps = steps, .n_steps = n_steps, .library = s->library, .graph = &s->graph, .groups = s->groups};
    const struct backend *backend = s->device->backend;
    struct program *program =
        n_steps ? backend->program_create(s->device->handle, &schedule, NULL, NULL, &info, &ignored) : NULL;
    backend->program_destroy(s->device->handle, program);
    host_free(host, trials);
    host_free(host, steps);
}
