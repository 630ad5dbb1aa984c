/* The paper's figures. */
#include "paper.h"

#include <math.h>
#include <string.h>

const struct paper_row paper_rows[PAPER_ROWS + 1] = {
    [1] = {'T', "24", "7.3", "12.5", 333, 306}, {'E', "0.012", "12.5", "12.5", 90, 66},
    {'T', "4", "8.3", "33.5", 189, 143},        {'S', "0.188", "33.5", "100.6", 453, 433},
    {'T', "4", "37.7", "4.1", 142, 160},        {'T', "8", "5.2", "4.1", 136, 120},
    {'E', "0.004", "4.1", "4.1", 34, 102},      {'E', "0.004", "4.1", "8.3", 37, 0},
    {'E', "0.004", "8.3", "4.1", 36, 0},        {'S', "0.027", "4.1", "4.1", 63, 0},
    {'T', "32", "8.3", "16.7", 451, 402},       {'E', "0.016", "16.7", "16.7", 116, 183},
    {'E', "-", "16.7", "16.7", 112, 0},         {'E', "0.016", "16.7", "33.5", 120, 0},
    {'T', "32", "20.9", "4.1", 449, 369},       {'E', "0.004", "4.1", "4.1", 35, 101},
    {'E', "0.004", "4.1", "8.3", 37, 0},        {'E', "0.004", "8.3", "4.1", 37, 0},
    {'S', "0.027", "8.3", "4.1", 63, 0},        {'S', "0.016", "8.3", "<0.01", 184, 150},
    {'S', "0.035", "8.3", "4.1", 78, 71},       {'E', "0.004", "8.3", "4.1", 34, 0},
    {'T', "32", "8.3", "16.7", 427, 414},       {'T', "32", "20.9", "4.1", 424, 378},
    {'S', "0.004", "4.1", "<0.1", 24, 362},     {'E', "0.016", "33.5", "16.7", 129, 0},
    {'E', "-", "33.5", "16.7", 166, 0},         {'S', "0.016", "16.7", "<0.1", 61, 0},
    {'T', "32", "20.9", "4.1", 417, 398},       {'T', "32", "20.9", "4.1", 437, 372},
    {'E', "0.004", "8.3", "4.1", 36, 250},      {'S', "0.016", "8.3", "<0.1", 186, 0},
    {'S', "0.035", "8.3", "4.1", 80, 69},       {'E', "0.004", "8.3", "4.1", 34, 0},
    {'S', "0.004", "4.1", "<0.1", 23, 38},      {'T', "8", "4.3", "4.1", 131, 119},
    {'T', "8", "8.3", "1.0", 136, 113},         {'T', "4", "8.3", "33.5", 136, 147},
    {'T', "4", "67.1", "33.5", 188, 123},       {'S', "0.156", "12.5", "4.1", 790, 426},
    {'T', "4", "37.7", "4.1", 135, 155},        {'T', "4", "37.7", "4.1", 139, 115},
    {'T', "24", "15.7", "4.1", 344, 274},       {'T', "24", "20.4", "1.0", 329, 293},
    {'S', "0.012", "12.5", "<0.1", 52, 39},     {'E', "0.004", "8.3", "4.1", 35, 31},
};

const struct paper_use paper_uses[PAPER_USES] = {
    {"AIB", 2, 2, 0, 6, 'X', 6, 66, 78},      {"SM", 4, 4, 0, 2, 'S', 4, 433, 32},
    {"BDRLN", 7, 10, 0, 5, 'X', 7, 102, 42},  {"BRD", 12, 14, 0, 4, 'F', 4, 183, 76},
    {"BDRLN", 16, 19, 0, 5, 'X', 7, 101, 43}, {"BSB", 20, 20, 0, 1, 'X', 3, 150, 6},
    {"BLNRD", 21, 22, 0, 3, 'X', 5, 71, 37},  {"BDRB", 26, 28, 0, 4, 'F', 4, 362, 38},
    {"EBSB", 31, 32, 25, 5, 'X', 5, 250, 17}, {"BLNRD", 33, 34, 0, 3, 'X', 5, 69, 37},
    {"BAOB", 35, 35, 0, 1, 'X', 1, 38, 22},   {"BS", 40, 40, 0, 3, 'S', 4, 426, 49},
    {"BAIB", 45, 45, 0, 3, 'X', 3, 39, 66},   {"BEI", 46, 46, 0, 3, 'X', 3, 31, 83},
};

const struct paper_note paper_notes[PAPER_NOTES] = {
    {19, "in: a tensor more than row 10, which is the same operator"},
    {36, "in: it seems a slip, row 6 reads a weight and a tensor of the same sizes"},
    {39, "the cells of row 40 without its mask: the two rows are shifted"},
    {40, "3X and X, no scores at all; the MUE of its kernel BS needs 3S, as here"},
    {44, "in: follows nothing; out: the gradient of one matrix instead of three"},
};

const char paper_letters[] = "bjkhpiuqv";
const uint32_t paper_sizes[] = {PAPER_BATCH, PAPER_LENGTH, PAPER_LENGTH, 16, 64, 1024, 4096, 3, 2};

