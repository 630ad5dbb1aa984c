/* NVIDIA's multiprocessors: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". All have
 * 65,536 registers, which warps get in units of 256, and four partitions that warps are dealt to. */
#include "backends/occupancy.h"

#include <stddef.h>

enum { WARP = 32, REGISTERS = 65536, REGISTER_UNIT = 256, PARTITIONS = 4 };

static const struct multiprocessor {
    uint32_t sm, warps, groups, shared_kib;
} multiprocessors[] = {
    {50, 64, 32, 64},   {52, 64, 32, 96},   {53, 64, 32, 64},   {60, 64, 32, 64},  {61, 64, 32, 96},
    {62, 64, 32, 64},   {70, 64, 32, 96},   {72, 64, 32, 96},   {75, 32, 16, 64},  {80, 64, 32, 164},
    {86, 48, 16, 100},  {87, 48, 16, 164},  {89, 48, 24, 100},  {90, 64, 32, 228}, {100, 64, 32, 228},
    {103, 64, 32, 228}, {120, 48, 24, 100}, {121, 48, 24, 100},
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t nvidia_waves(uint32_t sm, uint32_t registers, uint32_t shared, uint32_t local_size, uint32_t *most)
{
    const struct multiprocessor *m = NULL;
    *most = 0;
    for (size_t i = 0; i < sizeof multiprocessors / sizeof *multiprocessors; i++)
        if (multiprocessors[i].sm == sm) m = &multiprocessors[i];
    if (!m || !registers || !local_size) return 0;
    *most = m->warps;
    uint32_t of_warp = (registers * WARP + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    uint32_t by_registers = REGISTERS / of_warp / PARTITIONS * PARTITIONS;
    uint32_t of_group = (local_size + WARP - 1) / WARP;
    uint32_t groups = least(m->groups, least(m->warps, by_registers) / of_group);
    uint32_t reserved = sm >= 80 ? 1024 : 0; /* the system's, of each group */
    if (shared) groups = least(groups, m->shared_kib * 1024 / (shared + reserved));
    return groups * of_group;
}
