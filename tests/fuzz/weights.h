/* Weights of a folder: headers that are fuzzed, and tensors that are made up. */
#ifndef WHERRY_TESTS_FUZZ_WEIGHTS_H
#define WHERRY_TESTS_FUZZ_WEIGHTS_H

#include "mutate.h"

#include "model/model.h"

enum { WEIGHT_BYTES_MAX = 1 << 16 };

/* The header, and `bytes` bytes of tensors after it. */
static inline void fuzz_write_weights(const char *name, struct fuzz_part header, size_t bytes)
{
    static uint8_t file[8 + (1 << 16) + WEIGHT_BYTES_MAX];
    size_t length = header.size < 1 << 16 ? header.size : 1 << 16;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header.data, length);
    memset(file + 8 + length, 0x3C, bytes); /* 0.0115 in f32, 1.06 in f16 */
    if (length)
        fuzz_write(name, file, 8 + length + bytes);
    else
        unlink(fuzz_path(name));
}

static inline void fuzz_read_part(const struct weight_part *part, uint64_t first, uint64_t n, enum weight_type as,
                                  void *raw, void *out)
{
    struct error e = {0};
    if (!weight_convert(part, first, n, as, raw, out, &e)) fuzz_failed(&e);
}

/* All weights can be read as both types. */
static inline void fuzz_use_weights(const struct wherry_model *model)
{
    const wherry_model_config *config = &model->info.config;
    for (int layer = -1; layer < (int)config->layers; layer++) {
        for (int w = 0; w < WEIGHT_COUNT; w++) {
            const struct weight_part *parts;
            static float out[16], raw[WEIGHT_RAW_BYTES / sizeof(float)];
            int count = model_weight(model, (enum weight)w, layer, &parts);
            for (int p = 0; p < count; p++) {
                uint64_t n = parts[p].elements < 16 ? parts[p].elements : 16;
                CHECK(parts[p].elements);
                fuzz_read_part(&parts[p], parts[p].elements - n, n, WEIGHT_TYPE_F32, raw, out);
                fuzz_read_part(&parts[p], 0, n, WEIGHT_TYPE_F16, raw, out);
            }
        }
    }
}

#endif
