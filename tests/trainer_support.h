/* Trainers for tests: runs of PyTorch (golden/make_trainer.py, make_trained.py), and small models of random weights.
 * Include cmocka last. */
#ifndef WHERRY_TESTS_TRAINER_SUPPORT_H
#define WHERRY_TESTS_TRAINER_SUPPORT_H

#include "support.h"

#include "model/safetensors.h"

#include <math.h>

enum { RUN_STEPS = 20, RUN_WARMUP = 4, ROWS_MOST = 16, BATCHES_MOST = 4 };

struct run {
    char folder[512];
    char begins[2][40]; /* of names in the file: of what goes in, and of what comes out */
    struct safetensors file;
    uint32_t *offsets; /* [steps][rows + 1] */
    int32_t *ids;
    int32_t *labels, *types, *next;
    float *values;
    double *loss, *norm, *rate;
    size_t rows, targets; /* of a step */
    bool masked;          /* a label for each token */
};

/* NULL: there is none of that name. */
static inline void *run_values(const struct run *r, const char *name, size_t *bytes)
{
    const struct safetensors_tensor *t = NULL;
    struct error e = {0};
    for (int i = 0; i < 2 && !t; i++) {
        char key[240];
        snprintf(key, sizeof key, "%s%s", r->begins[i], name);
        t = safetensors_find(&r->file, key);
    }
    if (!t) return NULL;
    void *values = malloc((size_t)t->bytes);
    if (!safetensors_read(&r->file, t, 0, (size_t)t->bytes, values, &e)) abort();
    if (bytes) *bytes = (size_t)t->bytes;
    return values;
}

/* What r->begins has is set. */
static inline bool run_open_file(const char *folder, const char *file, struct run *r)
{
    char path[600];
    struct error e = {0};
    size_t bytes = 0;
    snprintf(r->folder, sizeof r->folder, "%s/../golden/%s", TEST_DATA, folder);
    snprintf(path, sizeof path, "%s/../golden/%s", TEST_DATA, file);
    if (!safetensors_open(&support_host, path, &r->file, &e)) return false;
    r->offsets = run_values(r, "offsets", &bytes);
    r->rows = bytes / 4 / RUN_STEPS - 1;
    r->ids = run_values(r, "ids", NULL);
    bytes = 0;
    r->labels = run_values(r, "labels", &bytes);
    r->values = run_values(r, "values", r->labels ? NULL : &bytes);
    r->targets = bytes / 4 / RUN_STEPS;
    r->types = run_values(r, "types", NULL);
    r->next = run_values(r, "next", NULL);
    r->loss = run_values(r, "loss", NULL);
    r->norm = run_values(r, "norm", NULL);
    r->rate = run_values(r, "rate", NULL);
    return true;
}

static inline bool run_open(const char *name, struct run *r)
{
    char folder[100], file[120];
    memset(r, 0, sizeof *r);
    snprintf(folder, sizeof folder, "trainer/%s", name);
    snprintf(file, sizeof file, "%s/run.safetensors", folder);
    r->masked = !strcmp(name, "masked") || !strcmp(name, "untied") || !strcmp(name, "next");
    return run_open_file(folder, file, r);
}

static inline void run_close(struct run *r)
{
    free(r->offsets);
    free(r->ids);
    free(r->labels);
    free(r->types);
    free(r->next);
    free(r->values);
    free(r->loss);
    free(r->norm);
    free(r->rate);
    safetensors_close(&support_host, &r->file);
}

/* One step's sequences as `count` batches, and its targets. */
struct run_step {
    wherry_batch batches[BATCHES_MOST];
    uint32_t offsets[BATCHES_MOST][ROWS_MOST + 1];
    wherry_targets targets;
};

static inline void run_step_make(const struct run *r, size_t step, size_t count, struct run_step *out)
{
    const uint32_t *offsets = r->offsets + step * (r->rows + 1);
    const int32_t *ids = r->ids;
    for (size_t s = 0; s < step; s++) ids += r->offsets[s * (r->rows + 1) + r->rows];
    for (size_t b = 0; b < count; b++) {
        size_t first = r->rows * b / count, end = r->rows * (b + 1) / count;
        for (size_t i = first; i <= end; i++) out->offsets[b][i - first] = offsets[i] - offsets[first];
        out->batches[b] = (wherry_batch){.struct_size = sizeof *out->batches,
                                         .sequences = (uint32_t)(end - first),
                                         .offsets = out->offsets[b],
                                         .ids = ids + offsets[first],
                                         .types = r->types ? r->types + (ids - r->ids) + offsets[first] : NULL,
                                         .next = r->next ? r->next + step * r->rows + first : NULL};
    }
    out->targets = (wherry_targets){.struct_size = sizeof out->targets, .count = r->targets};
    if (r->labels) out->targets.labels = r->labels + (r->masked ? (size_t)(ids - r->ids) : step * r->targets);
    if (r->masked) out->targets.count = offsets[r->rows];
    if (r->values) out->targets.values = r->values + step * r->targets;
}

