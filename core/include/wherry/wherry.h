/* Wherry: transformer encoders (BERT family) on any GPU, through OpenCL and Vulkan, and on the host's cores.
 *
 *   context -> device -> model -> session -> encode, or forward and backward
 *
 * Rules that hold for every function here:
 * - A fallible call returns a wherry_status, 0 meaning success; results come through out-pointers, which a failed call
 *   leaves untouched. wherry_last_error() has the sentence that says what failed, where, and what to do.
 * - The library never prints, aborts or exits, and has no global state.
 * - Handles are opaque. Every destroy function accepts NULL.
 * - A descriptor begins with `struct_size = sizeof(the descriptor)`; any other field left zero means "the default".
 * - Strings are UTF-8. Sizes are size_t, in bytes unless a comment gives another unit; token ids are int32_t.
 * - A context, a device and a model may be used by several threads at once, a session and its tickets by one at a
 * time. Each thread has its own last error. A model is immutable once opened, and sessions of several contexts may read
 * it. What measures and tunes wants the device for itself. docs/threads.md has the whole table.
 */
#ifndef WHERRY_WHERRY_H
#define WHERRY_WHERRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WHERRY_VERSION_MAJOR 0
#define WHERRY_VERSION_MINOR 1
#define WHERRY_VERSION_PATCH 0

#if defined(WHERRY_STATIC) || (defined(_WIN32) && defined(WHERRY_BUILDING)) /* a DLL's names are in wherry.def */
#define WHERRY_API
#elif defined(_WIN32)
#define WHERRY_API __declspec(dllimport)
#elif defined(__GNUC__)
#define WHERRY_API __attribute__((visibility("default")))
#else
#define WHERRY_API
#endif

/* Version of the library that is running, as "major.minor.patch"; compare with the macros above. */
WHERRY_API const char *wherry_version_string(void);
/* The same as one number: major * 10000 + minor * 100 + patch. */
WHERRY_API uint32_t wherry_version_number(void);

typedef enum wherry_status {
    WHERRY_STATUS_OK = 0,
    WHERRY_STATUS_INVALID_ARGUMENT,
    WHERRY_STATUS_OUT_OF_HOST_MEMORY,
    WHERRY_STATUS_OUT_OF_DEVICE_MEMORY, /* also: over the session's memory budget */
    WHERRY_STATUS_UNSUPPORTED,          /* this device, type or architecture can't */
    WHERRY_STATUS_NO_DEVICE,
    WHERRY_STATUS_DEVICE_LOST,
    WHERRY_STATUS_COMPILE_FAILED,
    WHERRY_STATUS_IO,
    WHERRY_STATUS_BAD_FORMAT, /* a model file that is truncated, contradicts itself, or is hostile */
    WHERRY_STATUS_TOO_LONG,   /* a text or batch over the session's limits */
    WHERRY_STATUS_VERIFY_FAILED,
    WHERRY_STATUS_CANCELLED,
    WHERRY_STATUS_BUSY,   /* too much waits already: take results first */
    WHERRY_STATUS_TIMEOUT /* not done yet */
} wherry_status;

/* "WHERRY_STATUS_..." without the prefix, in lower case with spaces: "invalid argument". Never NULL. */
WHERRY_API const char *wherry_status_name(wherry_status status);

/* ---- context ---- */

typedef struct wherry_context wherry_context;

typedef enum wherry_log_level {
    WHERRY_LOG_ERROR = 1,
    WHERRY_LOG_WARNING,
    WHERRY_LOG_INFO,
    WHERRY_LOG_DEBUG
} wherry_log_level;

