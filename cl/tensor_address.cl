/* Writes down where a tensor lies, for its tensor map: table[index].address = x. One work-item. */
#include "common.h"
#include "tensor_maps.h"

__kernel void tensor_address(__global const ushort *x_buffer, const ulong x_at, __global ulong *table, const uint index)
{
    table[index * MAP_TABLE_WORDS + MAP_TABLE_ADDRESS] = (ulong)(x_buffer + x_at);
}
