/* A layer's tensors, and what outside the layers has an order to choose.
 *
 * Dims are letters in the order of memory, the last one contiguous: b sequence, j query position, k key position, h
 * head, p head channel, q stack of Q, K and V, r stack of Q and K, i embedding, u feed-forward; o pooler output, d row
 * of a bias by distance. Where K and V have heads of their own: H those, G the heads of Q of each, Q the stack of all
 * heads, of Q, then of K, then of V. */
#include "graph/builder.h"

/* clang-format off */
const struct tensor_row layer_tensors[LAYER_TENSORS] = {
    [X]                  = {"x",               "bji"},
    [W_QKV]              = {"w_qkv",           "qhpi",   WEIGHT_QKV, .transposed = "iqhp", .interleaved = "hqpi", .interleaved_transposed = "ihqp", .paired = true, .grouped = "Qpi", .grouped_transposed = "iQp"},
    [W_QK]               = {"w_qk",            "rhpi",   WEIGHT_QKV, W_QKV, 0, .transposed = "irhp", .paired = true},
    [W_Q]                = {"w_q",             "hpi",    WEIGHT_QKV, W_QKV, 0, .transposed = "ihp", .paired = true},
    [W_K]                = {"w_k",             "hpi",    WEIGHT_QKV, W_QKV, 1, .transposed = "ihp", .paired = true},
    [W_V]                = {"w_v",             "hpi",    WEIGHT_QKV, W_QKV, 2, .transposed = "ihp"},
    [B_QKV]              = {"b_qkv",           "qhp",    WEIGHT_QKV_BIAS, .interleaved = "hqp", .paired = true, .grouped = "Qp"},
    [QKV_RAW]            = {"qkv_raw",         "bjqhp",  .interleaved = "bjhqp", .grouped = "bjQp"},
    [QK_RAW]             = {"qk_raw",          "bjrhp",  .parent = QKV_RAW, .slice = 0},
    [Q_RAW]              = {"q_raw",           "bjhp",   .parent = QKV_RAW, .slice = 0},
    [K_RAW]              = {"k_raw",           "bjhp",   .parent = QKV_RAW, .slice = 1},
    [V_RAW]              = {"v_raw",           "bjhp",   .parent = QKV_RAW, .slice = 2},
    [QKV_ALL]            = {"qkv",             "bjqhp",  .interleaved = "bjhqp", .grouped = "bjQp"},
    [G_HEADS]            = {"gamma_heads",     "rp",     WEIGHT_HEADS_GAMMA, .paired = true},
    [QKV_NORMED]         = {"qkv_normed",      "bjqhp",  .interleaved = "bjhqp", .grouped = "bjQp"},
    [POSITIONS]          = {"positions",       "bj"},
    [ROTARY_TABLE]       = {"rotary",          "mp",     WEIGHT_ROTARY, .f32 = true},
    [QKV_ROTATED]        = {"qkv_rotated",     "bjqhp",  .interleaved = "bjhqp", .grouped = "bjQp"},
    [Q]                  = {"q",               "bjhp",   .parent = QKV_ROTATED, .slice = 0, .grouped = "bjHGp"},
    [K]                  = {"k",               "bkhp",   .parent = QKV_ROTATED, .slice = 1, .grouped = "bkHp"},
    [V]                  = {"v",               "bkhp",   .parent = QKV_ROTATED, .slice = 2, .grouped = "bkHp"},
    [ATTENTION_SCORES]   = {"scores",          "bhjk", .grouped = "bHGjk"},
    [W_RELATIVE]         = {"relative",        "dh",     WEIGHT_RELATIVE},
    [SCORES_BIASED]      = {"scores_biased",   "bhjk", .grouped = "bHGjk"},
    [PROBS]              = {"probs",           "bhjk", .grouped = "bHGjk"},
    [LSE]                = {"lse",             "bjh",    .f32 = true},
    [PROBS_DROPPED]      = {"probs_dropped",   "bhjk", .grouped = "bHGjk"},
    [ATTENTION_CONTEXT]  = {"context",         "bjhp", .grouped = "bjHGp"},
    [W_OUT]              = {"w_out",           "ihp",    WEIGHT_OUT, .transposed = "hpi", .grouped = "iHGp", .grouped_transposed = "HGpi"},
    [B_OUT]              = {"b_out",           "i",      WEIGHT_OUT_BIAS},
    [OUT_RAW]            = {"out",             "bji"},
    [OUT_BIASED]         = {"out_biased",      "bji"},
    [OUT_DROPPED]        = {"out_dropped",     "bji"},
    [G_OUT]              = {"gamma_out",       "i",      WEIGHT_OUT_GAMMA},
    [B_NORM_OUT]         = {"beta_out",        "i",      WEIGHT_OUT_BETA},
    [OUT_NORMED]         = {"out_normed",      "bji"},
    [SUM1]               = {"sum1",            "bji"},
    [G1]                 = {"gamma1",          "i",      WEIGHT_GAMMA1},
    [B1]                 = {"beta1",           "i",      WEIGHT_BETA1},
    [N1]                 = {"norm1",           "bji"},
    [W_LIN1]             = {"w_lin1",          "ui",     WEIGHT_LIN1, .transposed = "iu", .gated = "uri", .gated_transposed = "iur", .gated_model = "rui"},
    [B_LIN1]             = {"b_lin1",          "u",      WEIGHT_LIN1_BIAS, .gated = "ur", .gated_model = "ru"},
    [LIN1_RAW]           = {"lin1",            "bju",    .channel_major = "ubj", .gated = "bjur"},
    [LIN1_BIASED]        = {"lin1_biased",     "bju",    .channel_major = "ubj", .gated = "bjur"},
    [SLOPE]              = {"slope",           "bju"},
    [ACTIVE]             = {"active",          "bju",    .channel_major = "ubj"},
    [ACTIVE_DROPPED]     = {"active_dropped",  "bju",    .channel_major = "ubj"},
    [W_LIN2]             = {"w_lin2",          "iu",     WEIGHT_LIN2, .transposed = "ui"},
    [B_LIN2]             = {"b_lin2",          "i",      WEIGHT_LIN2_BIAS},
    [LIN2_RAW]           = {"lin2",            "bji"},
    [LIN2_BIASED]        = {"lin2_biased",     "bji"},
    [LIN2_DROPPED]       = {"lin2_dropped",    "bji"},
    [G_LIN2]             = {"gamma_lin2",      "i",      WEIGHT_LIN2_GAMMA},
    [B_NORM_LIN2]        = {"beta_lin2",       "i",      WEIGHT_LIN2_BETA},
    [LIN2_NORMED]        = {"lin2_normed",     "bji"},
    [SUM2]               = {"sum2",            "bji"},
    [G2]                 = {"gamma2",          "i",      WEIGHT_GAMMA2},
    [B2]                 = {"beta2",           "i",      WEIGHT_BETA2},
    [N2]                 = {"norm2",           "bji"},
};

const struct tensor_row tensor_pooler = {"w_pooler", "oi", WEIGHT_POOLER, .transposed = "io"};
/* clang-format on */