/* Of dWQ and dWout only the sizes and counts are known: their einsums are those of Q and out, turned round. */
const struct paper_einsum paper_einsums[PAPER_EINSUMS] = {
    {"QKV", "qphi,ibj->qphbj", 'q', 3072, 4096, 1024, 1, 17280, 96, 8, 8},
    {"dWQKV", "ibj,qphbj->qphi", 'q', 3072, 1024, 4096, 1, 17280, 96, 8, 8},
    {"dXQKV", "qphi,qphbj->ibj", 'q', 4096, 1024, 3072, 1, 17280, 96, 8, 8},
    {"KV", "vphi,ibj->vphbj", 'v', 2048, 4096, 1024, 1, 17280, 96, 8, 8},
    {"dWQK", "ibj,vphbj->vphi", 'v', 2048, 1024, 4096, 1, 17280, 96, 8, 8},
    {"dXQK", "vphi,vphbj->ibj", 'v', 4096, 1024, 2048, 1, 17280, 96, 8, 8},
    {"Q", "phi,ibj->phbj", 0, 4096, 1024, 1024, 1, 864, 32, 0, 8},
    {"dXQ", "phi,phbj->ibj", 0, 4096, 1024, 1024, 1, 864, 32, 0, 8},
    {"dWQ", "ibj,phbj->phi", 0, 1024, 1024, 4096, 1, 864, 32, 0, 4},
    {"out", "phi,phbj->bij", 0, 4096, 1024, 1024, 1, 864, 32, 0, 8},
    {"dXout", "phi,bij->phbj", 0, 4096, 1024, 1024, 1, 864, 32, 0, 8},
    {"dWout", "bij,phbj->phi", 0, 1024, 1024, 4096, 1, 864, 32, 0, 4},
    {"QKT", "phbk,phbj->hbjk", 0, 512, 512, 64, 128, 13824, 128, 0, 32},
    {"dX1gamma", "phbk,phbj->hbjk", 0, 512, 512, 64, 128, 13824, 128, 0, 32},
    {"gamma", "phbk,hbjk->phbj", 0, 512, 64, 512, 128, 13824, 128, 0, 64},
    {"dX2gamma", "phbj,hbjk->phbk", 0, 512, 64, 512, 128, 13824, 128, 0, 64},
    {"dX2QKT", "phbj,hbjk->phbk", 0, 512, 64, 512, 128, 13824, 128, 0, 64},
    {"dX1QKT", "phbk,hbjk->phbj", 0, 512, 64, 512, 128, 13824, 128, 0, 64},
    {"lin1", "bji,ui->bju", 0, 4096, 4096, 1024, 1, 72, 16, 0, 4},
    {"dXlin2", "bji,iu->bju", 0, 4096, 4096, 1024, 1, 72, 16, 0, 4},
    {"lin2", "bju,iu->bji", 0, 4096, 1024, 4096, 1, 72, 16, 0, 8},
    {"dXlin1", "bju,ui->bji", 0, 4096, 1024, 4096, 1, 72, 16, 0, 8},
    {"dWlin1", "bju,bji->ui", 0, 4096, 1024, 4096, 1, 72, 16, 0, 8},
    {"dWlin2", "bji,bju->iu", 0, 4096, 1024, 4096, 1, 72, 16, 0, 8},
};

/* Tensors of one letter have one order, and stand here all the same. BLNRD's gradient is scaled before, by BSB or EBSB.
 */
const struct paper_kernel paper_kernels[PAPER_KERNELS] = {
    {"AIB", "hpbj,hpbj,hp", "", "bj", 4608, "K, V and Q lie alike; vectors and threads go along b and j alone"},
    {"SM", "hbjk,hbjk,hbjk", "k", NULL, 55296, "the mask lies as what was dropped (apart: 1327104)"},
    {"BDRLN", "bji,bji,bji,bji,bji,bji,bji,bj,i,i,i", "i", NULL, 1679616,
     "the biased input, which is written as well, has an order of its own (else: 279936)"},
    {"BRD", "bju,bju,bju,bju,u", "", NULL, 11664, ""},
    {"BSB", "bji,bji,bji,i,i,i", "bj", NULL, 1296, ""},
    {"BLNRD", "bji,bji,bji,bji,bji,bj", "i", NULL, 46656, ""},
    {"BDRB", "bju,bju,bju,bju,u", "bj", NULL, 7776, ""},
    {"EBSB", "bji,bji,bji,bji,bji,i,i,i,i", "bj", NULL, 46656, ""},
    {"BAOB", "bji,i", "bj", NULL, 36, ""},
    {"BS", "hbjk,hbjk,hbjk", "k", NULL, 55296, "the mask lies as the gradient of what was dropped (apart: 1327104)"},
    {"BAIB", "hpbj,hpbj,hpbj,hp,hp,hp", "bj", NULL, 884736, ""},
    {"BEI", "bji,bji,bji", "", NULL, 1944, ""},
};

#define PROJECTION                                                                                                     \
    {                                                                                                                  \
        .11, .18, .60, .85                                                                                             \
    }