typedef struct wherry_context_desc {
    uint32_t struct_size;
    /* Both or neither. alloc returns memory aligned like malloc's, or NULL. Libraries below (drivers, jansson) keep
     * their own allocators. These and log are called by several threads at once where several use the context. */
    void *(*alloc)(size_t size, void *user);
    void (*free)(void *pointer, void *user);
    void (*log)(wherry_log_level level, const char *text, void *user);
    void *user;
    /* Folder for compiled kernels and what was tuned, made if missing. NULL: the platform's cache folder. "": nothing
     * is cached. Where users other than this one and root may write to it, own it, or linked it, nothing is cached
     * either: wherry_context_create logs a warning that says so, and sessions have it as a note. */
    const char *cache_dir;
    /* OpenCL compilers are told not to optimize: kernels are ready sooner and run slower. For tests on CPU drivers, and
     * for telling a compiler's fault from ours. Not PoCL's from 6.0 on, which does not survive it. */
    bool unoptimized;
    /* Threads that the device "cpu" computes with, at most. 0, and what is more than that: as many as there are cores
     * that the process may be run on and that its quota gives time for, up to 256. Results do not depend on it. */
    uint32_t threads;
    /* The context keeps account of where its time goes, for wherry_context_parts (wherry_measure.h). */
    bool timed;
    /* A program that compiles kernels in a process of its own where the driver's compiler might end this one: those
     * that a driver of this version has not compiled yet, as the cache folder remembers, and all of drivers that are
     * known to crash. It is started as `PROGRAM compile FILE --cache FOLDER`, as the command wherry can be, or any
     * program that hands these to wherry_compile_list (wherry_compile.h); "": this process's own. What it crashes in is
     * left out, as are kernels whose check fails. NULL, and without a cache folder: kernels are compiled in this
     * process, those that are new to the driver after a note in the cache, so that what ended a process is found by the
     * next. */
    const char *compiler;
    /* That it may take for one kernel before it is ended, in seconds. 0: 120. */
    uint32_t compile_seconds;
    /* Queues that the library makes are of low priority where the driver has that (VK_KHR_global_priority or its EXT,
     * cl_khr_priority_hints), so that an application's own work and other programs' go first. What a device has,
     * wherry_device_info.priority says; of one that has none a warning is logged, and its sessions have it as a note.
     * Queues that an application lends keep their own. */
    bool low_priority;
} wherry_context_desc;

/* desc may be NULL: malloc, no log, the platform's cache folder. */
WHERRY_API wherry_status wherry_context_create(const wherry_context_desc *desc, wherry_context **out);
/* Destroy everything created from the context first. */
WHERRY_API void wherry_context_destroy(wherry_context *context);
/* The sentence that belongs to the calling thread's last failed call in this context; "" before the first. Valid until
 * the thread's next call. */
WHERRY_API const char *wherry_last_error(const wherry_context *context);
/* The driver's own code of that failure (a VkResult or cl_int), 0 where no driver was involved. */
WHERRY_API int wherry_last_native_error(const wherry_context *context);

/* ---- devices ---- */

typedef enum wherry_device_type {
    WHERRY_DEVICE_OTHER = 0,
    WHERRY_DEVICE_DISCRETE_GPU,
    WHERRY_DEVICE_INTEGRATED_GPU,
    WHERRY_DEVICE_VIRTUAL_GPU,
    WHERRY_DEVICE_CPU
} wherry_device_type;

typedef struct wherry_device_info {
    char id[32];      /* "vulkan:0", "opencl:1", "cpu", "reference": stable for a given set of drivers */
    char name[256];   /* as the driver says it */
    char driver[256]; /* driver name and version */
    char api[64];     /* "Vulkan 1.3.255", "OpenCL 3.0" */
    uint8_t uuid[16]; /* of the physical device where the driver gives one, else all zero */
    wherry_device_type type;
    bool usable;
    char reason[256];      /* why it is not usable; "" when it is */
    bool compiles_only;    /* not usable, but sessions can be prepared on it, to compile what they run
                              (wherry_compile.h) */
    uint64_t memory_bytes; /* device-local memory */
    char quirks[256];      /* what this library does otherwise because of what is known of the driver: names of
                              docs/devices.md, with commas; "": nothing */
    char device_class[24]; /* by which sizes are chosen: "amd-rdna3", "generic", ...; "" of a device that does not open
                              (docs/tuning.md) */
    char priority[160];    /* of an opened device of a context with low_priority: begins with "low" where its queue has
                              that, and says by what; else why not. "" elsewhere */
} wherry_device_info;

