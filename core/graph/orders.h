/* The orders in which tensors lie, where there is a choice, and their names as text. */
#ifndef WHERRY_GRAPH_ORDERS_H
#define WHERRY_GRAPH_ORDERS_H

#include "base/error.h"

/* Zero: all as in the model's files. */
struct layout_choice {
    uint32_t transposed;  /* WEIGHT_BIT of weights that lie transposed, and their gradients with them */
    uint32_t copied;      /* training: of those with a copy in the other order, which the input's gradient reads */
    bool qkv_interleaved; /* Q, K and V of a head lie side by side, in the weight's rows and the bias, too */
    bool channel_major;   /* the feed-forward's hidden activations are channel-major: a row of tokens for each */
};

enum { ORDERS_TEXT = 160, ORDERS_MOST = 12, ORDER_TEXT = 16 };

/* Reads "w_lin1=iu,w_lin2=ui+iu"; NULL and "": all as in the model's files. Fails for what no kernel runs. */
bool orders_read(const char *text, struct layout_choice *out, struct error *e);
/* The other way round: those that are not the usual ones. */
void orders_text(const struct layout_choice *layout, char text[ORDERS_TEXT]);
/* Tensor number `index`, from 0, whose order can be chosen, and its orders, the model's first; not each goes with each
 * of another tensor. Returns how many, 0 after the last. */
int orders_of(size_t index, char name[ORDER_TEXT], char orders[ORDERS_MOST][ORDER_TEXT]);

#endif