#define OF_WEIGHT                                                                                                      \
    {                                                                                                                  \
        .12, .23, .59, .87                                                                                             \
    }
#define SCORES                                                                                                         \
    {                                                                                                                  \
        .14, .18, .31, .82                                                                                             \
    }
#define CONTEXT                                                                                                        \
    {                                                                                                                  \
        .12, .40, .32, .79                                                                                             \
    }
#define FIRST                                                                                                          \
    {                                                                                                                  \
        .37, 2.46, 2.32, 3.29                                                                                          \
    }
#define SECOND                                                                                                         \
    {                                                                                                                  \
        .38, .65, 2.32, 3.30                                                                                           \
    }
const struct paper_range paper_einsum_ranges[PAPER_EINSUMS] = {
    {.28, .48, 1.74, 2.48},
    {.29, .50, 1.70, 2.63},
    {.29, .56, 1.75, 2.48},
    {.20, .33, 1.19, 1.67},
    {.20, .34, 1.14, 1.77},
    {.21, .33, 1.19, 1.66},
    PROJECTION,
    PROJECTION,
    OF_WEIGHT,
    PROJECTION,
    PROJECTION,
    OF_WEIGHT,
    SCORES,
    SCORES,
    CONTEXT,
    CONTEXT,
    CONTEXT,
    CONTEXT,
    FIRST,
    FIRST,
    SECOND,
    SECOND,
    SECOND,
    SECOND,
};
const struct paper_range paper_kernel_ranges[PAPER_KERNELS] = {
    {.065, 5.317, 0, 0}, {.402, 81.286, 0, 0}, {.101, 7.643, 0, 0},  {.176, 6.583, 0, 0},
    {.037, 1.271, 0, 0}, {.071, 3.521, 0, 0},  {.167, 14.453, 0, 0}, {.078, 3.334, 0, 0},
    {.014, .146, 0, 0},  {.396, 45.379, 0, 0}, {.033, .863, 0, 0},   {.034, .876, 0, 0},
};
const char *const paper_kernel_groups[PAPER_KERNELS] = {"aib",  "sm",   "bdrln1", "brd", "bsb",  "blnrd1",
                                                        "bdrb", "ebsb", "baob",   "bs",  "baib", "bei"};
const char *const paper_einsum_groups[PAPER_EINSUMS] = {
    "qkv",     "qkv_dw",  "qkv_dx", NULL,      NULL,   NULL,        NULL,      NULL,
    NULL,      "out",     "out_dx", "out_dw",  "qkt",  "gamma_dx1", "gamma",   "gamma_dx2",
    "qkt_dx2", "qkt_dx1", "lin1",   "lin2_dx", "lin2", "lin1_dx",   "lin1_dw", "lin2_dw"};

void paper_words(const wherry_cost *row, uint64_t tokens, double *in, double *out)
{
    *in = (double)row->bytes_read / 2;
    *out = (double)row->bytes_written / 2;
    double mask = *in < *out ? *in : *out;
    if (strstr(row->name, "dropout")) *(row->backward ? in : out) += mask;
    if (strcmp(row->kernel, "layernorm_dx") == 0) *in += (double)tokens;
}

double paper_tensor(const wherry_model_config *config, uint32_t batch, uint32_t length, char tensor)
{
    double tokens = (double)batch * length;
    return tensor == 'X'   ? tokens * config->hidden
           : tensor == 'F' ? tokens * config->feed_forward
                           : tokens * length * config->heads;
}

void paper_mue(const struct paper_use *use, double words, double *low, double *high)
{
    const double peak = 900.0 * 1073741824; /* bytes a second of its V100 */
    *high = 100 * 2 * words / (use->us * 1e-6 * peak);
    *low = 100 * 2 * words / ((use->us + 1) * 1e-6 * peak);
}

uint64_t paper_use_rows(const struct paper_use *use)
{
    uint64_t rows = use->beside ? (uint64_t)1 << use->beside : 0;
    for (int row = use->first; row <= use->last; row++) rows |= (uint64_t)1 << row;
    return rows;
}

const struct paper_use *paper_find(uint64_t rows)
{
    for (int n = 0; n < PAPER_USES; n++)
        if (paper_use_rows(&paper_uses[n]) == rows) return &paper_uses[n];
    return NULL;
}

const char *paper_format_flops(double flops, char text[NUMBER_SIZE])
{
    int length = snprintf(text, NUMBER_SIZE, "%.3f", flops / 1073741824.0);
    while (text[length - 1] == '0') text[--length] = 0;
    if (text[length - 1] == '.') text[--length] = 0;
    if (flops == 0) memcpy(text, "-", 2);
    return text;
}

const char *paper_format_words(double words, char text[NUMBER_SIZE])
{
    if (words < 1e5)
        snprintf(text, NUMBER_SIZE, "<0.1");
    else
        snprintf(text, NUMBER_SIZE, "%.1f", floor(words / 1e5) / 10);
    return text;
}

bool paper_same(const char *cell, const char *ours)
{
    return strcmp(cell, ours) == 0 || (*cell == '<' && *ours == '<');
}
