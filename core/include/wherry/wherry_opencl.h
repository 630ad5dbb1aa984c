/* Wherry on the application's own OpenCL device.
 *
 * No OpenCL header is needed: handles are passed as void *, so that applications may include any version of them. */
#ifndef WHERRY_WHERRY_OPENCL_H
#define WHERRY_WHERRY_OPENCL_H

#include "wherry/wherry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wherry_opencl_device_desc {
    uint32_t struct_size;
    void *context; /* cl_context */
    void *device;  /* cl_device_id: one of the context's devices, OpenCL 1.2 or later with a compiler */
    void *queue;   /* cl_command_queue: in-order, of this context and device; NULL: one is made */
    /* cl_command_queue: a second one of the same kind, NULL: none. Runs that are not waited for (wherry_encode_submit)
     * have their uploads and downloads there, beside what `queue` computes. It takes memory of the device for what two
     * runs of each session transfer. Batches with objects of the application's have all of theirs on `queue`. */
    void *copy_queue;
} wherry_opencl_device_desc;

/* A device that works in the application's context. The context and the queues are retained until
 * wherry_device_close().
 *
 * Work is enqueued on the given queue, after what the application has enqueued there, and has finished when a call
 * returns. Several threads may enqueue at once, the application's among them. wherry_measure() makes
 * a second queue in the same context, because timestamps are a property of a queue.
 *
 * Where the library was built with CLBlast and a session uses it (wherry_session_note() says so), CLBlast's parameters
 * of single-precision GEMM are set for this device for the whole process, the application's own calls included.
 *
 * Fails with WHERRY_STATUS_INVALID_ARGUMENT for handles that do not belong together or an out-of-order queue, and with
 * WHERRY_STATUS_UNSUPPORTED for a device that can't be used (the text says why) or a build without OpenCL. */
WHERRY_API wherry_status wherry_device_wrap_opencl(wherry_context *context, const wherry_opencl_device_desc *desc,
                                                   wherry_device **out);

/* ---- the device's own objects, for wherry_submit_desc.opencl ---- */

typedef struct wherry_opencl_buffer {
    void *memory;    /* cl_mem, a buffer of the device's context; NULL: none */
    uint64_t offset; /* bytes before what is meant: a multiple of 4 */
} wherry_opencl_buffer;

enum { WHERRY_OPENCL_EVENTS = 8 };

typedef struct wherry_opencl_submit {
    uint32_t struct_size;
    uint32_t wait_count;      /* at most WHERRY_OPENCL_EVENTS */
    void *const *waits;       /* cl_event: waited for before anything of the batch runs */
    void **event;             /* gets a cl_event of the batch's end, which the caller releases; NULL: none */
    wherry_opencl_buffer ids; /* as in wherry_vulkan_submit */
    wherry_opencl_buffer result;
    uint64_t result_stride;
    wherry_dtype result_type;
    wherry_opencl_buffer gradient;
} wherry_opencl_submit;

#ifdef __cplusplus
}
#endif
#endif
