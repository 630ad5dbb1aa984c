/* What `wherry_layout_bench` is made of: works, each with a space of configurations, and their runs on a device. */
#ifndef WHERRY_MEASURE_LAYOUT_BENCH_H
#define WHERRY_MEASURE_LAYOUT_BENCH_H

#include "analysis/layouts.h"
#include "graph/call.h"
#include "interface/interface.h"
#include "interface/layouts.h"
#include "wherry/wherry_layouts.h"

enum {
    LAYOUT_LETTERS = 6,      /* of a work */
    LAYOUT_TENSORS = 12,     /* inputs, or outputs */
    LAYOUT_ORDERS = 8,       /* tensors of a work with an order of their own */
    LAYOUT_SAMPLES = 16,     /* elements of each output that are checked */
    LAYOUT_SLOT_WORDS = 128, /* room for a configuration's samples */
    LAYOUT_TRIPLES = 128     /* of one contraction */
};

/* What an input holds. All values are exact in 16 bits. */
enum layout_values {
    LAYOUT_UNIFORM_VALUES,
    /* -1 to 1 */ LAYOUT_MASK_VALUES /* 0, 1 */,
    LAYOUT_POSITIVE_VALUES /* 0.5 to 1.5 */
};

/* An input or output: the order that it has, or, less than 0, its one letter: -1 - letter. */
struct layout_tensor {
    int8_t order;
    uint8_t values; /* enum layout_values */
};

/* A kernel of layout_rows. */
struct layout_form {
    const char *name, *letters;
    const char *tensors;          /* letters of those with an order */
    const char *vector, *threads; /* letters to choose from */
    const char *reduced;
    struct layout_tensor inputs[6], outputs[6];
    int n_inputs, n_outputs;
};
extern const struct layout_form layout_forms[LAYOUT_FORMS];

/* One kernel or contraction at its sizes. */
struct layout_work {
    int form; /* of layout_forms; LAYOUT_FORMS: a contraction */
    char name[64];
    char letters[16];
    uint32_t sizes[LAYOUT_LETTERS];
    char tensors[LAYOUT_ORDERS][16]; /* letters of those that have an order */
    int n_orders;
    struct layout_tensor inputs[LAYOUT_TENSORS], outputs[LAYOUT_TENSORS];
    int n_inputs, n_outputs;
    struct layout_space space;     /* of a contraction */
    struct layout_triple *triples; /* NULL: all orders */
    size_t n_triples;
    uint64_t configurations, usual; /* how many, and the model's order */
};

/* One of a work's configurations. */
struct layout_config {
    char order[LAYOUT_ORDERS][16]; /* letters, slowest first */
    int vector, threads;           /* letters of a kernel */
};

/* ---- layout_works.c ---- */

/* `name`: a kernel of the paper's, or an einsum of two operands. `letters` and `sizes` as for
 * wherry_product_layouts_count. `any`: of a contraction all orders, not those alone that are one GEMM. */
bool layout_work_open(const struct host *host, const char *name, const char *letters, const uint32_t *sizes, bool any,
                      struct layout_work *out, struct error *e);
void layout_work_close(const struct host *host, struct layout_work *work);
void layout_config_at(const struct layout_work *work, uint64_t index, struct layout_config *out);
/* The numbers of those kernels' configurations that differ in one order or letter; none of a contraction's. Returns how
 * many, at most `room`. */
size_t layout_neighbours(const struct layout_work *work, uint64_t index, uint64_t *out, size_t room);
/* "bji,jib,... v=i t=i", or an einsum. */
void layout_config_text(const struct layout_work *work, const struct layout_config *config, char *text, size_t size);
/* Whether vectors of so many elements divide the letter that they go along; they do for contractions. */
bool layout_config_fits(const struct layout_work *work, const struct layout_config *config, uint32_t width);
/* Elements of an input or output. */
uint64_t layout_tensor_elements(const struct layout_work *work, const struct layout_tensor *tensor);
/* Elements from one value of a letter to the next; 0: it has no such letter. */
uint64_t layout_tensor_stride(const struct layout_work *work, const struct layout_config *config,
                              const struct layout_tensor *tensor, int letter);
/* The kernel's constants, and how many work-groups it takes. f16: vectors are of 8, else of 4 elements. */
uint32_t layout_call_make(const struct layout_work *work, const struct layout_config *config, bool f16,
                          struct call *call);

/* ---- layout_reference.c ---- */

/* Element `at` of an input, as it lies in memory, whatever its order is. */
double layout_made(enum layout_values values, int input, uint64_t at);
/* Where in memory the sample at these coordinates (of the work's letters) lies in an output. */
uint64_t layout_position(const struct layout_work *work, const struct layout_config *config,
                         const struct layout_tensor *tensor, const uint32_t *coordinates);
/* What each output should be at these coordinates, in double precision. */
void layout_reference(const struct layout_work *work, const struct layout_config *config, uint32_t width,
                      const uint32_t *coordinates, double *outputs);

#endif
