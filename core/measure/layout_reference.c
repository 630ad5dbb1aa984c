/* What the kernels that measure layouts should write, in double precision, element by element. */
#include <math.h>
#include <string.h>

#include "interface/random.h"
#include "measure/layout_bench.h"

double layout_made(enum layout_values values, int input, uint64_t at)
{
    uint32_t x = ((uint32_t)at + (uint32_t)input * 0x632be5abu) * 0x9e3779b1u;
    x = (x ^ x >> 15) * 0x85ebca77u;
    x ^= x >> 13;
    if (values == LAYOUT_MASK_VALUES) return x >> 20 & 1;
    if (values == LAYOUT_POSITIVE_VALUES) return 0.5 + (x >> 20 & 255) / 256.0;
    return ((int)(x >> 20 & 511) - 256) / 256.0;
}

uint64_t layout_position(const struct layout_work *work, const struct layout_config *config,
                         const struct layout_tensor *tensor, const uint32_t *coordinates)
{
    uint64_t at = 0;
    for (int l = 0; l < LAYOUT_LETTERS && work->letters[l]; l++)
        at += coordinates[l] * layout_tensor_stride(work, config, tensor, l);
    return at;
}

/* ---- a kernel's element ---- */

struct point {
    const struct layout_work *work;
    const struct layout_config *config;
    uint32_t width;
    uint64_t strides[LAYOUT_TENSORS][LAYOUT_LETTERS]; /* of inputs */
    uint32_t at[LAYOUT_LETTERS];
};

static double input(const struct point *p, int n)
{
    uint64_t at = 0;
    for (int l = 0; l < LAYOUT_LETTERS; l++) at += p->at[l] * p->strides[n][l];
    return layout_made(p->work->inputs[n].values, n, at);
}

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = (uint32_t)((uint64_t)(a) * (b) >> 32);                                                                      \
    low = (uint32_t)((a) * (b))

/* 1 where the element is kept: the vector's bits, in its order. */
static double kept(const struct point *p)
{
    uint32_t lane = p->at[p->config->vector] % p->width, w0 = 0, w1 = 0, w2 = 0, w3 = 0, k0 = LAYOUT_SEED, k1 = 0;
    for (int l = 0; l < 4; l++) w0 = w0 * p->work->sizes[l] + p->at[l] - (l == p->config->vector ? lane : 0);
    PHILOX(w0, w1, w2, w3, k0, k1)
    const uint32_t words[4] = {w0, w1, w2, w3};
    return (words[lane / 2] >> 16 * (lane % 2) & 0xffff) < LAYOUT_THRESHOLD ? 0 : 1;
}

/* r of BDRLN: what is normed. */
static double residual_sum(const struct point *p, double mask)
{
    return (input(p, 0) + input(p, 2)) * mask * (double)LAYOUT_KEPT_SCALE + input(p, 1);
}

/* What one element adds to each of three sums. */
static void addends(const struct point *p, double *sums)
{
    double v = input(p, 0), d;
    switch (p->work->form) {
    case LAYOUT_SM:
        sums[0] += exp(v);
        break;
    case LAYOUT_BS:
        sums[0] += v * input(p, 2) * input(p, 1) * (double)LAYOUT_KEPT_SCALE;
        break;
    case LAYOUT_BLNRD:
        sums[0] += v;
        sums[1] += v * input(p, 1);
        break;
    case LAYOUT_BDRLN:
        d = residual_sum(p, kept(p));
        sums[0] += d;
        sums[1] += d * d;
        break;
    case LAYOUT_BSB:
        sums[0] += v * input(p, 1);
        sums[1] += v;
        break;
    case LAYOUT_BDRB:
        sums[0] += input(p, 2) > 0 ? v * input(p, 1) * (double)LAYOUT_KEPT_SCALE : 0;
        break;
    case LAYOUT_EBSB:
        d = v + input(p, 1);
        sums[0] += d * input(p, 2);
        sums[1] += d;
        sums[2] += input(p, 3);
        break;
    case LAYOUT_BAOB:
        sums[0] += v;
        break;
    case LAYOUT_BAIB:
        for (int n = 0; n < 3; n++) sums[n] += input(p, n);
        break;
    default:
        break;
    }
}