/* A mixture of experts for a run's texts, of NomicBERT: experts' weights go over several
 * buckets of 4 KiB. */
static inline wherry_model_config run_mixture(void)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 2,
                                 .hidden = 16,
                                 .heads = 2,
                                 .feed_forward = 24,
                                 .vocabulary = 300,
                                 .positions = 64,
                                 .token_types = 2,
                                 .activation = WHERRY_ACTIVATION_GELU,
                                 .epsilon = 1e-12f,
                                 .rotary_base = 100,
                                 .experts = 5,
                                 .chosen_experts = 2,
                                 .experts_every = 2};
}

static const wherry_training_desc no_dropout = {.struct_size = sizeof no_dropout};

/* As golden/make_trainer.py has it. */
static inline void run_descs(const char *name, wherry_session_desc *session, wherry_loss_desc *loss,
                             wherry_optimizer_desc *optimizer)
{
    bool classes = !strcmp(name, "classes"), contrastive = !strcmp(name, "contrastive"),
         cosent = !strcmp(name, "cosent"), untied = !strcmp(name, "untied"), next = !strcmp(name, "next"),
         masked = untied || next || !strcmp(name, "masked");
    *session = (wherry_session_desc){.struct_size = sizeof *session,
                                     .max_tokens = 200,
                                     .max_sequences = ROWS_MOST,
                                     .dtype = WHERRY_DTYPE_F32,
                                     .output = classes ? WHERRY_OUTPUT_CLASSES : WHERRY_OUTPUT_EMBEDDING,
                                     .training = &no_dropout};
    *loss = (wherry_loss_desc){.struct_size = sizeof *loss,
                               .loss = classes       ? WHERRY_LOSS_CLASSES
                                       : contrastive ? WHERRY_LOSS_CONTRASTIVE
                                       : cosent      ? WHERRY_LOSS_COSENT
                                       : next        ? WHERRY_LOSS_MASKED_NEXT
                                       : masked      ? WHERRY_LOSS_MASKED
                                                     : WHERRY_LOSS_VECTORS,
                               .columns = contrastive ? 3 : 0};
    *optimizer = (wherry_optimizer_desc){.struct_size = sizeof *optimizer,
                                         .kind = WHERRY_OPTIMIZER_ADAMW,
                                         .learning_rate = 1e-3f,
                                         .epsilon = 1e-3f,
                                         .weight_decay = contrastive || masked ? 0.01f
                                                         : cosent              ? 0.1f
                                                                               : 0,
                                         .max_norm = cosent ? 0 : 1,
                                         .schedule = cosent ? WHERRY_SCHEDULE_COSINE : WHERRY_SCHEDULE_LINEAR,
                                         .warmup_steps = RUN_WARMUP,
                                         .total_steps = RUN_STEPS};
    if (cosent) optimizer->learning_rate = 2e-3f;
    if (untied || (!classes && !contrastive && !cosent && !masked)) {
        optimizer->kind = WHERRY_OPTIMIZER_SGD;
        optimizer->learning_rate = 5e-2f;
        optimizer->weight_decay = 0.01f;
        optimizer->momentum = 0.9f;
        optimizer->max_norm = untied ? 1 : 0.5f;
        if (!untied) optimizer->schedule = WHERRY_SCHEDULE_CONSTANT;
    }
}

/* The norm of the difference of the largest kind, by the norm of the weight. `name`: of the weight that it is of. */
static inline double run_difference(const struct run *r, wherry_trainer *trainer, char name[160])
{
    double most = 0;
    for (size_t w = 0; w < wherry_trainer_weight_count(trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        char key[200];
        double difference = 0, square = 0;
        if (wherry_trainer_weight_describe(trainer, w, &info)) return INFINITY;
        if (info.frozen) continue;
        snprintf(key, sizeof key, "after/%s", info.name);
        float *want = run_values(r, key, NULL), *have = malloc((size_t)info.elements * sizeof *have);
        bool ok = want && !wherry_trainer_weight_read(trainer, w, have, (size_t)info.elements);
        for (uint64_t i = 0; ok && i < info.elements; i++) {
            difference += pow((double)have[i] - (double)want[i], 2);
            square += pow((double)want[i], 2);
        }
        free(want);
        free(have);
        double relative = ok ? sqrt(difference / square) : INFINITY;
        if (!(relative <= most)) {
            most = relative;
            memcpy(name, info.name, 160);
        }
    }
    return most;
}

#endif
