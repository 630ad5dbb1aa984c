/* The command line: one table of options, from which parsing, help and error messages follow. */
#include "options.h"

#include <string.h>

#include "base/text.h"
#include "commands.h"
#include "complain.h"
#include "names.h"
#include "option_values.h"
#include "report/write.h"

/* ---- the options ---- */

#define AT(member) offsetof(struct options, member)

static const struct option option_table[] = {
    {"model", 'm', SESSIONS | PREPARE | ANALYZE, TEXT, AT(model), "DIR", 0, 0,
     "the model's folder: config.json, model.safetensors, tokenizer.json or older files"},
    {"config", 'c', ANALYZE | BENCH | BENCH_LAYOUTS | LATENCY | VERIFY | LAYER | TUNE | PREPARE, TEXT, AT(config),
     "NAME", 0, 0,
     "instead of a model, one of that shape with random weights, such as minilm-l6, bert-base, xlmr-large (another "
     "name "
     "lists all)"},
    {"device", 'd', SESSIONS | PIECES | ROOF | MODELS | PREPARE | BENCH_LAYOUTS, TEXT, AT(device), "NAME", 0, 0,
     "id (see wherry devices), UUID, or a part of one device's name, as in opencl:h200; default: the first GPU, else "
     "cpu, the host's cores"},
    {"threads", 0, TEXTS, COUNT, AT(threads), "N", 1, 256,
     "that tokenize texts and read weights, and on the device cpu compute, at most; results are the same (default: all "
     "cores that the process may use)"},
    {"threads", 0, (SESSIONS | PIECES | ROOF) & ~TUNES & ~TEXTS, COUNT, AT(threads), "N", 1, 256,
     "of the device cpu, at most; results are the same (default: all cores that the process may use)"},
    {"low-priority", 0, SESSIONS | DEVICES, FLAG, AT(low_priority), NULL, 0, 0,
     "of the device's queue where the driver has that, so that other programs' work goes first (wherry devices "
     "--low-priority tells which have)"},
    {"plan", 'p', TEXTS | DEMO | LATENCY, PLAN, AT(plan), PLAN_CHOICES, 0, 0,
     "fusion plan (default flash), or flash with what wherry tune chose, from a file of its (as --tuning FILE)"},
    {"plan", 'p', BENCH | VERIFY | PREPARE | (LAYER & ~TUNES), PLAN, AT(plan), PLAN_CHOICES "|all", 0, 0,
     "fusion plan, or all of them (default flash), or flash with what wherry tune chose, from a file of its (as "
     "--tuning FILE)"},
    {"plan", 'p', ANALYZE | TUNES, CHOICE, AT(plan), PLAN_CHOICES "|all", 0, 0,
     "fusion plan, or all of them (default flash)"},
    {"dtype", 't', TEXTS | BENCH | LATENCY | DEMO, CHOICE, AT(dtype), "f32|f16|bf16", 0, 0,
     "storage type; sums are in f32; bf16: products with weights, on the device cpu where its processor has "
     "AVX512-BF16 or AMX (default: f16 on a GPU that stores it, else f32)"},
    {"dtype", 't', BENCH_LAYER | BENCH_LAYOUTS | PIECES | TUNES | ANALYZE, CHOICE, AT(dtype), "f32|f16", 0, 0,
     "storage type; sums are in f32 (default: f16 on a GPU that stores it, else f32; analyze: f16)"},
    {"dtype", 't', VERIFY | VERIFY_LAYER | PREPARE, CHOICE, AT(dtype), "f32|f16|bf16|all", 0, 0,
     "storage type, or all that the device has (default: f16 on a GPU that stores it, else f32)"},
    {"kernels", 0, SESSIONS | PIECES | PREPARE, CHOICE, AT(kernels), KERNEL_CHOICES, 0, 0,
     "what computes products and attention (default auto: the fastest that the device has and that passes a check)"},
    {"gemm", 0, SESSIONS | PIECES | PREPARE, CHOICE, AT(kernels), KERNEL_CHOICES, 0, 0, "the same as --kernels"},
    {"query", 'Q', RERANK, TEXT, AT(query), "TEXT", 0, 0, "what the texts are compared with"},
    {"prompt", 0, EMBED, TEXT, AT(prompt), "NAME", 0, 0,
     "put the model's prompt of this name in front of each text; \"\" for none (default: the one that its files use)"},
    {"pool", 0, EMBED | DEMO, CHOICE, AT(pool), POOL_CHOICES, 0, 0,
     "how a text's token vectors become one; none keeps them (jsonl only) (default: the model's own)"},
    {"dim", 0, EMBED, COUNT, AT(dimensions), "N", 1, 1 << 20,
     "cut embeddings to their first N values, scaled to length 1 again where they were (default: what the model's "
     "files "
     "say)"},
    {"output-type", 0, EMBED, CHOICE, AT(output_type), OUTPUT_CHOICES, 0, 0,
     "of a value: f32, f16; int8, steps of 1/255 of --ranges; binary, signs, eight in a byte (ubinary: unsigned "
     "bytes); "
     "tokens: a vector for each token, in f32, by the model's colbert_linear.pt where it has one; jsonl only; "
     "sparse: weights of words, by its head of the vocabulary (SPLADE) or its sparse_linear.pt (default f32; of SPLADE "
     "models sparse)"},
    {"ranges", 0, EMBED, TEXT, AT(ranges), "FILE", 0, 0,
     "int8: embeddings in f32 (.npy), whose least and largest value in each dimension are its range"},
    {"top", 0, RERANK, COUNT, AT(top), "N", 1, 1 << 30, "the N best texts alone (default: all)"},
    {"top", 0, CLASSIFY, COUNT, AT(top), "N", 1, 1 << 20, "the N best labels of a text (default: 1; with jsonl all)"},
    {"top", 0, FILL, COUNT, AT(top), "N", 1, 1 << 20, "the N best tokens for each mask (default 5)"},
    {"scores", 0, RERANK | CLASSIFY, CHOICE, AT(scores), "none|sigmoid|softmax", 0, 0,
     "what is made of the model's logits (default: what its files say)"},
    {"tokens", 0, CLASSIFY, FLAG, AT(tokens), NULL, 0, 0,
     "entities: what is said of tokens, with their places in characters"},
    {"aggregation", 0, CLASSIFY, CHOICE, AT(aggregation), AGGREGATION_CHOICES, 0, 0,
     "with --tokens: how tokens become entities; none: each token is one (default simple)"},
    {"normalize", 0, EMBED, FLAG, AT(normalize), NULL, 0, 0,
     "scale embeddings to length 1 (default: what the model's files say)"},
    {"no-normalize", 0, EMBED, FLAG, AT(no_normalize), NULL, 0, 0, "leave their length as it is"},
    {"max-tokens", 0, TEXTS | DEMO, COUNT, AT(max_tokens), "N", 2, 1 << 24,
     "longest text in tokens, special tokens included (default: the model's limit)"},
    {"truncate", 0, TEXTS, FLAG, AT(truncate), NULL, 0, 0, "cut longer texts instead of failing"},
    {"batch-tokens", 0, TEXTS | DEMO, COUNT, AT(batch_tokens), "N", 2, 1 << 24,
     "tokens that run at a time (default: 16384 on a GPU, 4096 on a CPU driver, 1024 on the reference; at least the "
     "longest text)"},
    {"input", 'i', TEXTS, CHOICE, AT(input), "lines|jsonl", 0, 0, "what the input is (default lines)"},
    {"pairs", 0, EMBED | CLASSIFY, FLAG, AT(pairs), NULL, 0, 0, "each line is two texts with one tab between them"},
    {"format", 'f', EMBED, CHOICE, AT(format), "text|jsonl|npy", 0, 0, "what the output is (default text)"},
    {"format", 'f', TEXTS & ~EMBED, CHOICE, AT(format), "text|jsonl", 0, 0, "what the output is (default text)"},
    {"format", 'f', RECORDS, CHOICE, AT(report_format), REPORT_CHOICES, 0, 0,
     "what the output is (default: by the ending of --output; else text)"},
    {"wide", 'w', BENCHES | REPORT, FLAG, AT(wide), NULL, 0, 0,
     "text with all columns: bytes, intensities, intervals, limits; and of cold caches"},
    {"check", 0, REPORT, FLAG, AT(check), NULL, 0, 0, "derive every derived number again and compare"},
    {"threshold", 0, DIFF, NUMBER, AT(threshold), "PERCENT", 0, 1000, "smallest change that counts (default 3)"},
    {"timings", 0, EMBED, FLAG, AT(timings), NULL, 0, 0,
     "tell on standard error where the time until the first embedding went (with --json as an object)"},
    {"with-text", 0, TEXTS, FLAG, AT(with_text), NULL, 0, 0, "jsonl output repeats the text"},
    {"batch", 'b', ANALYZE | BENCH | BENCH_LAYER | BENCH_LAYOUTS | TUNES | PREPARE, COUNT, AT(batch), "N", 1, 1 << 20,
     "sequences in the batch (default 8)"},
    {"batch", 'b', VERIFY_LAYER, COUNT, AT(batch), "N", 1, 1 << 20, "sequences of --seq tokens, instead of --lengths"},
    {"seq", 's', VERIFY_LAYER, COUNT, AT(seq), "N", 1, 1 << 20, "tokens of each of the --batch sequences"},
    {"seq", 's', ANALYZE | BENCH_LAYER | BENCH_LAYOUTS | TUNE_LAYER | PREPARE, COUNT, AT(seq), "N", 1, 1 << 20,
     "tokens of each sequence (default 512, or the model's limit where that is less)"},
    {"seq", 's', BENCH | TUNE, COUNT, AT(seq), "N", 1, 1 << 20,
     "tokens of each sequence (default 128, or the model's limit where that is less)"},
    {"lengths", 'l', BENCH | BENCH_LAYER | TUNES | PREPARE, LIST, AT(lengths), "N,N,...", 1, 1 << 20,
     "sequences of these lengths instead of --batch and --seq"},
    {"lengths", 'l', VERIFY | VERIFY_LAYER, LIST, AT(lengths), "N,N,...", 1, 1 << 20,
     "lengths of the sequences that it is checked with (default 1,17,64,5)"},
    {"activation", 0, ANALYZE, CHOICE, AT(activation), "gelu|gelu_tanh|relu", 0, 0,
     "of the feed-forward (default: the model's; with --config in training relu, as in the paper's table)"},
    {"training", 0, ANALYZE, FLAG, AT(training), NULL, 0, 0,
     "with dropouts and the backward pass (default with --config)"},
    {"inference", 0, ANALYZE, FLAG, AT(inference), NULL, 0, 0, "the forward pass alone (default with --model)"},
    {"save", 0, ANALYZE | LAYER | PREPARE, CHOICE, AT(save), SAVE_CHOICES, 0, 0,
     "what training keeps for the backward pass: what the paper keeps, all, or the fewest bytes (default: what the "
     "backward pass reads)"},
    {"paper", 0, ANALYZE, FLAG, AT(paper), NULL, 0, 0,
     "the paper's layer (bert-large, 8 x 512 and 96 x 128, training, f16) beside the figures that it prints"},
    {"layouts", 0, ANALYZE, FLAG, AT(layouts), NULL, 0, 0,
     "count the layouts of every contraction and fused kernel (without --model and --config: bert-large, and the "
     "paper's)"},
    {"layouts", 0, SESSIONS | BENCH_GEMM | PREPARE, TEXT, AT(orders), "NAME=LETTERS,...", 0, 0,
     "orders in which tensors lie in memory, as in w_lin1=iu,w_lin2=ui: w_qkv qhpi or iqhp, w_out ihp or hpi, w_lin1 "
     "ui or iu, w_lin2 iu or ui, w_pooler oi or io, qkv bjqhp or bjhqp (w_qkv hqpi or ihqp), active bju or ubj; "
     "training: a weight in both, as in w_lin1=ui+iu, with a copy in the second for the gradient of the input "
     "(default: the first of each)"},
    {"fuse", 0, ANALYZE, TEXT, AT(fuse), "A+B|auto", 0, 0,
     "what if these operators or groups were one; several sums with commas between them; auto: by the paper's rule"},
    {"split", 0, ANALYZE, TEXT, AT(split), "GROUP", 0, 0, "what if this group of the plan were single operators"},
    {"explain", 0, ANALYZE, FLAG, AT(explain), NULL, 0, 0,
     "print every decision of --fuse auto, with what it saves or would save"},
    {"device-spec", 0, ANALYZE, TEXT, AT(device_spec), "NAME|FILE", 0, 0,
     "predict limit times on a GPU by its data sheet (h200; list: all names), or on the device with the peaks of this "
     "JSON file; several with commas between them"},
    {"activation", 0, LAYER | PREPARE, CHOICE, AT(activation), "gelu|gelu_tanh|relu", 0, 0,
     "of the feed-forward (default: a model's own; with --config relu, as in Ivanov et al.)"},
    {"layers", 0, LAYER | PREPARE, COUNT, AT(layers), "N", 1, 1024,
     "with --config: layers, one on the other (default 1; a model has its own)"},
    {"pre-layernorm", 0, LAYER | PREPARE, FLAG, AT(pre_layernorm), NULL, 0, 0,
     "with --config: layernorms before attention and feed-forward, not after them"},
    {"hidden", 0, ANALYZE | LAYER | BENCH_LAYOUTS | PREPARE, COUNT, AT(hidden), "N", 1, 1 << 20,
     "with --config: another width of the layer"},
    {"heads", 0, ANALYZE | LAYER | BENCH_LAYOUTS | PREPARE, COUNT, AT(heads), "N", 1, 1 << 20,
     "with --config: another number of heads"},
    {"feed-forward", 0, ANALYZE | LAYER | BENCH_LAYOUTS | PREPARE, COUNT, AT(feed_forward), "N", 1, 1 << 20,
     "with --config: another width of the feed-forward"},
    {"dropout", 0, LAYER | PREPARE, NUMBER, AT(dropout), "P", 0, 0.99,
     "probability that an element is dropped, at the four places; 0: no dropout (default 0.1)"},
    {"qkv-products", 0, ANALYZE | LAYER | PREPARE, COUNT, AT(qkv_products), "N", 1, 3,
     "training's products for Q, K and V: 1 for all (default), 2 with Q and K in one, 3 each alone"},
    {"dropout", 0, PIECES, NUMBER, AT(dropout), "P", 0, 0.99,
     "probability that an element is dropped, where the form has a dropout (default 0.1)"},
    {"train", 0, PREPARE, FLAG, AT(train), NULL, 0, 0,
     "kernels of training, forward and backward, of a stack of layers (default: those of encoding)"},
    {"dump", 0, PREPARE, TEXT, AT(dump), "FOLDER", 0, 0,
     "compile nothing, and write to this new folder what would be: every distinct program, with what it is compiled "
     "with, and programs.json, their list"},
    {"target", 0, PREPARE, TEXT, AT(target), "NAME", 0, 0,
     "with --dump: as on this device, which need not be here, such as intel-bmg, amd-gfx1100 (another name lists "
     "all)"},
    {"latency", 0, BENCH | LATENCY, FLAG, AT(latency), NULL, 0, 0,
     "measure how long single requests take under load instead (wherry help bench --latency)"},
    {"clients", 0, LATENCY, LIST, AT(clients), "N,N,...", 1, 1024,
     "threads that send requests, each the next one when the last was answered; each number is measured by itself "
     "(default 1,4,16)"},
    {"sessions", 0, LATENCY, CHOICE, AT(sessions), SESSION_CHOICES, 0, 0,
     "one session, which clients get in the order in which they came, or one for each client (default shared)"},
    {"lengths", 'l', LATENCY, LIST, AT(lengths), "N,N,...", 1, 1 << 20,
     "tokens of the requests' texts, special tokens included, taken in turn (default 20)"},
    {"seconds", 0, LATENCY, SECONDS, AT(seconds), "SECONDS", 0.001, 86400,
     "measure each number of clients so long (default 5)"},
    {"requests", 0, LATENCY, COUNT, AT(requests), "N", 1, 4294967295.0, "or until so many requests were answered"},
    {"idle", 0, LATENCY, SECONDS, AT(idle), "SECONDS", 0, 86400,
     "also single requests after so long without any, three times (default 10; 0: none)"},
    {"phase", 0, BENCH_LAYER, CHOICE, AT(phase), "forward|backward|both", 0, 0,
     "what is measured (default both: each by itself, then one after the other)"},
    {"layer", 0, ANALYZE, FLAG, AT(layer), NULL, 0, 0, "one encoder layer alone (default with --config)"},
    {"encoder", 0, ANALYZE, FLAG, AT(encoder), NULL, 0, 0, "embeddings, all layers and pooling (default with --model)"},
    {"all", 'a', ANALYZE, FLAG, AT(all), NULL, 0, 0, "print every layer by itself"},
    {"all", 'a', DIFF, FLAG, AT(all), NULL, 0, 0, "print what did not change, too"},
    {"dot", 0, ANALYZE, FLAG, AT(dot), NULL, 0, 0, "write the graph in Graphviz's language, and nothing else"},
    {"only", 0, BENCH_LAYOUTS, TEXT, AT(only), "NAME,...", 0, 0,
     "these kernels (AIB, SM, ...) and contractions (QKV, QKT, lin1, ...) alone (default: all 36)"},
    {"sample", 0, BENCH_LAYOUTS, COUNT, AT(sample), "N", 1, 1000000,
     "configurations of each that are drawn (default: all there are)"},
    {"seconds", 0, BENCH_LAYOUTS, SECONDS, AT(seconds), "SECONDS", 0.001, 1e7,
     "measure no longer than about so long, every kernel and contraction as long as the others (default: until all "
     "is measured)"},
    {"no-shipped", 0, BENCH_LAYOUTS, FLAG, AT(no_shipped), NULL, 0, 0,
     "leave out what the plan \"paper\" takes for the same"},
    {"log", 0, BENCH_LAYOUTS, TEXT, AT(log), "FILE", 0, 0,
     "where every measurement is kept as it is made, and where a run that was stopped goes on (default: --output with "
     ".log after it; none without --output)"},
    {"repeats", 'r', BENCH_LAYOUTS, COUNT, AT(repeats), "N", 1, 64,
     "measured runs of a configuration (default 5; fewer where they are slow)"},
    {"only", 0, PIECES, TEXT, AT(only), "FORM,...", 0, 0, "these forms alone (default: all)"},
    {"only", 0, ROOF, TEXT, AT(only), "ID,ID,...", 0, 0,
     "these ceilings alone, by their names or the first parts of them, as in dram,compute.f32"},
    {"data", 0, ROOF, CHOICE, AT(data), "random|zeros", 0, 0,
     "what is moved (default random floats; zeros show what a device's compression brings)"},
    {"peak-bandwidth", 0, ROOF | BENCHES, NUMBER, AT(peak_bandwidth), "GB/S", 0, 1e9,
     "theoretical bandwidth of the memory, to compare with"},
    {"repeats", 'r', ROOF, COUNT, AT(repeats), "N", 1, 1000000,
     "rounds (default 21; fewer, at least 5, where they would take over 2 s on a CPU driver, 8 s on a GPU)"},
    {"warm", 0, ROOF, SECONDS, AT(warm), "SECONDS", 0, 3600,
     "least time of copying before anything is measured (default 0.5); it goes on until three tenths of that agree "
     "within 1 %, at most four times as long"},
    {"caches", 0, BENCHES, CHOICE, AT(caches), "warm|both", 0, 0,
     "measure groups as in the step, or also alone with cold caches (default: bench warm, bench layer both)"},
    {"roof", 0, BENCHES, CHOICE, AT(roof), "yes|no", 0, 0,
     "measure the device's ceilings in the same run (default yes); without them nothing is set against them"},
    {"repeats", 'r', BENCH | BENCH_LAYER, COUNT, AT(repeats), "N", 1, 1000000,
     "measured runs (default 50; fewer, at least 5, where 50 would take over 10 s)"},
    {"repeats", 'r', PIECES, COUNT, AT(repeats), "N", 1, 1000000,
     "least number of measured runs; 16 follow each other (default 32)"},
    {"warm", 0, BENCH | LATENCY | BENCH_LAYER | PIECES, SECONDS, AT(warm), "SECONDS", 0, 3600,
     "the same work before measuring (default 0.5)"},
    {"candidates", 0, TUNES, COUNT, AT(candidates), "N", 1, 40, "of one kernel call at most (default 40)"},
    {"rounds", 0, TUNES, COUNT, AT(rounds), "N", 1, 128,
     "in which a candidate and the usual sizes take turns (default 15; fewer, at least 7, where they take long)"},
    {"fresh", 0, TUNES, FLAG, AT(fresh), NULL, 0, 0, "measure again what an earlier tuning measured"},
    {"all-candidates", 0, TUNES, FLAG, AT(all_candidates), NULL, 0, 0,
     "measure also those that the bound rules out: whether the best is among them"},
    {"jobs", 0, TUNES | BENCH_LAYOUTS, COUNT, AT(jobs), "N", 1, 256,
     "processes that compile before anything is measured, through OpenCL (default: on a GPU one for each core, at most "
     "16, else 1)"},
    {"compile-share", 0, TUNES | BENCH_LAYOUTS, TEXT, AT(compile_share), "K/N", 0, 0,
     "measure nothing, compile the K-th of N shares of what would be: what --jobs starts N times"},
    {"no-layouts", 0, TUNES, FLAG, AT(no_layouts), NULL, 0, 0, "choose sizes alone, for the model's orders of tensors"},
    {"tuning", 0, (SESSIONS | PIECES | PREPARE) & ~TUNES, TEXT, AT(tuning), "FILE", 0, 0,
     "sizes that wherry tune chose; \"\" uses none (default: those in the cache folder)"},
    {"replays", 0, VERIFY | VERIFY_LAYER, COUNT, AT(replays), "N", 1, 1000000,
     "runs whose bits are compared (default 20)"},
    {"seed", 0, BENCH | BENCH_LAYOUTS | LATENCY | VERIFY | LAYER | PIECES | TUNE, COUNT, AT(seed), "N", 1, 4294967295.0,
     "of random weights and token ids, and of what is drawn (default 1)"},
    {"nearest", 0, DEMO, COUNT, AT(nearest), "N", 1, 1000, "sentences to show with their nearest (default 6)"},
    {"memory-budget", 0, SESSIONS | PIECES | PREPARE, SIZE, AT(memory_budget), "BYTES", 1, 1.8e19,
     "device memory to stay within; K, M, G, T after the number are powers of 1024 (default: what there is)"},
    {"cache", 0, SESSIONS | PIECES | ROOF | BENCH_LAYOUTS | PREPARE | COMPILE, TEXT, AT(cache), "DIR", 0, 0,
     "folder of compiled kernels; \"\" keeps none (default: the user's cache folder)"},
    {"json", 'j', RECORDS, FLAG, AT(json), NULL, 0, 0, "the same as --format json"},
    {"json", 'j', EVERY & ~(TEXTS | DEMO | RECORDS), FLAG, AT(json), NULL, 0, 0, "write JSON instead of tables"},
    {"json", 'j', TEXTS, FLAG, AT(json), NULL, 0, 0, "the same as --format jsonl"},
    {"output", 'o', EVERY & ~DEMO, TEXT, AT(output), "FILE", 0, 0,
     "write there instead of to standard output; replaced in one step when complete"},
    {"quiet", 'q', EVERY, FLAG, AT(quiet), NULL, 0, 0, "no progress, notes or warnings on standard error"},
    {"verbose", 'v', EVERY, FLAG, AT(verbose), NULL, 0, 0, "the library's whole log on standard error"},
    {"help", 'h', EVERY, FLAG, AT(help), NULL, 0, 0, "this text"},
};
static const size_t option_count = sizeof option_table / sizeof *option_table;

