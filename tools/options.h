/* The command line: one table of options, from which parsing, help and error messages follow. */
#ifndef WHERRY_TOOLS_OPTIONS_H
#define WHERRY_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output.h"

struct command;

enum exit_code {
    EXIT_FINE = 0,
    EXIT_VERIFY = 1,   /* a comparison failed */
    EXIT_USAGE = 2,    /* the command line */
    EXIT_INPUT = 3,    /* texts or model files */
    EXIT_DEVICE = 4,   /* devices, drivers, memory */
    EXIT_OUTPUT = 5,   /* results could not be written */
    EXIT_STOPPED = 130 /* interrupted by the user */
};

enum input_kind { INPUT_LINES, INPUT_JSONL };
enum format_kind { FORMAT_TEXT, FORMAT_JSONL, FORMAT_NPY };

enum { LIST_MAX = 4096, FILES_MAX = 1024 };

struct number_list {
    uint32_t values[LIST_MAX], count;
};

/* What the user said; zero where nothing was said. Choices count from 1. */
struct options {
    const struct command *command;
    const char *model, *config, *device, *output, *cache, *fuse, *split, *device_spec;
    int plan, dtype, weights, pool, input, format, activation, phase;
    int save; /* wherry_save */
    int kernels;
    int data;
    const char *only, *tuning, *dump, *target;
    const char *orders;    /* --layouts of a session */
    double peak_bandwidth; /* GB/s */
    int report_format, caches, roof, sessions;
    uint32_t max_tokens, batch_tokens, batch, seq, repeats, replays, nearest, seed, requests;
    uint32_t candidates, rounds, jobs, threads;
    const char *compile_share, *log;
    uint32_t sample;
    const char *prompt, *query, *instruction, *ranges;
    uint32_t dimensions, top;
    int output_type, scores, aggregation;
    uint32_t layers, hidden, heads, feed_forward, qkv_products;
    uint64_t memory_budget;
    double warm, dropout, threshold, idle; /* < 0: nothing was said */
    double seconds;
    /* wherry train; of numbers, < 0: nothing was said, or 0 where that is no value */
    const char *dev, *out, *columns, *freeze;
    int task, loss, optimizer, schedule, init;
    uint32_t run_tokens, epochs, steps, eval_every, save_every;
    double learning_rate, warmup, weight_decay, momentum, max_norm, layer_decay, scale, masked;
    bool symmetric, whole_words, next_sentence, no_check;
    const char *adapter, *lora_targets, *lora_save;
    uint32_t lora;
    double lora_alpha;
    bool rslora, lora_merge;
    uint32_t shards;
    int wire;       /* wherry_wire, from 1 */
    double silence; /* seconds */
    const char *link, *copy, *measured;
    struct number_list lengths, clients, ranks;
    bool normalize, no_normalize, truncate, pairs, with_text;
    bool training, inference, layer, encoder, all, dot, explain, paper, layouts, pre_layernorm;
    bool train, fresh, no_layouts, no_shipped, all_candidates, latency, timings, tokens;
    bool low_priority;
    bool json, quiet, verbose, help, check, wide;
    const char *file; /* the operand, or the first */
    const char *files[FILES_MAX];
    uint32_t files_count;
    int argc;
    char **argv;
};

/* argv without the program's and the command's names. Prints what is wrong and returns false. */
bool options_parse(const struct command *command, int argc, char **argv, struct options *out);
/* Everything about one command, or about the program when NULL. */
void help_print(const struct command *command, struct output *out);
enum { DATA_RANDOM = 1, DATA_ZEROS };

/* Plan names as the options count them, "all" after them. */
#define PLAN_CHOICES "flash|paper|unfused"
#define KERNEL_CHOICES "auto|tiled|coopmat|mma|wgmma|small_batch|clblast|onednn"
#define SESSION_CHOICES "shared|per-client"
enum { PLAN_ALL = 4, DTYPE_ALL = 4, CACHES_BOTH = 2, ROOF_NO = 2, ROOF_COPY, SESSIONS_PER_CLIENT = 2 };
#define AGGREGATION_CHOICES "none|simple|first|average|max"
enum { AGGREGATION_NONE = 1, AGGREGATION_SIMPLE, AGGREGATION_FIRST, AGGREGATION_AVERAGE, AGGREGATION_MAX };
#define POOL_CHOICES "mean|cls|max|pooler|none|last|mean_sqrt|weighted"
#define OUTPUT_CHOICES "f32|f16|int8|binary|ubinary|tokens|sparse"
enum { OUTPUT_F32 = 1, OUTPUT_F16, OUTPUT_INT8, OUTPUT_BINARY, OUTPUT_UBINARY, OUTPUT_TOKENS, OUTPUT_SPARSE };
/* wherry_save as the options count it; 0 is the default. */
#define SAVE_CHOICES "paper|all|least"
#define WIRE_CHOICES "f32|f16|bf16"

#endif
