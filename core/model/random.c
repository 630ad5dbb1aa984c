/* Models of random weights: for benchmarks and tests, and for training from nothing. Every value is a function of
 * (seed, weight, layer, part, element) alone, so the same seed gives the same model on every machine, whatever the
 * number of threads. */
#include <math.h>

#include "base/platform.h"
#include "model/tensor_names.h"
#include "model/weights.h"

enum { JOB_ELEMENTS = 1 << 18 };

/* A run of elements of one part that one thread fills. */
struct job {
    float *to;
    uint64_t key, first, elements;
    float mean, deviation;
};

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose every output bit hangs on every input bit.
 */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Close to normal, mean 0, deviation 1, never beyond 3.47: the sum of four uniform numbers of 16 bits. Integers until
 * the last step, so that all machines agree. */
static float standard(uint64_t bits)
{
    int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                  (int32_t)(bits >> 48);
    return (float)(sum - 131070) * (1.7320508f / 65536.0f); /* four uniforms deviate by sqrt(4 / 12) */
}

static void run_job(size_t item, void *user)
{
    const struct job *job = (const struct job *)user + item;
    for (uint64_t i = 0; i < job->elements; i++) {
        uint64_t bits = mix(job->key + (job->first + i) * 0x9e3779b97f4a7c15u);
        float offset = job->deviation * standard(bits); /* a statement of its own: never fused with the addition */
        job->to[i] = job->mean + offset;
    }
}

/* Norms scale by about 1. */
static float gamma_mean(const struct weight_rule *rule, const wherry_model_config *config)
{
    return rule->kind == WEIGHT_GAMMA && config->norm != WHERRY_NORM_RMS_ONE ? 1.0f : 0.0f;
}

/* Activations keep their size from layer to layer: a matrix's output deviates as its input does, a layernorm's by
 * about 1. */
static void distribution(const struct weight_rule *rule, const wherry_model_config *config, float *mean,
                         float *deviation)
{
    uint64_t shape[2];
    int rank = weight_rule_shape(rule, config, 0, shape);
    bool table = rule->shape[0] == 'v' || rule->shape[0] == 'm' || rule->shape[0] == 't';
    *mean = gamma_mean(rule, config);
    *deviation = rule->kind == WEIGHT_GAMMA ? 0.1f : 0.02f;
    if (rule->weight == WEIGHT_EXPERTS2) shape[rank - 1] = config->feed_forward; /* they lie transposed */
    if (rule->kind == WEIGHT_MATRIX && !table) *deviation = 1.0f / sqrtf((float)shape[rank - 1]);
}

/* As transformers begins: matrices and tables deviate by `range`, biases are 0, layernorms change nothing. */
static void distribution_first(const struct weight_rule *rule, const wherry_model_config *config, float range,
                               float *mean, float *deviation)
{
    *mean = gamma_mean(rule, config);
    *deviation = rule->kind == WEIGHT_MATRIX ? range : 0.0f;
}

/* A number for each part of each weight, the same however many weights there will be. */
static uint64_t place_of(enum weight weight, int layer, int part)
{
    enum { FIRST = 22 }; /* weights that there were when models of a seed were first published */
    uint64_t rows = (uint64_t)(layer + 1), number = (uint64_t)weight;
    return number < FIRST ? (rows * FIRST + number) * 3 + (uint64_t)part : (number << 32) + rows * 3 + (uint64_t)part;
}

static uint64_t part_elements(const struct architecture *a, const struct weight_rule *rule,
                              const wherry_model_config *config, int part)
{
    uint64_t shape[2], elements = 1;
    int rank = weight_shape(a, rule, config, part, shape);
    for (int i = 0; i < rank; i++) elements *= shape[i];
    return elements;
}

/* Counts the jobs and the elements; with `jobs` also fills in the jobs and the model's parts. */
static size_t list_jobs(struct wherry_model *model, uint64_t seed, float range, struct job *jobs, uint64_t *elements)
{
    const wherry_model_config *config = &model->info.config;
    const struct family *family;
    const struct architecture *a = model_architecture(model, &family); /* whose files have what as one matrix */
    size_t count = 0;
    uint64_t at = 0;
    for (size_t r = 0; r < weight_rules_count; r++) {
        const struct weight_rule *rule = &weight_rules[r];
        int layer, end;
        float mean, deviation;
        if (range < 0)
            distribution(rule, config, &mean, &deviation);
        else
            distribution_first(rule, config, range, &mean, &deviation);
        for (weight_rule_layers(rule, config, &layer, &end); layer < end; layer++) {
            if (!weight_rule_in_layer(rule, config, layer)) continue;
            for (int part = 0; part < weight_parts(a, rule, config); part++) {
                uint64_t n = part_elements(a, rule, config, part);
                float *to = jobs ? (float *)model->memory + at : NULL;
                if (jobs)
                    model->weights[layer + 1][rule->weight][part] =
                        (struct weight_part){.memory = to, .type = WEIGHT_TYPE_F32, .elements = n};
                uint64_t place = place_of(rule->weight, layer, part);
                uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15u) ^ mix(place + 1));
                for (uint64_t first = 0; first < n; first += JOB_ELEMENTS, count++) {
                    uint64_t left = n - first;
                    if (!jobs) continue;
                    jobs[count] = (struct job){to + first, key,      first, left < JOB_ELEMENTS ? left : JOB_ELEMENTS,
                                               mean,       deviation};
                }
                at += n;
            }
        }
    }
    *elements = at;
    return count;
}

bool model_fill(struct wherry_model *model, uint64_t seed, float range, struct error *e)
{
    uint64_t elements;
    size_t count = list_jobs(model, seed, range, NULL, &elements);
    if (elements > SIZE_MAX / sizeof(float)) {
        return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "the model is too large for this process: take a smaller one");
    }
    struct job *jobs = host_alloc(&model->host, count, sizeof *jobs, e);
    model->memory = jobs ? host_alloc(&model->host, (size_t)elements, sizeof(float), e) : NULL;
    if (model->memory) {
        list_jobs(model, seed, range, jobs, &elements);
        parallel_for(count, 0, run_job, jobs);
        model->info.parameters = elements;
    }
    host_free(&model->host, jobs);
    return model->memory != NULL;
}

void random_uniform(uint64_t seed, uint64_t place, float bound, float *out, size_t count)
{
    const uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15u) ^ mix(place + 1));
    for (size_t i = 0; i < count; i++) {
        const int32_t number = (int32_t)(mix(key + i * 0x9e3779b97f4a7c15u) >> 40); /* of 24 bits */
        out[i] = bound * ((float)(2 * number + 1 - (1 << 24)) / (float)(1 << 24));
    }
}
