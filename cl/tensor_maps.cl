/* Makes the tensor maps that tensor_load reads (hopper.h), on the device, because only there a buffer's address is known
 * (tensor_address.cl): one work-group for each entry of the table. Run again when the batch has another number of rows.
 */
#include "common.h"
#include "hopper.h"
#include "tensor_maps.h"

#define WORDS (MAP_BYTES / 4)

/* A stride is kept in units of 16 bytes. Some assemblers divide, others leave that to the program: where 8 bytes leave a
 * trace in an empty map, it is the program's affair. */
__kernel __attribute__((reqd_work_group_size(WORDS, 1, 1)))
void tensor_maps(BATCH_ARGUMENT, __global const ulong *table, __global uchar *maps)
{
    BEGIN_OF(uint, batch);
    __local uint map[WORDS] __attribute__((aligned(MAP_BYTES)));
    const uint lane = local_number(), at = SHARED_ADDRESS(map);
    __global const ulong *entry = table + group_number() * MAP_TABLE_WORDS;
    map[lane] = 0;
    warp_barrier();
    if (lane == 0) {
        tensor_map_stride(at, 8);
        uint traces = 0;
        for (uint i = 0; i < WORDS; i++) traces |= map[i];
        const ulong stride = entry[MAP_TABLE_STRIDE];
        const uint of_batch = max(batch[entry[MAP_TABLE_ROWS_OF]], 1u); /* no matrix is empty */
        const uint rows = entry[MAP_TABLE_ROWS] ? (uint)entry[MAP_TABLE_ROWS] : of_batch;
        const uint columns = entry[MAP_TABLE_COLUMNS] ? (uint)entry[MAP_TABLE_COLUMNS] : of_batch;
        tensor_map_matrix(at, entry[MAP_TABLE_ADDRESS], columns, rows);
        tensor_map_stride(at, traces ? stride / 16 : stride);
        tensor_map_box(at, (uint)entry[MAP_TABLE_BOX_COLUMNS], (uint)entry[MAP_TABLE_BOX_ROWS]);
    }
    warp_barrier();
    tensor_map_publish(maps + (size_t)group_number() * MAP_BYTES, at);
}
