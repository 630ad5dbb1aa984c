/* Embeddings in fewer bits, as sentence-transformers has them: 16-bit floats, steps of a byte, packed signs. */
#include "quantize.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "options.h"

/* ---- ranges ---- */

enum { NPY_HEADER_MOST = 1 << 16, ROWS_MOST = 1 << 30 };

/* Rows and columns of an .npy file of float32 whose header has been read. */
static bool npy_shape(const char *header, uint64_t *rows, uint64_t *columns)
{
    const char *shape = strstr(header, "'shape'"), *open = shape ? strchr(shape, '(') : NULL;
    unsigned long long r, c;
    if (!strstr(header, "'<f4'") || !strstr(header, "'fortran_order': False") || !open) return false;
    if (sscanf(open, "(%llu, %llu)", &r, &c) != 2 || r < 2 || r > ROWS_MOST || !c || c > UINT32_MAX) return false;
    *rows = r;
    *columns = c;
    return true;
}

static bool npy_begin(FILE *file, uint64_t *rows, uint64_t *columns)
{
    unsigned char start[12];
    size_t size, extra;
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) || start[6] < 1 || start[6] > 3) return false;
    extra = start[6] == 1 ? 0 : 2; /* later versions count the header with four bytes */
    if (extra && fread(start + 10, 1, 2, file) != 2) return false;
    size = (size_t)start[8] | (size_t)start[9] << 8;
    if (extra) size |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (size > NPY_HEADER_MOST) return false;
    char *header = need(malloc(size + 1));
    header[size] = 0;
    bool ok = fread(header, 1, size, file) == size && npy_shape(header, rows, columns);
    free(header);
    return ok;
}

static bool ranges_scan(struct quantizer *q, FILE *file, uint64_t rows, float *row)
{
    for (uint64_t r = 0; r < rows; r++) {
        if (fread(row, sizeof *row, q->size, file) != q->size) return false;
        for (uint32_t c = 0; c < q->size; c++) {
            if (!isfinite(row[c])) return false;
            if (!r || row[c] < q->starts[c]) q->starts[c] = row[c];
            if (!r || row[c] > q->steps[c]) q->steps[c] = row[c]; /* the largest, for now */
        }
    }
    for (uint32_t c = 0; c < q->size; c++) {
        float step = (q->steps[c] - q->starts[c]) / 255;
        q->steps[c] = step == 0 ? 1 : step;
    }
    return true;
}

static int ranges_read(struct quantizer *q, const char *path)
{
    uint64_t rows, columns;
    FILE *file = fopen(path, "rb");
    if (!file) return complain(EXIT_INPUT, "can't open %s: %s", path, strerror(errno));
    int code = EXIT_FINE;
    if (!npy_begin(file, &rows, &columns)) {
        code = complain(EXIT_INPUT,
                        "%s is not an .npy file of float32 with at least two rows: give embeddings as "
                        "wherry embed --format npy writes them",
                        path);
    } else if (columns != q->size) {
        code = complain(EXIT_INPUT, "%s has rows of %llu values, and embeddings have %u", path,
                        (unsigned long long)columns, q->size);
    } else {
        float *row = need(malloc(q->size * sizeof *row));
        if (!ranges_scan(q, file, rows, row))
            code = complain(EXIT_INPUT, "%s ends early, or has a value that is not finite", path);
        free(row);
    }
    fclose(file);
    return code;
}

/* ---- rows ---- */

int quantizer_open(struct quantizer *q, enum quantity type, uint32_t size, const char *ranges)
{
    *q = (struct quantizer){.type = type, .size = size};
    if (type != QUANTITY_INT8) return EXIT_FINE;
    q->starts = need(calloc(size, sizeof *q->starts));
    q->steps = need(calloc(size, sizeof *q->steps));
    return ranges_read(q, ranges);
}

void quantizer_close(struct quantizer *q)
{
    free(q->starts);
    free(q->steps);
    *q = (struct quantizer){0};
}

static bool is_packed(const struct quantizer *q) { return q->type == QUANTITY_BINARY || q->type == QUANTITY_UBINARY; }

uint32_t quantizer_columns(const struct quantizer *q) { return is_packed(q) ? (q->size + 7) / 8 : q->size; }

size_t quantizer_bytes(const struct quantizer *q)
{
    return q->type == QUANTITY_F32 ? sizeof(float) : q->type == QUANTITY_F16 ? sizeof(uint16_t) : 1;
}

const char *quantizer_descr(const struct quantizer *q)
{
    static const char *const names[] = {"<f4", "<f2", "|i1", "|i1", "|u1"};
    return names[q->type];
}

/* The first dimension is the highest bit; signed bytes have 128 less. */
static void pack_signs(const struct quantizer *q, const float *values, unsigned char *to)
{
    memset(to, 0, quantizer_columns(q));
    for (uint32_t i = 0; i < q->size; i++)
        if (values[i] > 0) to[i / 8] |= (unsigned char)(0x80 >> i % 8);
    for (uint32_t i = 0; q->type == QUANTITY_BINARY && i < quantizer_columns(q); i++) to[i] ^= 0x80;
}

void quantize(const struct quantizer *q, const float *values, void *to)
{
    uint16_t *half = to;
    int8_t *bytes = to;
    if (q->type == QUANTITY_F32) memcpy(to, values, q->size * sizeof *values);
    if (is_packed(q)) pack_signs(q, values, to);
    for (uint32_t i = 0; q->type == QUANTITY_F16 && i < q->size; i++) half[i] = half_from_float(values[i]);
    for (uint32_t i = 0; q->type == QUANTITY_INT8 && i < q->size; i++) {
        float step = floorf((values[i] - q->starts[i]) / q->steps[i]);
        bytes[i] = (int8_t)((int)(step < 0 ? 0 : step > 255 ? 255 : step) - 128);
    }
}

double quantized_value(const struct quantizer *q, const void *row, uint32_t column)
{
    switch (q->type) {
    case QUANTITY_F32:
        return (double)((const float *)row)[column];
    case QUANTITY_F16:
        return (double)half_to_float(((const uint16_t *)row)[column]);
    case QUANTITY_UBINARY:
        return ((const uint8_t *)row)[column];
    default:
        return ((const int8_t *)row)[column];
    }
}