typedef struct wherry_device wherry_device;

/* Fills at most *count entries of `infos` (which may be NULL) and sets *count to the number there is. Order: Vulkan,
 * OpenCL, cpu, reference; within an API by type (GPUs first), then by UUID or PCI address, then as the driver lists
 * them. A driver that fails appears as an unusable device with its reason. Where `infos` is given each device is
 * opened, which tries an empty submission, and closed again: one that fails is unusable, too. */
WHERRY_API wherry_status wherry_device_list(wherry_context *context, wherry_device_info *infos, size_t *count);
/* `name`: an id ("vulkan:0"), a UUID in hexadecimal, or a part of exactly one usable device's name (any case; an API
 * prefix narrows it: "opencl:h200"). NULL or "": the first usable GPU, else the host's cores ("cpu", which needs no
 * driver), and in a build without them a CPU driver (of those that were tuned for the same calls, in the context's
 * cache folder, the fastest; else OpenCL's before Vulkan's), else the reference. */
WHERRY_API wherry_status wherry_device_open(wherry_context *context, const char *name, wherry_device **out);
WHERRY_API void wherry_device_close(wherry_device *device);
WHERRY_API wherry_status wherry_device_describe(const wherry_device *device, wherry_device_info *out);

typedef struct wherry_device_limits {
    uint32_t struct_size;                /* set by the caller */
    uint32_t subgroup_min, subgroup_max; /* 1 where unknown */
    uint32_t max_local_size;             /* work-items of one work-group */
    uint64_t shared_bytes;               /* of one work-group */
    uint64_t max_buffer_bytes;           /* one allocation; 0: unknown */
    uint64_t max_binding_bytes;          /* one argument of a kernel; 0: unknown */
    bool f16;                            /* stores and loads 16-bit floats */
    bool bf16;                           /* has WHERRY_DTYPE_BF16 */
} wherry_device_limits;

WHERRY_API wherry_status wherry_device_query(const wherry_device *device, wherry_device_limits *out);

/* Bytes. What sessions hold beside their buffers (recordings, staging memory) is the driver's and not counted. */
typedef struct wherry_device_memory_info {
    uint32_t struct_size;   /* set by the caller */
    uint64_t used_bytes;    /* of this device's sessions that are prepared; weights that they share counted once */
    uint64_t limit_bytes;   /* wherry_device_limit_memory; 0: none */
    uint64_t budget_bytes;  /* that the driver gives this process now (VK_EXT_memory_budget); 0: it does not tell */
    uint64_t process_bytes; /* of these, what the process uses, by whatever means */
} wherry_device_memory_info;
WHERRY_API wherry_status wherry_device_memory(wherry_device *device, wherry_device_memory_info *out);
/* From now on sessions of the device are prepared only while all their buffers together have at most so many bytes; 0:
 * no limit. Those that are prepared stay so: wherry_session_release gives back what they have. A session that does not
 * fit beside the others, or within the driver's budget, is WHERRY_STATUS_OUT_OF_DEVICE_MEMORY when it is prepared: the
 * message has what it needs, what is in use, and the limit. */
