/* Which weights an encoder has. */
#ifndef WHERRY_GRAPH_WEIGHT_NAMES_H
#define WHERRY_GRAPH_WEIGHT_NAMES_H

#include <stdbool.h>

enum { MODULES_MOST = 4 }; /* after a pooling */

/* Which weight of the encoder a tensor is; with the layer it names what the model stores. */
enum weight {
    WEIGHT_NONE,
    WEIGHT_WORD,        /* [v, e] */
    WEIGHT_POSITION,    /* [m, e] */
    WEIGHT_TYPE,        /* [t, e] */
    WEIGHT_EMBED_GAMMA, /* [e] */
    WEIGHT_EMBED_BETA,
    WEIGHT_QKV,      /* [q, h, p, i]: the three matrices stacked as Q, K, V */
    WEIGHT_QKV_BIAS, /* [q, h, p] */
    WEIGHT_OUT,      /* [i, h, p] */
    WEIGHT_OUT_BIAS, /* [i] */
    WEIGHT_GAMMA1,   /* the layernorm after (post-LN) or before (pre-LN) attention */
    WEIGHT_BETA1,
    WEIGHT_LIN1,      /* [u, i]; with a gate [r, u, i] */
    WEIGHT_LIN1_BIAS, /* [u]; [r, u] */
    WEIGHT_LIN2,      /* [i, u] */
    WEIGHT_LIN2_BIAS, /* [i] */
    WEIGHT_GAMMA2,    /* the layernorm after (post-LN) or before (pre-LN) the feed-forward */
    WEIGHT_BETA2,
    WEIGHT_FINAL_GAMMA, /* pre-LN: the layernorm after the last layer */
    WEIGHT_FINAL_BETA,
    WEIGHT_POOLER, /* [o, i]: BERT's pooler, and the dense layer before a classifier */
    WEIGHT_POOLER_BIAS,
    WEIGHT_PROJECT, /* [i, e]: widens embeddings that are narrower than the layers */
    WEIGHT_PROJECT_BIAS,
    WEIGHT_RELATIVE,   /* [d, h]: what scores get by distance, in all layers */
    WEIGHT_CLASSIFIER, /* [c, i] */
    WEIGHT_CLASSIFIER_BIAS,
    WEIGHT_VOCABULARY_DENSE, /* [e, i] */
    WEIGHT_VOCABULARY_DENSE_BIAS,
    WEIGHT_VOCABULARY_GAMMA,
    WEIGHT_VOCABULARY_BETA,
    WEIGHT_VOCABULARY_BIAS,  /* [v] */
    WEIGHT_VOCABULARY_TABLE, /* [v, e]: where scores do not come from the word table */
    WEIGHT_NEXT,             /* [z, o]: scores of a pair being one text and of being two, of the pooler's row */
    WEIGHT_NEXT_BIAS,
    WEIGHT_MODULE, /* of module m at + 2 * m: its matrix or gamma, and after it its bias or beta */
    WEIGHT_MODULE_LAST = WEIGHT_MODULE + 2 * MODULES_MOST - 1,
    WEIGHT_SPARSE, /* [f, i]: the module that weighs tokens, f being 1 */
    WEIGHT_SPARSE_BIAS,
    WEIGHT_COLBERT, /* [f, i]: the module that projects tokens' vectors */
    WEIGHT_COLBERT_BIAS,
    /* [m, p]: cosine and sine of each pair of channels; where they depend on a text's length, each length's
     * frequencies (graph/rotary.h). Of no file: the model makes it. */
    WEIGHT_ROTARY,
    WEIGHT_ROTARY_LOCAL, /* the same of layers with a window, where their base is another */
    WEIGHT_HEAD_GAMMA,   /* [o]: the norm after the dense layer before a classifier */
    WEIGHT_HEAD_BETA,
    WEIGHT_OUT_GAMMA, /* [i]: the norm of what attention makes, before it is added */
    WEIGHT_OUT_BETA,
    WEIGHT_LIN2_GAMMA, /* [i]: that of what the feed-forward makes */
    WEIGHT_LIN2_BETA,
    WEIGHT_HEADS_GAMMA, /* [r, p]: the norms of a head of Q and of one of K; [r, h, p]: of all heads at once */
    WEIGHT_HEADS_BETA,
    WEIGHT_ROUTER,       /* [E, i]: scores of a token's experts */
    WEIGHT_EXPERTS1,     /* [E, u, i] */
    WEIGHT_EXPERTS2,     /* [E, u, i]: of the second products, transposed */
    WEIGHT_EXPERTS_BIAS, /* [i]: added to what a token's experts make together */
    WEIGHT_COUNT
};
/* Of weights whose order can be chosen, the first ones; 0 of others. */
#define WEIGHT_BIT(weight) ((weight) < 32 ? 1u << (weight) : 0u)

/* Whether it is a table of rotary positions, which no file has. */
static inline bool weight_is_rotary(enum weight weight)
{
    return weight == WEIGHT_ROTARY || weight == WEIGHT_ROTARY_LOCAL;
}

#endif
