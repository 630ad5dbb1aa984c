/* Tensor maps: what Hopper's copy engine must know of a matrix to load tiles of it (cl/tensor_maps.cl). A program makes
 * all of its kernels' maps in one launch, and again when a batch has other numbers of rows.
 *
 * Counters: words by which work-groups of a kernel find out who of them is the last (cl/parts.h). A kernel that ends
 * leaves them 0, as it wants to find them; they are set to 0 before the first run, and before the one after a failure.
 */
#include "opencl.h"

#include <string.h>

#include "interface/interface.h"

enum { MAP_WORK_ITEMS = 32 };

static cl_kernel kernel_create(struct backend_device *device, const char *name, struct error *e)
{
    struct kernel_build *build = opencl_build_named(device, name, e);
    if (!build) return NULL;
    cl_int code;
    cl_kernel kernel = clCreateKernel(build->program, build->kernel, &code);
    if (!kernel) opencl_fail(e, code, "clCreateKernel of %s", name);
    return kernel;
}

static const struct binding *binding_of(const struct step *step, uint8_t slot)
{
    for (int i = 0; i < step->n_bindings; i++)
        if (step->bindings[i].slot == slot) return &step->bindings[i];
    return NULL;
}

/* Only a kernel knows where a buffer lies: one that writes the address down. */
static bool address_write(struct backend_device *device, const struct opencl_maps *maps, cl_kernel kernel,
                          const struct step *step, const struct call_map *map, cl_uint index, struct error *e)
{
    const struct binding *b = binding_of(step, map->slot);
    if (!b || b->words || !step->f16)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: a tensor map of slot %d, which is no matrix of f16",
                    step->name, map->slot);
    const cl_ulong at = (b->buffer->at + b->offset) / 2 + map->offset;
    const size_t one = 1;
    cl_int code = clSetKernelArg(kernel, 0, sizeof(cl_mem), &b->buffer->memory);
    if (!code) code = clSetKernelArg(kernel, 1, sizeof at, &at);
    if (!code) code = clSetKernelArg(kernel, 2, sizeof(cl_mem), &maps->table);
    if (!code) code = clSetKernelArg(kernel, 3, sizeof index, &index);
    if (!code) code = clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    return !code || opencl_fail(e, code, "%s: writing down an argument's address", step->name);
}

static bool table_fill(struct backend_device *device, struct opencl_maps *maps, const struct schedule *schedule,
                       cl_ulong *table, struct error *e)
{
    cl_uint n = 0;
    for (int i = 0; i < schedule->n_steps; i++)
        for (int k = 0; k < schedule->steps[i].call->n_maps; k++, n++) {
            const struct call_map *m = &schedule->steps[i].call->maps[k];
            cl_ulong *entry = table + (size_t)n * MAP_TABLE_WORDS;
            entry[MAP_TABLE_COLUMNS] = m->columns;
            entry[MAP_TABLE_ROWS] = m->rows;
            entry[MAP_TABLE_ROWS_OF] = m->rows_of;
            entry[MAP_TABLE_STRIDE] = (cl_ulong)m->stride * 2;
            entry[MAP_TABLE_BOX_COLUMNS] = m->box_columns;
            entry[MAP_TABLE_BOX_ROWS] = m->box_rows;
        }
    cl_int code = clEnqueueWriteBuffer(device->queue, maps->table, CL_TRUE, 0,
                                       (size_t)maps->count * MAP_TABLE_WORDS * sizeof *table, table, 0, NULL, NULL);
    if (code) return opencl_fail(e, code, "writing the table of tensor maps");
    cl_kernel address = kernel_create(device, "tensor_address", e);
    bool ok = address;
    n = 0;
    for (int i = 0; ok && i < schedule->n_steps; i++)
        for (int k = 0; ok && k < schedule->steps[i].call->n_maps; k++)
            ok = address_write(device, maps, address, &schedule->steps[i], &schedule->steps[i].call->maps[k], n++, e);
    code = clFinish(device->queue);
    if (address) clReleaseKernel(address);
    return ok && (!code || opencl_fail_running(e, code, "clFinish"));
}

