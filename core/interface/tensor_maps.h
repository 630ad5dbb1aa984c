/* Tensor maps, as the host and cl/tensor_maps.cl agree on them: nothing but #define lines. */
#ifndef WHERRY_KERNEL_TENSOR_MAPS_H
#define WHERRY_KERNEL_TENSOR_MAPS_H

#define MAP_BYTES 128 /* of a map, which begins on as many */

/* An entry of the table that maps are made of: ulong words. */
#define MAP_TABLE_ADDRESS 0 /* of the matrix' first element, a multiple of 16 */
#define MAP_TABLE_COLUMNS 1 /* 0, of rows likewise: the word ROWS_OF of the batch header */
#define MAP_TABLE_ROWS 2
#define MAP_TABLE_ROWS_OF 3 /* HEADER_TOKENS or HEADER_SEQUENCES */
#define MAP_TABLE_STRIDE 4  /* bytes from one row to the next, a multiple of 16 */
#define MAP_TABLE_BOX_COLUMNS 5
#define MAP_TABLE_BOX_ROWS 6
#define MAP_TABLE_WORDS 8

#endif
