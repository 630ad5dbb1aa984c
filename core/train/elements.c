/* Calls and bindings of kernels over elements. */
#include "train/elements.h"

#include "interface/interface.h"

void elements_call(const struct wherry_session *s, const char *kernel, struct call *out)
{
    const struct device_limits *limits = s->device->backend->limits(s->device->handle);
    uint32_t local = limits->cpu ? 64 : 256;
    while (local > limits->max_local_size) local /= 2;
    *out = (struct call){.kernel = kernel, .launch = LAUNCH_ELEMENTS};
    call_set(out, CONST_LOCAL_SIZE, local);
}

bool elements_runs(const struct wherry_session *s, const struct call *call, enum storage type, const char *fails,
                   struct error *e)
{
    char reason[256];
    return s->device->backend->supports(s->device->handle, call, type, reason, sizeof reason) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "%s %s: %s", s->device->info.id, fails, reason);
}

void elements_bind(struct step *step, uint8_t slot, bool words, bool written, struct buffer *buffer, struct range range)
{
    step->bindings[step->n_bindings++] = (struct binding){.slot = slot,
                                                          .written = written,
                                                          .words = words,
                                                          .buffer = buffer,
                                                          .offset = range.begin,
                                                          .bytes = range.end - range.begin};
}