bool opencl_maps_create(struct backend_device *device, const struct schedule *schedule, struct opencl_maps *maps,
                        struct error *e)
{
    cl_int code;
    maps->count = maps->n_counters = 0;
    for (int i = 0; i < schedule->n_steps; i++) {
        maps->count += (cl_uint)schedule->steps[i].call->n_maps;
        maps->n_counters += schedule->steps[i].call->counters;
    }
    if (maps->n_counters) {
        maps->counters =
            clCreateBuffer(device->context, CL_MEM_READ_WRITE, maps->n_counters * sizeof(cl_uint), NULL, &code);
        if (code) return opencl_fail(e, code, "clCreateBuffer for %u counters", (unsigned)maps->n_counters);
    }
    if (!maps->count) return true;
    const size_t words = (size_t)maps->count * MAP_TABLE_WORDS;
    maps->table = clCreateBuffer(device->context, CL_MEM_READ_WRITE, words * sizeof(cl_ulong), NULL, &code);
    if (!code) {
        maps->maps = clCreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)maps->count * MAP_BYTES, NULL, &code);
    }
    if (code) return opencl_fail(e, code, "clCreateBuffer for %u tensor maps", (unsigned)maps->count);
    cl_ulong *table = host_alloc(device->host, words, sizeof *table, e);
    bool ok = table && table_fill(device, maps, schedule, table, e);
    host_free(device->host, table);
    if (!ok || !(maps->make = kernel_create(device, "tensor_maps", e))) return false;
    const struct binding *batch = &schedule->steps[0].bindings[0];
    const cl_ulong at = (batch->buffer->at + batch->offset) / 4;
    code = clSetKernelArg(maps->make, 0, sizeof(cl_mem), &batch->buffer->memory);
    if (!code) code = clSetKernelArg(maps->make, 1, sizeof at, &at);
    if (!code) code = clSetKernelArg(maps->make, 2, sizeof(cl_mem), &maps->table);
    if (!code) code = clSetKernelArg(maps->make, 3, sizeof(cl_mem), &maps->maps);
    return !code || opencl_fail(e, code, "clSetKernelArg of tensor_maps");
}

void opencl_maps_destroy(struct opencl_maps *maps)
{
    if (maps->make) clReleaseKernel(maps->make);
    if (maps->maps) clReleaseMemObject(maps->maps);
    if (maps->table) clReleaseMemObject(maps->table);
    if (maps->counters) clReleaseMemObject(maps->counters);
}

bool opencl_maps_make(struct opencl_maps *maps, cl_command_queue queue, struct error *e)
{
    const size_t local = MAP_WORK_ITEMS, global = local * maps->count;
    cl_int code = clEnqueueNDRangeKernel(queue, maps->make, 1, NULL, &global, &local, 0, NULL, NULL);
    return !code || opencl_fail_running(e, code, "clEnqueueNDRangeKernel of tensor_maps");
}

static bool counters_clear(struct backend_device *device, struct opencl_maps *maps, cl_command_queue queue,
                           struct error *e)
{
    cl_uint *zeros = host_alloc(device->host, maps->n_counters, sizeof *zeros, e); /* which are 0 */
    if (!zeros) return false;
    cl_int code =
        clEnqueueWriteBuffer(queue, maps->counters, CL_TRUE, 0, maps->n_counters * sizeof *zeros, zeros, 0, NULL, NULL);
    host_free(device->host, zeros);
    maps->cleared = !code;
    return !code || opencl_fail_running(e, code, "clEnqueueWriteBuffer of %u counters", (unsigned)maps->n_counters);
}

void opencl_maps_forget(struct opencl_maps *maps) { maps->made = maps->cleared = false; }

bool opencl_maps_update(struct backend_device *device, struct opencl_maps *maps, const struct batch_shape *batch,
                        cl_command_queue queue, struct error *e)
{
    if (maps->n_counters && !maps->cleared) TRY(counters_clear(device, maps, queue, e));
    if (!maps->count) return true;
    if (maps->made && maps->tokens == batch->tokens && maps->sequences == batch->sequences) return true;
    maps->made = false;
    TRY(opencl_maps_make(maps, queue, e));
    maps->made = true;
    maps->tokens = batch->tokens;
    maps->sequences = batch->sequences;
    return true;
}
