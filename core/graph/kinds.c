/* What each kind of operator costs, what defines it, and which kernel runs it alone. */
#include "graph/kinds.h"

#include "graph/kind_constants.h"
#include "graph/references.h"
#include "interface/interface.h"

/* ---- the kinds ----
 * Flop rules are the paper's (element-wise 1, ReLU 0, softmax 5 and 1 more with dropout, layernorm 7), GELU's 10 per
 * element the common estimate, and a tanh counted like it. */

/* clang-format off */
#define ELEMENTWISE   WHERRY_CLASS_ELEMENTWISE
#define NORMALIZATION WHERRY_CLASS_NORMALIZATION
#define CONTRACTION   WHERRY_CLASS_CONTRACTION

const struct op_kind
    /* kind                    name            alone by              work-groups        class          flop definition                  constants                    slots of inputs                          what else is particular */
    kind_gather            = {"gather",       "embed",              LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_gather,            constants_word,              {SLOT_IDS, SLOT_WORD},                   .gathers = 1},
    kind_gather_position   = {"gather+add",   "embed",              LAUNCH_ROWS,       ELEMENTWISE,   1,  reference_gather_add,        constants_position,          {SLOT_X, SLOT_POSITIONS, SLOT_POSITION}, .gathers = 2},
    kind_gather_type       = {"gather+add",   "embed",              LAUNCH_ROWS,       ELEMENTWISE,   1,  reference_gather_add,        constants_type,              {SLOT_X, SLOT_TYPES, SLOT_TYPE},         .gathers = 2},
    kind_contract          = {"contract",     "gemm",               LAUNCH_TILES,      CONTRACTION,   0,  einsum_reference,            constants_contract,          {SLOT_X, SLOT_W}},
    kind_bias              = {"bias",         "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_add,               constants_bias,              {SLOT_X, SLOT_BIAS}},
    kind_scale             = {"scale",        "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_scale,             constants_scale,             {SLOT_X}},
    kind_add               = {"add",          "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_add,               constants_add,               {SLOT_X, SLOT_RESIDUAL}},
    kind_dropout           = {"dropout",      "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_dropout,           constants_dropout,           {SLOT_X},                                .recomputable = true},
    kind_relu              = {"relu",         "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   0,  reference_relu,              constants_relu,              {SLOT_X},                                .recomputable = true},
    kind_gelu              = {"gelu",         "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu,              constants_gelu,              {SLOT_X},                                .recomputable = true},
    kind_gelu_tanh         = {"gelu_tanh",    "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu_tanh,         constants_gelu_tanh,         {SLOT_X},                                .recomputable = true},
    kind_silu              = {"silu",         "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   5,  reference_silu,              constants_silu,              {SLOT_X},                                .recomputable = true},
    kind_gate              = {"gate",         "gate",               LAUNCH_ELEMENTS,   ELEMENTWISE,   11, reference_gate,              constants_gate,              {SLOT_X},                                .recomputable = true},
    kind_rotary            = {"rotary",       "rotary",             LAUNCH_ELEMENTS,   ELEMENTWISE,   2,  reference_rotary,            constants_rotary,            {SLOT_X, SLOT_POSITIONS, SLOT_POSITION}, .gathers = 2},
    kind_heads_norm        = {"heads_norm",   "heads_norm",         LAUNCH_SCORE_ROWS, NORMALIZATION, 4,  reference_heads_norm,        constants_heads_norm,        {SLOT_X, SLOT_GAMMA}},
    kind_tanh              = {"tanh",         "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_tanh,              constants_tanh,              {SLOT_X}},
    kind_log1p_relu        = {"log1p_relu",   "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   2,  reference_log1p_relu,        constants_log1p_relu,        {SLOT_X}},
    kind_log1p_log1p_relu  = {"log1p_log1p_relu","map",             LAUNCH_ELEMENTS,   ELEMENTWISE,   4,  reference_log1p_log1p_relu,  constants_log1p_log1p_relu,  {SLOT_X}},
    kind_gelu_slope        = {"gelu_slope",   "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu_slope,        constants_gelu_slope,        {SLOT_X}},
    kind_gelu_tanh_slope   = {"gelu_tanh_slope","map",              LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu_tanh_slope,   constants_gelu_tanh_slope,   {SLOT_X}},
    kind_gate_slopes       = {"gate_slopes",  "gate",               LAUNCH_ELEMENTS,   ELEMENTWISE,   11, reference_gate_slopes,       constants_gate_slopes,       {SLOT_X}},
    kind_softmax           = {"softmax",      "softmax",            LAUNCH_SCORE_ROWS, NORMALIZATION, 5,  reference_softmax,           constants_softmax,           {SLOT_X},                                .out_slot = {0, SLOT_LSE}},
    kind_scores_bias       = {"scores_bias",  "softmax",            LAUNCH_SCORE_ROWS, ELEMENTWISE,   1,  reference_scores_bias,       constants_scores_bias,       {SLOT_X, SLOT_RELATIVE}},
    kind_layernorm         = {"layernorm",    "layernorm",          LAUNCH_ROWS,       NORMALIZATION, 7,  reference_layernorm,         constants_layernorm,         {SLOT_X, SLOT_GAMMA, SLOT_BETA},         .recomputable = true},
    kind_rmsnorm           = {"rmsnorm",      "layernorm",          LAUNCH_ROWS,       NORMALIZATION, 4,  reference_layernorm,         constants_layernorm,         {SLOT_X, SLOT_GAMMA, SLOT_BETA},         .recomputable = true},
    kind_moments           = {"moments",      "layernorm",          LAUNCH_ROWS,       NORMALIZATION, 3,  reference_moments,           constants_moments,           {SLOT_X},                                .out_slot = {SLOT_MOMENTS}, .flops_on_input = true},
    kind_moments_norm      = {"moments_norm", "layernorm",          LAUNCH_ROWS,       NORMALIZATION, 1,  reference_moments_norm,      constants_moments_norm,      {SLOT_X, SLOT_GAMMA, SLOT_MOMENTS}},
    kind_pool_mean         = {"pool_mean",    "pool",               LAUNCH_ROWS,       NORMALIZATION, 1,  reference_pool_mean,         constants_pool_mean,         {SLOT_X},                                .flops_on_input = true},
    kind_pool_cls          = {"pool_cls",     "pool",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pool_cls,          constants_pool_cls,          {SLOT_X},                                .reads_output_size = true},
    kind_pool_max          = {"pool_max",     "pool",               LAUNCH_ROWS,       NORMALIZATION, 1,  reference_pool_max,          constants_pool_max,          {SLOT_X},                                .flops_on_input = true},
    kind_pool_row          = {"pool_row",     "pool",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pool_row,          constants_pool_row,          {SLOT_X, SLOT_IDS},                      .reads_output_size = true},
    kind_pool_last         = {"pool_last",    "pool",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pool_last,         constants_pool_last,         {SLOT_X},                                .reads_output_size = true},
    kind_pool_sum          = {"pool_sum",     "pool",               LAUNCH_ROWS,       NORMALIZATION, 1,  reference_pool_sum,          constants_pool_sum,          {SLOT_X},                                .flops_on_input = true},
    kind_pool_sqrt         = {"pool_sqrt",    "pool",               LAUNCH_ROWS,       NORMALIZATION, 1,  reference_pool_sqrt,         constants_pool_sqrt,         {SLOT_X},                                .flops_on_input = true},
    kind_pool_weighted     = {"pool_weighted","pool",               LAUNCH_ROWS,       NORMALIZATION, 2,  reference_pool_weighted,     constants_pool_weighted,     {SLOT_X},                                .flops_on_input = true},
    kind_normalize         = {"normalize",    "pool",               LAUNCH_ROWS,       NORMALIZATION, 3,  reference_normalize,         constants_normalize,         {SLOT_X}},

    /* of the backward pass */
    kind_column_sum        = {"column_sum",   "columns",            LAUNCH_PARTS,      NORMALIZATION, 1,  reference_column_sum,        constants_columns,           {SLOT_X},                                .flops_on_input = true, .sums_columns = true},
    kind_softmax_recompute = {"softmax",      "softmax",            LAUNCH_SCORE_ROWS, NORMALIZATION, 3,  reference_softmax_recompute, constants_softmax_recompute, {SLOT_X, SLOT_LSE}},
    kind_softmax_dx        = {"softmax_dx",   "softmax_backward",   LAUNCH_SCORE_ROWS, NORMALIZATION, 4,  reference_softmax_dx,        constants_softmax_dx,        {SLOT_X, SLOT_SAVED, SLOT_DELTA}},
    kind_delta             = {"delta",        "delta",              LAUNCH_ROWS,       NORMALIZATION, 2,  reference_delta,             constants_delta,             {SLOT_X, SLOT_SAVED},                    .out_slot = {SLOT_DELTA}, .flops_on_input = true},
    kind_distance_sums     = {"distances",    "distance_sums",      LAUNCH_SEQUENCES,  NORMALIZATION, 1,  reference_distance_sums,     constants_distance_sums,     {SLOT_X},                                .out_slot = {SLOT_DISTANCES}, .flops_on_input = true},
    kind_distance_dw       = {"distances_dw", "distance_dw",        LAUNCH_TABLE,      NORMALIZATION, 1,  reference_distance_dw,       constants_distance_dw,       {SLOT_DISTANCES, SLOT_RESIDUAL},         .flops_on_input = true},
    kind_relu_dx           = {"relu_dx",      "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   0,  reference_relu_dx,           constants_relu_dx,           {SLOT_X, SLOT_SAVED}},
    kind_gelu_dx           = {"gelu_dx",      "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu_dx,           constants_gelu_dx,           {SLOT_X, SLOT_SAVED}},
    kind_gelu_tanh_dx      = {"gelu_tanh_dx", "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   10, reference_gelu_tanh_dx,      constants_gelu_tanh_dx,      {SLOT_X, SLOT_SAVED}},
    kind_silu_dx           = {"silu_dx",      "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   7,  reference_silu_dx,           constants_silu_dx,           {SLOT_X, SLOT_SAVED}},
    kind_gate_dx           = {"gate_dx",      "gate",               LAUNCH_ELEMENTS,   ELEMENTWISE,   12, reference_gate_dx,           constants_gate_dx,           {SLOT_X, SLOT_SAVED}},
    kind_angles            = {"angles",       "angles",             LAUNCH_ELEMENTS,   ELEMENTWISE,   20, reference_angles,            constants_angles,            {SLOT_POSITIONS, SLOT_IDS, SLOT_POSITION}, .out_slot = {SLOT_ANGLES}, .gathers = 2},
    kind_rotary_dx         = {"rotary_dx",    "rotary",             LAUNCH_ELEMENTS,   ELEMENTWISE,   2,  reference_rotary_dx,         constants_rotary_dx,         {SLOT_X, SLOT_POSITIONS, SLOT_POSITION}, .gathers = 2},
    kind_given_dx          = {"given_dx",     "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_given_dx,          constants_given_dx,          {SLOT_X, SLOT_SAVED}},
    kind_gate_given_dx     = {"gate_given_dx","gate",               LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_gate_given_dx,     constants_gate_given_dx,     {SLOT_X, SLOT_SAVED}},
    kind_tanh_dx           = {"tanh_dx",      "map",                LAUNCH_ELEMENTS,   ELEMENTWISE,   2,  reference_tanh_dx,           constants_tanh_dx,           {SLOT_X, SLOT_SAVED}},
    kind_norm_dw           = {"layernorm_dw", "layernorm_backward", LAUNCH_PARTS,      NORMALIZATION, 4,  reference_norm_dw,           constants_norm_dw,           {SLOT_X, SLOT_SAVED},                    .flops_on_input = true, .sums_columns = true},
    kind_norm_dx           = {"layernorm_dx", "layernorm_backward", LAUNCH_PARTS,      NORMALIZATION, 9,  reference_norm_dx,           constants_norm_dx,           {SLOT_X, SLOT_SAVED, SLOT_GAMMA}},
    kind_rmsnorm_dw        = {"rmsnorm_dw",   "layernorm_backward", LAUNCH_PARTS,      NORMALIZATION, 3,  reference_norm_dw,           constants_norm_dw,           {SLOT_X, SLOT_SAVED},                    .flops_on_input = true, .sums_columns = true},
    kind_rmsnorm_dx        = {"rmsnorm_dx",   "layernorm_backward", LAUNCH_PARTS,      NORMALIZATION, 7,  reference_norm_dx,           constants_norm_dx,           {SLOT_X, SLOT_SAVED, SLOT_GAMMA}},
    kind_wide_norm         = {"wide_norm",    "heads_norm",         LAUNCH_SCORE_ROWS, NORMALIZATION, 7,  reference_heads_norm,        constants_heads_norm,        {SLOT_X, SLOT_GAMMA, SLOT_BETA}},
    kind_wide_norm_dw      = {"wide_norm_dw", "heads_norm_backward",LAUNCH_PARTS,      NORMALIZATION, 4,  reference_heads_norm_dw,     constants_heads_norm_dw,     {SLOT_X, SLOT_SAVED},                    .flops_on_input = true, .sums_columns = true},
    kind_wide_norm_dx      = {"wide_norm_dx", "heads_norm_backward",LAUNCH_PARTS,      NORMALIZATION, 9,  reference_heads_norm_dx,     constants_heads_norm_dx,     {SLOT_X, SLOT_SAVED, SLOT_GAMMA}},
    kind_heads_norm_dw     = {"heads_norm_dw","heads_norm_backward",LAUNCH_PARTS,      NORMALIZATION, 3,  reference_heads_norm_dw,     constants_heads_norm_dw,     {SLOT_X, SLOT_SAVED},                    .flops_on_input = true, .sums_columns = true},
    kind_heads_norm_dx     = {"heads_norm_dx","heads_norm_backward",LAUNCH_PARTS,      NORMALIZATION, 7,  reference_heads_norm_dx,     constants_heads_norm_dx,     {SLOT_X, SLOT_SAVED, SLOT_GAMMA}},
    kind_scatter_word      = {"scatter",      "scatter",            LAUNCH_TABLE,      NORMALIZATION, 1,  reference_scatter,           constants_scatter_word,      {SLOT_X, SLOT_IDS, SLOT_RESIDUAL},       .flops_on_input = true},
    kind_scatter_position  = {"scatter",      "scatter",            LAUNCH_TABLE,      NORMALIZATION, 1,  reference_scatter,           constants_scatter_position,  {SLOT_X, SLOT_POSITIONS},                .flops_on_input = true},
    kind_scatter_type      = {"scatter",      "scatter",            LAUNCH_TABLE,      NORMALIZATION, 1,  reference_scatter,           constants_scatter_type,      {SLOT_X, SLOT_TYPES},                    .flops_on_input = true, .sums_columns = true},
    kind_transpose         = {"transpose",    "transpose",          LAUNCH_TILES,      ELEMENTWISE,   0,  reference_transpose,         constants_transpose,         {SLOT_X}},
    kind_pool_mean_dx      = {"pool_mean_dx", "pool_backward",      LAUNCH_ROWS,       ELEMENTWISE,   1,  reference_pool_mean_dx,      constants_pool_mean,         {SLOT_X}},
    kind_pool_cls_dx       = {"pool_cls_dx",  "pool_backward",      LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pool_row_dx,       constants_pool_cls,          {SLOT_X}},
    kind_pool_last_dx      = {"pool_last_dx", "pool_backward",      LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pool_last_dx,      constants_pool_last,         {SLOT_X}},
    kind_pool_max_dx       = {"pool_max_dx",  "pool_backward",      LAUNCH_ROWS,       NORMALIZATION, 1,  reference_pool_row_dx,       constants_pool_max_dx,       {SLOT_X, SLOT_SAVED}},
    kind_normalize_dx      = {"normalize_dx", "pool_backward",      LAUNCH_ROWS,       NORMALIZATION, 6,  reference_normalize_dx,      constants_normalize,         {SLOT_X, SLOT_SAVED}},

    /* of losses */
    kind_take              = {"take",         "take",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_take,              constants_take,              {SLOT_X},                                .reads_output_size = true},
    kind_take_dx           = {"take_dx",      "take",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_take_dx,           constants_take_dx,           {SLOT_X, SLOT_RESIDUAL}},
    kind_pairs             = {"pairs",        "pairs",              LAUNCH_ROWS,       NORMALIZATION, 2,  reference_pairs,             constants_pairs,             {SLOT_X},                                .flops_on_input = true},
    kind_pairs_dx          = {"pairs_dx",     "pairs",              LAUNCH_ROWS,       ELEMENTWISE,   1,  reference_pairs_dx,          constants_pairs_dx,          {SLOT_X, SLOT_SAVED}},
    kind_cross_entropy     = {"cross_entropy","loss",               LAUNCH_ROWS,       NORMALIZATION, 5,  reference_cross_entropy,     constants_cross_entropy,     {SLOT_X, SLOT_EXTRA},                    .out_slot = {0, SLOT_LSE}, .flops_on_input = true},
    kind_squared           = {"squared",      "loss",               LAUNCH_ROWS,       NORMALIZATION, 3,  reference_squared,           constants_squared,           {SLOT_X, SLOT_EXTRA},                    .flops_on_input = true},
    kind_binary            = {"binary",       "loss",               LAUNCH_ROWS,       NORMALIZATION, 12, reference_binary,            constants_binary,            {SLOT_X, SLOT_EXTRA},                    .flops_on_input = true},
    kind_cosent            = {"cosent",       "loss",               LAUNCH_ROWS,       NORMALIZATION, 5,  reference_cosent,            constants_cosent,            {SLOT_X, SLOT_EXTRA},                    .flops_on_input = true},
    kind_loss_sum          = {"loss_sum",     "loss_sum",           LAUNCH_TABLE,      NORMALIZATION, 1,  reference_loss_sum,          constants_loss_sum,          {SLOT_X, SLOT_RESIDUAL},                 .flops_on_input = true},
    kind_cosent_sum        = {"cosent_sum",   "loss_sum",           LAUNCH_TABLE,      NORMALIZATION, 5,  reference_cosent_sum,        constants_cosent_sum,        {SLOT_X, SLOT_RESIDUAL, SLOT_EXTRA},     .out_slot = {0, SLOT_LSE}, .flops_on_input = true},
    kind_cross_entropy_dx  = {"cross_entropy_dx","loss_backward",   LAUNCH_ROWS,       ELEMENTWISE,   4,  reference_cross_entropy_dx,  constants_cross_entropy_dx,  {SLOT_X, SLOT_SAVED, SLOT_EXTRA, SLOT_LSE}},
    kind_squared_dx        = {"squared_dx",   "loss_backward",      LAUNCH_ROWS,       ELEMENTWISE,   2,  reference_squared_dx,        constants_squared_dx,        {SLOT_X, SLOT_SAVED, SLOT_EXTRA}},
    kind_binary_dx         = {"binary_dx",    "loss_backward",      LAUNCH_ROWS,       ELEMENTWISE,   10, reference_binary_dx,         constants_binary_dx,         {SLOT_X, SLOT_SAVED, SLOT_EXTRA}},
    kind_cosent_dx         = {"cosent_dx",    "loss_backward",      LAUNCH_ROWS,       NORMALIZATION, 5,  reference_cosent_dx,         constants_cosent_dx,         {SLOT_X, SLOT_SAVED, SLOT_EXTRA, SLOT_LSE}},

    /* of masked language models */
    kind_pick              = {"pick",         "pick",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pick,              constants_pick,              {SLOT_X, SLOT_IDS},                      .reads_output_size = true},
    kind_pick_dx           = {"pick_dx",      "pick",               LAUNCH_ROWS,       ELEMENTWISE,   0,  reference_pick,              constants_pick,              {SLOT_X, SLOT_IDS}},
    kind_entropy           = {"entropy",      "entropy",            LAUNCH_ROWS,       NORMALIZATION, 4,  reference_entropy,           constants_entropy,           {SLOT_X, SLOT_IDS, SLOT_DELTA},          .out_slot = {SLOT_EXTRA}, .flops_on_input = true},
    kind_entropy_sum       = {"entropy_sum",  "entropy_sum",        LAUNCH_TABLE,      NORMALIZATION, 1,  reference_entropy_sum,       constants_entropy_sum,       {SLOT_DELTA},                            .out_slot = {SLOT_EXTRA, SLOT_LSE}, .flops_on_input = true},
    kind_entropy_dx        = {"entropy_dx",   "entropy_backward",   LAUNCH_ROWS,       ELEMENTWISE,   4,  reference_entropy_dx,        constants_entropy_dx,        {SLOT_X, SLOT_IDS, SLOT_EXTRA, SLOT_DELTA}},

    /* of mixtures of experts */
    kind_route             = {"route",        "route",              LAUNCH_ROWS,       NORMALIZATION, 5,  reference_route,             constants_route,             {SLOT_X},                                .out_slot = {SLOT_DELTA, SLOT_IDS}, .flops_on_input = true},
    kind_route_dx          = {"route_dx",     "route_backward",     LAUNCH_ROWS,       NORMALIZATION, 5,  reference_route_dx,          constants_route,             {SLOT_DELTA, SLOT_SAVED, SLOT_IDS}},
    kind_dispatch          = {"dispatch",     "dispatch",           LAUNCH_TABLE,      ELEMENTWISE,   0,  reference_dispatch,          constants_dispatch,          {SLOT_IDS},                              .out_slot = {SLOT_POSITIONS}},
    kind_experts           = {"experts",      "gemm_experts",       LAUNCH_EXPERTS,    CONTRACTION,   0,  reference_experts,           constants_experts,           {SLOT_X, SLOT_W, SLOT_IDS}},
    kind_experts_dw        = {"experts_dw",   "gemm_experts",       LAUNCH_EXPERTS,    CONTRACTION,   0,  reference_experts_dw,        constants_experts_dw,        {SLOT_X, SLOT_W, SLOT_IDS}},
    kind_combine           = {"combine",      "combine",            LAUNCH_ELEMENTS,   ELEMENTWISE,   2,  reference_combine,           constants_combine,           {SLOT_X, SLOT_DELTA},                    .flops_on_input = true},
    kind_combine_dx        = {"combine_dx",   "combine",            LAUNCH_ELEMENTS,   ELEMENTWISE,   1,  reference_combine_dx,        constants_combine_dx,        {SLOT_X, SLOT_DELTA}},
    kind_combine_dw        = {"combine_dw",   "combine_weights",    LAUNCH_SCORE_ROWS, NORMALIZATION, 2,  reference_combine_dw,        constants_combine_dw,        {SLOT_X, SLOT_SAVED},                    .out_slot = {SLOT_DELTA}, .flops_on_input = true};
/* clang-format on */