/* Sums over all values of the reduced letters at the point. */
static void reduce(struct point *p, double *sums)
{
    const char *reduced = layout_forms[p->work->form].reduced;
    if (!*reduced) return;
    int first = (int)(strchr(p->work->letters, reduced[0]) - p->work->letters);
    int second = reduced[1] ? (int)(strchr(p->work->letters, reduced[1]) - p->work->letters) : -1;
    uint32_t saved[LAYOUT_LETTERS];
    memcpy(saved, p->at, sizeof saved);
    for (p->at[first] = 0; p->at[first] < p->work->sizes[first]; p->at[first]++) {
        if (second < 0) {
            addends(p, sums);
            continue;
        }
        for (p->at[second] = 0; p->at[second] < p->work->sizes[second]; p->at[second]++) addends(p, sums);
    }
    memcpy(p->at, saved, sizeof saved);
}

static void normed(const struct point *p, const double *sums, double *out)
{
    double mask = kept(p), n = p->work->sizes[2], mean = sums[0] / n;
    double inverse = 1 / sqrt(sums[1] / n - mean * mean + (double)LAYOUT_EPSILON);
    double r = residual_sum(p, mask) - mean;
    out[0] = input(p, 0) + input(p, 2);
    out[1] = r * inverse * input(p, 3) + input(p, 4);
    out[2] = mask;
    out[3] = r * inverse;
    out[4] = r;
    out[5] = inverse;
}

static void form_reference(const struct point *p, const double *sums, double *out)
{
    const double scale = (double)LAYOUT_KEPT_SCALE;
    double v = input(p, 0), mask, n, s, diff;
    switch (p->work->form) {
    case LAYOUT_AIB:
        for (int q = 0; q < 3; q++) out[q] = input(p, q) + input(p, 3 + q);
        break;
    case LAYOUT_SM:
        out[0] = exp(v) / sums[0];
        out[1] = kept(p);
        out[2] = out[0] * out[1] * scale;
        break;
    case LAYOUT_BDRLN:
        normed(p, sums, out);
        break;
    case LAYOUT_BRD:
        out[0] = v + input(p, 1);
        out[1] = kept(p);
        out[2] = out[0] > 0 ? out[0] * out[1] * scale : 0;
        break;
    case LAYOUT_BSB:
        out[0] = v * input(p, 2);
        out[1] = sums[0];
        out[2] = sums[1];
        break;
    case LAYOUT_BLNRD:
        mask = input(p, 2), n = p->work->sizes[2], s = input(p, 3), diff = input(p, 1);
        out[0] = s * v - s / n * sums[0] - diff * s * s * s / n * sums[1];
        out[1] = out[0] * mask * scale;
        break;
    case LAYOUT_BDRB:
        out[0] = input(p, 2) > 0 ? v * input(p, 1) * scale : 0;
        out[1] = sums[0];
        break;
    case LAYOUT_EBSB:
        out[0] = (v + input(p, 1)) * input(p, 4);
        memcpy(out + 1, sums, 3 * sizeof *out);
        break;
    case LAYOUT_BS:
        out[0] = v * (input(p, 2) * input(p, 1) * scale - sums[0]);
        break;
    case LAYOUT_BEI:
        out[0] = v + input(p, 1);
        break;
    default:
        memcpy(out, sums, 3 * sizeof *out);
        break; /* BAOB, BAIB */
    }
}

/* ---- a contraction's ---- */

static double product(struct point *p)
{
    const char *k = p->work->space.group[LAYOUT_K];
    int letters[LAYOUT_LETTERS], n = (int)strlen(k);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        letters[i] = (int)(strchr(p->work->letters, k[i]) - p->work->letters);
        p->at[letters[i]] = 0;
    }
    for (int i = 0; i >= 0;) {
        sum += input(p, 0) * input(p, 1);
        for (i = n - 1; i >= 0 && ++p->at[letters[i]] == p->work->sizes[letters[i]]; i--) p->at[letters[i]] = 0;
    }
    return sum;
}

void layout_reference(const struct layout_work *work, const struct layout_config *config, uint32_t width,
                      const uint32_t *coordinates, double *outputs)
{
    struct point p = {.work = work, .config = config, .width = width};
    double sums[3] = {0};
    memcpy(p.at, coordinates, sizeof p.at);
    for (int n = 0; n < work->n_inputs; n++)
        for (int l = 0; l < LAYOUT_LETTERS && work->letters[l]; l++)
            p.strides[n][l] = layout_tensor_stride(work, config, &work->inputs[n], l);
    if (work->form == LAYOUT_FORMS) {
        outputs[0] = product(&p);
        return;
    }
    reduce(&p, sums);
    form_reference(&p, sums, outputs);
}