/* ---- names ---- */

/* A name that nothing resembles, so that rows of other commands are passed over. */
static const char *option_name(size_t n, const void *user)
{
    const struct command *command = user;
    if (n >= option_count) return NULL;
    return option_table[n].commands & command->bit ? option_table[n].name : "................................";
}

static const struct option *option_find(const struct command *command, const char *name, size_t length, char letter)
{
    for (size_t n = 0; n < option_count; n++) {
        const struct option *o = &option_table[n];
        if (!(o->commands & command->bit)) continue;
        if (letter ? o->letter == letter : strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
    }
    return NULL;
}

static bool option_unknown(const struct command *command, const char *word)
{
    size_t length = strcspn(word, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    if (name[0] == '-' && name[1] == '-') {
        for (size_t c = 0; c < commands_count; c++)
            if (option_find(&commands[c], name + 2, strlen(name + 2), 0)) {
                complain(0, "%s is an option of wherry %s, not of wherry %s; see wherry help %s", name,
                         commands[c].name, command->name, command->name);
                return false;
            }
        const char *near = nearest_name(name + 2, option_name, command);
        if (near) {
            complain(0, "wherry %s has no option %s; did you mean --%s?", command->name, name, near);
            return false;
        }
    }
    complain(0, "wherry %s has no option %s; see wherry help %s", command->name, name, command->name);
    return false;
}

/* ---- parsing ---- */

static uint32_t operand_limit(const struct command *command)
{
    if (strstr(command->operand, "...")) return FILES_MAX;
    return !*command->operand ? 0 : strchr(command->operand, ' ') ? 2 : 1;
}

static bool operand_take(const struct command *command, const char *word, struct options *out)
{
    static const char *const numbers[] = {"no operand", "one file", "two files"};
    uint32_t limit = operand_limit(command);
    if (out->files_count < limit) {
        if (!out->file) out->file = word;
        out->files[out->files_count++] = word;
        return true;
    }
    if (limit <= 2)
        complain(0, "wherry %s takes %s; \"%s\" is one too many", command->name, numbers[limit], word);
    else
        complain(0, "wherry %s takes at most %u files", command->name, limit);
    return false;
}

bool options_parse(const struct command *command, int argc, char **argv, struct options *out)
{
    *out = (struct options){.command = command, .warm = -1, .dropout = -1, .threshold = -1, .idle = -1};
    bool only_operands = false;
    for (int n = 0; n < argc; n++) {
        const char *word = argv[n], *value = NULL;
        if (only_operands || word[0] != '-' || !word[1]) {
            if (!operand_take(command, word, out)) return false;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_operands = true;
            continue;
        }
        const struct option *o;
        if (word[1] == '-') {
            size_t length = strcspn(word + 2, "=");
            o = option_find(command, word + 2, length, 0);
            if (word[2 + length] == '=') value = word + 3 + length;
        } else {
            o = option_find(command, NULL, 0, word[1]);
            if (word[2]) value = word + 2;
        }
        if (!o) return option_unknown(command, word);
        if (o->kind == FLAG && value) {
            complain(0, "--%s takes no value", o->name);
            return false;
        }
        if (o->kind != FLAG && !value) {
            if (n + 1 == argc) {
                complain(0, "--%s needs a value: %s%s", o->name, o->values, o->kind == PLAN ? "|FILE" : "");
                return false;
            }
            value = argv[++n];
        }
        if (!option_set(o, value, out)) return false;
        if (out->help) return true;
    }
    return true;
}

/* ---- help ---- */

static void print_wrapped(struct output *out, const char *text, size_t indent, size_t width)
{
    while (*text) {
        size_t take = strlen(text);
        if (take > width) {
            for (take = width; take && text[take] != ' '; take--) continue;
            if (!take) take = width;
        }
        output_format(out, "%.*s\n", (int)take, text);
        text += take;
        while (*text == ' ') text++;
        if (*text) output_format(out, "%*s", (int)indent, "");
    }
}

static void print_option(const struct option *o, struct output *out)
{
    enum { INDENT = 26, WIDTH = 54 };
    char left[160];
    struct text_writer t = text_begin(left, sizeof left);
    if (o->letter)
        text_add(&t, "  -%c, --%s", o->letter, o->name);
    else
        text_add(&t, "      --%s", o->name);
    if (o->values) text_add(&t, " %s%s", o->values, o->kind == PLAN ? "|FILE" : "");
    if (t.used + 2 > INDENT)
        output_format(out, "%s\n%*s", left, INDENT, "");
    else
        output_format(out, "%-*s", INDENT, left);
    print_wrapped(out, o->help, INDENT, WIDTH);
}

static const char exit_text[] =
    "Exit codes:\n"
    "  0    done\n"
    "  1    verify: results differ from the reference's; diff: something became slower;\n"
    "       report --check: a number does not follow from the others\n"
    "  2    the command line is wrong\n"
    "  3    the input or the model can't be read, or a text is too long\n"
    "  4    no such device, it can't run this or failed, results not finite, or memory ran out\n"
    "  5    the output can't be written (full disk, closed pipe)\n"
    "  130  interrupted\n";

void help_print(const struct command *command, struct output *out)
{
    if (command) {
        output_format(out, "Usage: wherry %s [options]%s%s\n\n%s\n", command->name, *command->operand ? " " : "",
                      command->operand, command->text);
        if (!command->run) { /* another program's: it explains its options */
            output_format(out, "Examples:\n%s", command->examples);
            return;
        }
        output_text(out, "Options:\n");
        for (size_t n = 0; n < option_count; n++)
            if (option_table[n].commands & command->bit) print_option(&option_table[n], out);
        output_format(out, "\nValues follow as --option VALUE or --option=VALUE; \"--\" ends the options.\n\n%s\n",
                      exit_text);
        output_format(out, "Examples:\n%s", command->examples);
        return;
    }
    output_text(out, "Usage: wherry COMMAND [options]\n\n"
                     "Runs transformer encoders (BERT family) on any GPU, through OpenCL and Vulkan.\n\nCommands:\n");
    for (size_t n = 0; n < commands_count; n++)
        output_format(out, "  %-16s%s\n", commands[n].name, commands[n].summary);
    output_format(out,
                  "  %-16s%s\n\nOptions:\n"
                  "  --help    this text; after a command: the command's\n"
                  "  --version the version of the command and of the library\n\n%s\n",
                  "help", "explain a command: wherry help embed", exit_text);
    output_text(out, "Examples:\n"
                     "  wherry devices\n"
                     "  wherry embed --model all-MiniLM-L6-v2 --format npy -o out.npy texts.txt\n"
                     "  wherry verify --model all-MiniLM-L6-v2\n");
}
