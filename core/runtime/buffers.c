/* A session's device memory. */
#include "runtime/buffers.h"

/* Kernels may be compiled for it, so it goes by the rungs, and is part of what their checks check. */
bool session_one_buffer(const struct wherry_session *s)
{
    const struct device_limits *device = &s->device_limits;
    return device->rungs & device->one_buffer_rungs && s->limits.tokens <= device->one_buffer_rows;
}

bool session_in_one_buffer(const struct wherry_session *s)
{
    return session_one_buffer(s) && !s->memory.n_given && s->memory.bytes <= s->device_limits.max_buffer_bytes;
}

static bool make_whole(struct wherry_session *s, bool small, struct error *e)
{
    const struct backend *backend = s->device->backend;
    if (!session_in_one_buffer(s)) return true;
    uint64_t bytes = small ? (uint64_t)s->memory.n_blocks * SESSION_SMALL_BUFFER : s->memory.bytes;
    s->whole = backend->buffer_create(s->device->handle, bytes, e);
    return s->whole != NULL;
}

bool session_make_buffers(struct wherry_session *s, bool small, struct error *e)
{
    const struct backend *backend = s->device->backend;
    uint64_t at = 0;
    s->buffers = host_alloc(&s->context->host, (size_t)s->memory.n_blocks, sizeof *s->buffers, e);
    if (!s->buffers || !make_whole(s, small, e)) return false;
    if (!small && !shared_weights_hold(s, e)) return false;
    for (int i = 0; i < s->memory.n_blocks; i++) {
        uint64_t bytes = small ? SESSION_SMALL_BUFFER : s->memory.blocks[i].bytes;
        if (s->shared.held && shared_weights_has(s, i)) {
            s->buffers[i] = shared_weights_buffer(s, i);
            continue;
        }
        s->buffers[i] = s->whole ? backend->buffer_part(s->device->handle, s->whole, at, bytes, e)
                                 : backend->buffer_create(s->device->handle, bytes, e);
        if (!s->buffers[i]) return false;
        at += bytes;
    }
    return true;
}

void session_free_buffers(struct wherry_session *s)
{
    const struct backend *backend = s->device->backend;
    for (int i = 0; s->buffers && i < s->memory.n_blocks; i++)
        if (!s->shared.held || !shared_weights_has(s, i)) backend->buffer_destroy(s->device->handle, s->buffers[i]);
    shared_weights_release(s);
    backend->buffer_destroy(s->device->handle, s->whole);
    host_free(&s->context->host, s->buffers);
    s->buffers = NULL;
    s->whole = NULL;
}
