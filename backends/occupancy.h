/* Occupancy where a driver tells what a kernel takes and not how many fit. */
#ifndef WHERRY_BACKENDS_OCCUPANCY_H
#define WHERRY_BACKENDS_OCCUPANCY_H

#include <stdint.h>

/* Warps that a multiprocessor of this compute capability (times 10) holds of kernels with so many registers of a
 * work-item, bytes of shared memory of a work-group, work-items of a work-group; *most: of any kernel. Both 0: it is
 * not known. */
uint32_t nvidia_waves(uint32_t sm, uint32_t registers, uint32_t shared, uint32_t local_size, uint32_t *most);

#endif