WHERRY_API wherry_status wherry_device_limit_memory(wherry_device *device, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#include <wherry/wherry_model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions: a model on a device, for batches up to a limit ---- */

typedef struct wherry_session wherry_session;

typedef enum wherry_dtype {
    WHERRY_DTYPE_DEFAULT = 0, /* f32; on a GPU that stores 16-bit floats f16, or bf16 where a model's weights, or
                               * its architecture's values (beyond_f16), go beyond the range of f16; a note says so */
    WHERRY_DTYPE_F32,
    WHERRY_DTYPE_F16, /* stored in 16 bits; sums, statistics and softmax in f32 */
    /* The upper half of a float: the range of f32, for models whose values f16 can't hold, and 8 digits. On
     * devices that say so (wherry_device_limits.bf16). Stored in 16 bits, rounded to nearest even, as f16 is, where
     * 16-bit floats can be stored; the device "cpu", on processors with AVX512-BF16 or AMX, stores weights of products
     * in bf16 and rounds what is multiplied, in attention too, and all else is f32 there; it does not train so. */
    WHERRY_DTYPE_BF16
} wherry_dtype;

/* How weights of products are stored; sums, statistics and all else are as the dtype says, and so are tables of
 * embeddings. */
typedef enum wherry_weights {
    WHERRY_WEIGHTS_DEFAULT = 0, /* as the dtype says */
    /* Rows of 8-bit integers, each with one scale of 32 bits: its largest absolute value / 127, to which all values are
     * rounded, to nearest even. Half the bytes of f16. For inference; on the device cpu not in bf16. */
    WHERRY_WEIGHTS_INT8
} wherry_weights;

/* What the forward pass of training keeps for the backward pass. */
typedef enum wherry_save {
    WHERRY_SAVE_DEFAULT = 0, /* what the backward pass reads; of a ReLU what came out, which is kept anyway */
    WHERRY_SAVE_PAPER,       /* as Ivanov et al.: also what goes into a ReLU */
    WHERRY_SAVE_ALL,         /* everything that the forward pass writes */
    WHERRY_SAVE_LEAST        /* fewest bytes: what follows row by row from the rest is computed again */
} wherry_save;

/* Makes a session train: wherry_forward and wherry_backward instead of wherry_encode. */
typedef struct wherry_training_desc {
    uint32_t struct_size;
    /* Probability at the four places: attention's weights, attention's output, after the activation, after the second
     * linear layer. 0: none. Kept values are scaled by 1 / (1 - p), p being rounded to a multiple of 2^-16. What is
     * dropped is a function of seed, step, layer, place and element (core/interface/random.h), the same on every device
     * and in every plan and type. */
    float dropout;
    wherry_save save;
    bool stack; /* the layers alone: floats go in and come out, no embeddings, no pooling */
    /* How many products make Q, K and V: 0 or 1 as one (the paper's algebraic fusion), 2 Q and K as one, 3 each alone:
     * for comparison. */
    uint32_t qkv_products;
    /* With WHERRY_SAVE_DEFAULT: the first so many layers keep what WHERRY_SAVE_LEAST does, the others what the backward
     * pass reads; at most all. A trainer chooses it by itself where its memory needs it (wherry_trainer_create). */
    uint32_t least_layers;
} wherry_training_desc;

/* What wherry_encode returns. Scores of classes and of the vocabulary are raw: logits. */
typedef enum wherry_output {
    WHERRY_OUTPUT_EMBEDDING = 0, /* [sequences][embedding_size], or [tokens] of them when the session pools nothing */
    WHERRY_OUTPUT_CLASSES,       /* [sequences][labels]: of models with WHERRY_HEAD_SEQUENCE */
    WHERRY_OUTPUT_TOKEN_CLASSES, /* [tokens][labels]: with WHERRY_HEAD_TOKENS */
    /* With WHERRY_HEAD_VOCABULARY: [sequences][vocabulary], of the token of each sequence that wherry_batch.rows names
     */
    WHERRY_OUTPUT_VOCABULARY,
    /* [tokens]: what each weighs in lexical search, relu(w * x + b), of models with sparse_linear.pt (bge-m3). A text's
     * weight of a token id is the largest of those in it; cls_token, eos_token, pad_token and unknown_token have none.
     */
    WHERRY_OUTPUT_SPARSE,
    /* [tokens][rows of the matrix], each of length 1: vectors for late interaction, of models with colbert_linear.pt
     * (bge-m3), which leave out each text's first token. */
    WHERRY_OUTPUT_TOKEN_VECTORS,
    /* With WHERRY_HEAD_VOCABULARY: [sequences][vocabulary], what each word weighs in lexical search (SPLADE): of
     * log(1 + relu(score)) for all of the sequence's tokens the largest, or what the model's files say. Most are 0. */
    WHERRY_OUTPUT_WORDS,
    /* With WHERRY_HEAD_VOCABULARY, of sessions that train or are run by wherry_forward: two floats, the sum of the
     * cross-entropies of all tokens that have one of wherry_batch.labels, and how many of them have no word with a
     * score above their label's. */
    WHERRY_OUTPUT_ENTROPY,
    /* The same of models whose config has next_sentence, and two floats more: the sum of the cross-entropies of all
     * sequences that have one of wherry_batch.next, and how many of these are told right. */
    WHERRY_OUTPUT_ENTROPY_NEXT
} wherry_output;

typedef struct wherry_session_desc {
    uint32_t struct_size;
    uint32_t max_tokens;    /* in one batch, over all sequences; 0: 16384 */
    uint32_t max_sequences; /* in one batch; 0: max_tokens; of outputs as wide as the vocabulary at most 256 */
    uint32_t max_length;    /* tokens of one sequence; 0: the model's limit */
    /* WHERRY_OUTPUT_ENTROPY, _NEXT: tokens with one of wherry_batch.labels in one batch; 0: max_tokens. Memory and the
     * kernels' sizes go by it; where it is at most a quarter of max_tokens, training keeps the scores of the vocabulary
     * for the backward pass instead of computing them again, unless that keeps the least. */
    uint32_t max_labels;
    wherry_dtype dtype;
    const char *plan; /* "flash" (NULL), "paper", "unfused" */
    wherry_pool pool;
    int normalize;                        /* 0: the model's own; 1: L2-normalize embeddings; -1: don't */
    uint64_t memory_budget;               /* device bytes; 0: what the device has */
    bool keep_intermediates;              /* no memory is reused, so that every tensor can be verified */
    const wherry_training_desc *training; /* NULL: inference */
    /* What computes products and attention: NULL or "auto" the fastest that the device has and whose numbers pass a
     * check there (what was not seen to be faster on such devices is timed once); "tiled" (everywhere), "coopmat"
     * (Vulkan), "mma", "wgmma", "small_batch" (OpenCL on NVIDIA; the last: sessions of at most 256 tokens), "clblast"
     * (OpenCL, f32), "onednn" (the device cpu, f32; loaded at run time, when the session is prepared): that one, or
     * WHERRY_STATUS_UNSUPPORTED where the device has none or no kernel of it fits the model, or
     * WHERRY_STATUS_VERIFY_FAILED where it gets the check wrong. Groups that it does not fit run as "tiled"; what
     * oneDNN runs, and why it does not run a product, are notes (wherry_session_note). */
    const char *kernels;
    /* What wherry_tune and wherry_tune_layouts chose: NULL: what is in the cache folder, where there are some for this
     * device, driver and library; "": none; else the file they are in. A file that can't be used is told in a note
     * (wherry_session_note), and the library's own table is used. */
    const char *tuning;
    /* For measuring: these groups of the plan alone, "lin1,lin1_dx", in every layer. Nothing else is compiled or has
     * memory; what no group of them makes is random. Such a session does not encode or train; it implies
     * keep_intermediates. NULL: all. */
    const char *only;
    /* How tensors lie in the device's memory: "w_lin1=iu,w_lin2=ui" has both weights transposed, the last letter is
     * contiguous. A name stands for the tensor in every layer, and its gradient. w_qkv is qhpi or iqhp, w_out ihp or
     * hpi, w_lin1 ui or iu, w_lin2 iu or ui, w_pooler oi or io, of which the first are the model's own. qkv, what the
     * product with w_qkv makes, is bjqhp or bjhqp: Q, K and V of a head side by side. Then w_qkv is hqpi or ihqp, and
     * the product is one (wherry_training_desc.qkv_products). active, and with it every hidden activation of the
     * feed-forward, is bju or ubj: channel-major order, in the plan "flash" with w_lin2=ui. In training a weight may
     * lie in both orders, "w_lin1=ui+iu": in the first it is read by the forward product, and has its gradient; every
     * backward pass copies it to the second, from which the gradient of the input is computed. Another order, and one
     * of a weight that the session has not, is WHERRY_STATUS_INVALID_ARGUMENT. What is given and read back through
     * these functions stays in the model's order. NULL: what wherry_tune_layouts chose, where `tuning` has something
     * for such sessions, else the model's; "": the model's. */
    const char *layouts;
    wherry_output output;
    /* Embeddings are cut to their first so many floats, and have length 1 again where they are normalized; 0: as the
     * model's files say, mostly all. */
    uint32_t dimensions;
    /* Good company, for applications that draw on the same device: no submission takes it longer than so many
     * milliseconds, as far as was seen so far: an encode is given to it in portions, of one kernel at least, each after
     * the one before is done and pause_us microseconds have passed. Such sessions run a small batch when they are
     * prepared, which tells how long each kernel takes, and have one encode under way at a time; where tickets are
     * polled for, a call submits one portion at most; of an encode whose tickets are all cancelled no further one is
     * submitted. 0: an encode is one submission. Not for training. */
    double max_submit_ms;
    uint32_t pause_us;
    wherry_weights weights;
    /* Drivers end a program whose kernel takes seconds (watchdogs: 2 s on Windows, 5 to 10 s elsewhere), which one of a
     * text of 32,768 tokens does on a slow GPU. A kernel that would take longer than so many milliseconds is launched
     * in pieces, a submission each; its bits stay the same. How long it would take, a smaller batch tells that runs
     * when the session is prepared, where there is work enough for it to matter; a note tells of what is divided. 0:
     * 500 on GPUs, no bound on processors, which have no watchdog; less than 0: no bound. The device cpu has no
     * launches. */
    double max_launch_ms;
} wherry_session_desc;

typedef struct wherry_session_plan {
    uint32_t struct_size; /* set by the caller */
    uint64_t device_bytes;
    uint64_t weight_bytes;
    /* Of weight_bytes, what other sessions of the device have, too, now: the device has it once
     * (wherry_session_create).
     */
    uint64_t shared_bytes;
    uint64_t activation_bytes; /* all tensors that live at the same time, and the batch */
    uint64_t saved_bytes;      /* training: of the activations, what is kept for the backward pass at these limits */
    uint32_t groups;
    uint32_t launches; /* kernels of one encode, or of one forward and backward pass */
    uint32_t operators;
    uint32_t splits;         /* groups of the plan that this device can't run whole; see wherry_session_note */
    uint32_t embedding_size; /* floats in a row of the output: of an embedding, labels, the vocabulary, or a token */
    wherry_dtype dtype;
    uint32_t max_tokens, max_sequences, max_length;
    char plan[16];
    char layouts[160];       /* as in wherry_session_desc, those that are not the model's own; "": none */
    char layouts_reason[96]; /* where they were tuned: what a run took then */
    wherry_weights weights;
} wherry_session_plan;

/* Plans only: nothing is allocated on the device and nothing compiled before wherry_session_prepare (or the first
 * encode). The device and the model must outlive the session. A budget too small is an error that names the largest
 * batch that fits.
 * Sessions of one device, model and type have weights that lie in the same order in common: the device has them once,
 * from when the first of these sessions is prepared until the last one is destroyed, and the budget of a later session
 * is for what it has besides. Weights are the session's own in training, with keep_intermediates and with `only`, and
 * where all of a session lies in one buffer, which makes small batches faster: in f16 on NVIDIA's OpenCL, with so few
 * max_tokens that products run as "small_batch" (256). */
WHERRY_API wherry_status wherry_session_create(wherry_context *context, wherry_device *device,
                                               const wherry_model *model, const wherry_session_desc *desc,
                                               wherry_session **out);
WHERRY_API void wherry_session_destroy(wherry_session *session);
WHERRY_API wherry_status wherry_session_query(const wherry_session *session, wherry_session_plan *out);
/* Sentences about what differs from the plan asked for (splits, and which matrix product is used), by index from 0;
 * NULL past the last. */
WHERRY_API const char *wherry_session_note(const wherry_session *session, size_t index);

typedef struct wherry_prepare_info {
    uint32_t struct_size;      /* set by the caller */
    uint32_t kernels;          /* distinct kernels that the session uses */
    uint32_t kernels_compiled; /* of them, compiled now; 0 when the cache had all */
    double seconds;
} wherry_prepare_info;

/* Called between kernels; returning false cancels. Where kernels are not in the cache, first of all with "compile", 0
 * and their number. */
typedef bool (*wherry_progress)(const char *what, size_t done, size_t total, void *user);

/* Allocates device memory, uploads weights, compiles kernels (or loads them from the cache), records the step. After
 * this, encode allocates and compiles nothing. `progress` and `info` may be NULL. A weight that is NaN or infinite is
 * WHERRY_STATUS_BAD_FORMAT, one that bf16 can't hold WHERRY_STATUS_UNSUPPORTED; the message names tensor, place and
 * value (one beyond f16 is that already of wherry_session_create, where f16 was asked for). The first session that is
 * prepared on a device has it make words of a random number and reads them back: WHERRY_STATUS_VERIFY_FAILED where
 * kernels or copies do nothing (a null driver, or one that only compiles; everything is compiled then, and in the
 * cache). */
WHERRY_API wherry_status wherry_session_prepare(wherry_session *session, wherry_progress progress, void *user,
                                                wherry_prepare_info *info);

/* Gives back the session's device memory, and the host's that goes with it; weights that other sessions share stay
 * theirs. The session keeps its plan: the next wherry_session_prepare, or encode, prepares it again, from the kernels'
 * cache. Tickets that are not done are cancelled. Of training, what the last passes left is gone. */
WHERRY_API wherry_status wherry_session_release(wherry_session *session);

/* Sequences that are packed back to back: no padding. */
typedef struct wherry_batch {
    uint32_t struct_size;
    uint32_t sequences;
    const uint32_t *offsets; /* [sequences + 1], offsets[0] = 0: sequence s has tokens offsets[s] to offsets[s + 1] */
    const int32_t *ids;      /* [tokens] */
    const int32_t *types;    /* [tokens], or NULL for all 0 */
    const uint32_t *rows;    /* WHERRY_OUTPUT_VOCABULARY: [sequences], the token of each, counted from its first;
                              * NULL: the first */
    const int32_t *labels;   /* WHERRY_OUTPUT_ENTROPY*: [tokens], the word that is to be told there; -100: none is */
    const int32_t *next;     /* WHERRY_OUTPUT_ENTROPY_NEXT: [sequences], 0: its second part comes after its first, 1: it
                              * is of elsewhere; -100: it does not count */
} wherry_batch;

/* `out` gets what the session's output says; `out_floats` is its capacity in floats. Results do not depend on what else
 * is in the batch, bit for bit. A result that is not finite is WHERRY_STATUS_VERIFY_FAILED: the message names the
 * sequence, and `out` has all results. */
WHERRY_API wherry_status wherry_encode(wherry_session *session, const wherry_batch *batch, float *out,
                                       size_t out_floats);

#ifdef __cplusplus
}
#endif

#include <wherry/wherry_analysis.h>
#include <wherry/wherry_async.h>
#include <wherry/wherry_texts.h>
#include <wherry/wherry_train.h>
#include <wherry/wherry_training.h>
#include <wherry/wherry_verify.h>
#endif
