/* The commands, one table. */
#ifndef WHERRY_TOOLS_COMMANDS_H
#define WHERRY_TOOLS_COMMANDS_H

#include "options.h"

/* In struct command and in the table of options. */
enum {
    DEVICES = 1,
    EMBED = 2,
    ANALYZE = 4,
    BENCH = 8,
    VERIFY = 16,
    DEMO = 32,
    BENCH_LAYER = 64,
    VERIFY_LAYER = 128,
    ROOF = 256,
    QUALITY = 512,
    REPORT = 1024,
    DIFF = 2048,
    SERVE = 33554432, /* of no option: they are wherry-serve's */
    TUNE = 32768,
    TUNE_LAYER = 65536,
    BENCH_GEMM = 4096,
    BENCH_ATTENTION = 8192,
    BENCH_NORM = 16384,
    LATENCY = 131072,
    RERANK = 262144,
    CLASSIFY = 524288,
    FILL = 1048576,
    TEXTS = EMBED | RERANK | CLASSIFY | FILL,
    MODELS = 2097152,
    PREPARE = 4194304,
    BENCH_LAYOUTS = 8388608,
    COMPILE = 16777216,
    TRAIN = 67108864,
    BENCH_TRAIN = 134217728,
    MERGE = 268435456,
    BENCHES = BENCH | BENCH_LAYER | BENCH_TRAIN,
    PIECES = BENCH_GEMM | BENCH_ATTENTION | BENCH_NORM,
    RECORDS = ROOF | BENCHES | BENCH_LAYOUTS | LATENCY | REPORT,
    TUNES = TUNE | TUNE_LAYER,
    LAYER = BENCH_LAYER | VERIFY_LAYER | TUNE_LAYER,
    SESSIONS = TEXTS | BENCH | LATENCY | VERIFY | DEMO | LAYER | TUNE | TRAIN | BENCH_TRAIN | QUALITY,
    EVERY = DEVICES | MODELS | MERGE | PREPARE | ANALYZE | ROOF | REPORT | DIFF | SESSIONS | PIECES | BENCH_LAYOUTS
};

struct command {
    const char *name;    /* one word or two, of which the second may be an option */
    unsigned bit;        /* in the option table's `commands` */
    const char *operand; /* "[FILE]", "FILE", "FILE FILE", "FILE...", "" */
    const char *summary; /* one line */
    const char *text;    /* what it does, wrapped by hand */
    const char *examples;
    int (*run)(const struct options *options);
};

extern const struct command commands[];
extern const size_t commands_count;
/* The command that the words begin with, NULL: none; one whose second word is an option may have it anywhere. *words:
 * how many of them are its name, options not counted. */
const struct command *command_find(int argc, char **argv, int *words);

int devices_command(const struct options *options);
int models_command(const struct options *options);
int embed_command(const struct options *options);
int rerank_command(const struct options *options);
int classify_command(const struct options *options);
int fill_command(const struct options *options);
int train_command(const struct options *options);
int merge_command(const struct options *options);
int analyze_command(const struct options *options);
int roof_command(const struct options *options);
int bench_command(const struct options *options);
int bench_latency_command(const struct options *options);
int bench_layer_command(const struct options *options);
int bench_train_command(const struct options *options);
int prepare_command(const struct options *options);
int compile_command(const struct options *options);
int tune_command(const struct options *options);
int tune_layer_command(const struct options *options);
int bench_gemm_command(const struct options *options);
int bench_attention_command(const struct options *options);
int bench_layouts_command(const struct options *options);
int bench_norm_command(const struct options *options);
int report_command(const struct options *options);
int diff_command(const struct options *options);
int verify_command(const struct options *options);
int verify_layer_command(const struct options *options);
int quality_command(const struct options *options);
int demo_command(const struct options *options);

#endif
