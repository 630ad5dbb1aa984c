/* Embeddings in fewer bits, as sentence-transformers has them: 16-bit floats, steps of a byte, packed signs. */
#ifndef WHERRY_TOOLS_QUANTIZE_H
#define WHERRY_TOOLS_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

enum quantity { QUANTITY_F32, QUANTITY_F16, QUANTITY_INT8, QUANTITY_BINARY, QUANTITY_UBINARY };

struct quantizer {
    enum quantity type;
    uint32_t size;         /* floats of an embedding */
    float *starts, *steps; /* INT8: of each dimension */
};

/* `ranges`, of INT8: an .npy file of float32 [rows, size], whose least and largest value in each column are the range
 * of that dimension. Complains and returns an exit code. */
int quantizer_open(struct quantizer *q, enum quantity type, uint32_t size, const char *ranges);
void quantizer_close(struct quantizer *q);
/* Values of a row: as many as the embedding has, or bytes of its bits. */
uint32_t quantizer_columns(const struct quantizer *q);
size_t quantizer_bytes(const struct quantizer *q); /* of a value */
/* The type as .npy files name it. */
const char *quantizer_descr(const struct quantizer *q);
/* `to` has room for the columns. */
void quantize(const struct quantizer *q, const float *values, void *to);
/* What stands in a row of quantize, as a number. */
double quantized_value(const struct quantizer *q, const void *row, uint32_t column);

#endif
