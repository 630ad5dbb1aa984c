/* What an application hands in of its own with a batch: semaphores and buffers, as the caller describes them. */
#include <inttypes.h>

#include "vulkan.h"
#include "wherry/wherry_vulkan.h"

static bool semaphores_take(const wherry_vulkan_semaphore *list, uint32_t count, const char *what,
                            struct outside_sync *out, int *n, struct error *e)
{
    if (count > OUTSIDE_SYNCS || (count && !list))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%u semaphores to be %s: at most %d, and a list of them",
                    (unsigned)count, what, OUTSIDE_SYNCS);
    for (uint32_t i = 0; i < count; i++) {
        if (!list[i].semaphore)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "semaphore %u to be %s is none", (unsigned)i, what);
        out[i] = (struct outside_sync){(uint64_t)list[i].semaphore, list[i].value};
    }
    *n = (int)count;
    return true;
}

static bool buffer_take(const struct backend_device *d, const wherry_vulkan_buffer *b, const char *what,
                        VkBufferUsageFlags usage, const char *usage_name, struct outside_rows *out, uint64_t *bytes,
                        struct error *e)
{
    if (!b->buffer) return true;
    if (b->device != d->handle)
        return fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "the buffer %s is of another device than the session, %s: buffers are used on the VkDevice that they "
            "were created with",
            what, d->physical.info.name);
    if (!(b->usage & usage))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the buffer %s was created with the usage 0x%x: it has to be %s, too", what, (unsigned)b->usage,
                    usage_name);
    if (b->offset % 4 || b->offset > b->bytes)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "the buffer %s, of %" PRIu64 " bytes, is used from byte %" PRIu64
                    " on: that has to be in it, and a "
                    "multiple of 4",
                    what, b->bytes, b->offset);
    out->buffer = (uint64_t)b->buffer;
    out->offset = b->offset;
    *bytes = b->bytes - b->offset;
    return true;
}

bool vulkan_outside(struct backend_device *d, const void *desc, struct outside *out, struct error *e)
{
    const wherry_vulkan_submit *s = desc;
    *out = (struct outside){0};
    if (s->struct_size != sizeof *s)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_vulkan_submit.struct_size is %u, this library's is %zu",
                    (unsigned)s->struct_size, sizeof *s);
    TRY(semaphores_take(s->waits, s->wait_count, "waited for", out->before, &out->n_before, e));
    TRY(semaphores_take(s->signals, s->signal_count, "signaled", out->after, &out->n_after, e));
    TRY(buffer_take(d, &s->ids, "of ids", VK_BUFFER_USAGE_TRANSFER_SRC_BIT, "VK_BUFFER_USAGE_TRANSFER_SRC_BIT",
                    &out->ids, &out->ids_bytes, e));
    TRY(buffer_take(d, &s->result, "of results", VK_BUFFER_USAGE_TRANSFER_DST_BIT, "VK_BUFFER_USAGE_TRANSFER_DST_BIT",
                    &out->result, &out->result_bytes, e));
    TRY(buffer_take(d, &s->gradient, "of gradients", VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
                    "VK_BUFFER_USAGE_TRANSFER_SRC_BIT", &out->gradient, &out->gradient_bytes, e));
    out->result.step = out->gradient.step = s->result_stride;
    out->result_type = s->result_type;
    return true;
}
