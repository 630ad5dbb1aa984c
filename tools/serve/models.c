/* A context, its device, the models on it, and a session for each thing that is asked of them. */
#include "models.h"

#include <stdlib.h>
#include <string.h>
#include <wherry/wherry_measure.h>

#include "clock.h"
#include "complain.h"
#include "names.h"
#include "options.h"
#include "vocabulary.h"

/* ---- the device ---- */

static void log_line(wherry_log_level level, const char *text, void *user)
{
    const struct settings *settings = user;
    if (settings->verbose || (!settings->quiet && level == WHERRY_LOG_WARNING)) complain(0, "%s", text);
}

static int say_why(const struct models *m, wherry_status status, const char *what, int code)
{
    const char *why = m->context ? wherry_last_error(m->context) : "";
    return complain(code, "%s%s%s", what ? what : "", what ? ": " : "", *why ? why : wherry_status_name(status));
}

static uint32_t batch_tokens(const struct models *m)
{
    if (m->settings->batch_tokens) return m->settings->batch_tokens;
    if (!strcmp(m->device_info.id, "reference")) return 1024;
    return m->device_info.type == WHERRY_DEVICE_CPU ? 4096 : 16384;
}

static int open_device(struct models *m)
{
    const struct settings *settings = m->settings;
    const wherry_context_desc desc = {.struct_size = sizeof desc,
                                      .log = log_line,
                                      .user = (void *)settings,
                                      .cache_dir = settings->cache,
                                      .threads = settings->threads,
                                      .low_priority = settings->low_priority};
    wherry_status status = wherry_context_create(&desc, &m->context);
    if (status) return say_why(m, status, "can't start", EXIT_DEVICE);
    status = wherry_device_open(m->context, settings->device, &m->device);
    if (!status) status = wherry_device_describe(m->device, &m->device_info);
    if (status) return say_why(m, status, NULL, EXIT_DEVICE);
    m->batch_tokens = batch_tokens(m);
    bool chosen = settings->device && *settings->device;
    if (!chosen && !settings->quiet && m->device_info.type == WHERRY_DEVICE_CPU)
        complain(0, "there is no usable GPU here (wherry devices tells why): %s computes on the host's cores",
                 m->device_info.id);
    return EXIT_FINE;
}

static bool goes_on(const char *what, size_t done, size_t total, void *user)
{
    const struct models *m = user;
    if (what && !strcmp(what, "compile") && !done && !m->settings->quiet)
        complain(0, "compiling %zu kernels for %s", total, m->device_info.id);
    return true;
}

static int measure_roof(struct models *m)
{
    wherry_roof *roof;
    const wherry_roof_desc desc = {.struct_size = sizeof desc, .only = "dram.copy"};
    if (!m->settings->roof) return EXIT_FINE;
    wherry_status status = wherry_roof_measure(m->device, &desc, NULL, NULL, &roof);
    if (status) return say_why(m, status, "--roof", EXIT_DEVICE);
    const wherry_ceiling *copy = wherry_roof_ceiling(roof, "dram.copy");
    if (copy) m->roof = copy->value;
    wherry_roof_destroy(roof);
    return EXIT_FINE;
}

/* ---- models ---- */

static wherry_pool pool_of(const struct models *m, const struct served *s)
{
    return m->settings->pool ? m->settings->pool : s->info.pool;
}

static int find_kind(const struct models *m, struct served *s)
{
    const wherry_model_info *info = &s->info;
    if (!info->has_tokenizer)
        return complain(EXIT_INPUT, "%s has no tokenizer: put the model's tokenizer.json, or its older files, there",
                        s->folder);
    if (info->config.head == WHERRY_HEAD_TOKENS)
        return complain(EXIT_INPUT,
                        "%s (%s) has classes of tokens, for which there is no route; wherry classify "
                        "--tokens gives them",
                        s->folder, info->architecture);
    /* A language model without its own LogitScore embeds, too: a pooling asks for that. */
    if (info->config.head == WHERRY_HEAD_SEQUENCE && !(m->settings->pool && strstr(info->architecture, "ForCausalLM")))
        s->kind = info->config.labels == 1 ? KIND_RERANKER : KIND_CLASSIFIER;
    else if (info->words && !m->settings->pool)
        s->kind = KIND_SPARSE;
    else if (pool_of(m, s) == WHERRY_POOL_NONE)
        return complain(EXIT_INPUT, "%s has vectors of tokens alone: say by --pool how they become a text's",
                        s->folder);
    return EXIT_FINE;
}

static int find_prompt(const struct models *m, struct served *s)
{
    const char *name = m->settings->prompt && *m->settings->prompt ? m->settings->prompt : NULL;
    wherry_status status = WHERRY_STATUS_OK;
    s->form.struct_size = sizeof s->form;
    if (!m->settings->prompt || name) status = wherry_model_prompt(m->context, s->model, name, &s->prompt);
    if (!status) status = wherry_model_text_form(m->context, s->model, name, &s->form);
    if (!status && s->info.pair_template) { /* of no texts, which says whether the template has a place */
        const wherry_texts_desc desc = {.struct_size = sizeof desc, .instruction = ""};
        wherry_tokens none = {.struct_size = sizeof none};
        s->instructed = !wherry_tokenize_texts(m->context, s->model, NULL, 0, &desc, &none);
        wherry_tokens_free(m->context, &none);
    }
    return status ? say_why(m, status, s->folder, EXIT_INPUT) : EXIT_FINE;
}

static int open_model(struct models *m, struct served *s)
{
    wherry_status status = wherry_model_open(m->context, s->folder, &s->model);
    s->info = (wherry_model_info){.struct_size = sizeof s->info, .config.struct_size = sizeof s->info.config};
    if (!status) status = wherry_model_describe(s->model, &s->info);
    if (status) return say_why(m, status, NULL, EXIT_INPUT);
    int code = find_kind(m, s);
    if (!code) code = find_prompt(m, s);
    if (code) return code;
    s->max_length = m->settings->max_tokens ? m->settings->max_tokens : s->info.max_tokens;
    if (s->max_length > s->info.max_tokens)
        return complain(EXIT_USAGE, "--max-tokens %u: %s takes at most %u", s->max_length, s->folder,
                        s->info.max_tokens);
    if (s->max_length > m->batch_tokens && m->settings->batch_tokens)
        return complain(EXIT_USAGE,
                        "--max-batch-tokens %u is less than the longest text of %s, %u tokens; give "
                        "--max-tokens too",
                        m->batch_tokens, s->folder, s->max_length);
    if (s->max_length > m->batch_tokens) m->batch_tokens = s->max_length;
    s->vocabulary = vocabulary_open(m->context, s->model, &s->info, &status);
    return status ? say_why(m, status, s->folder, EXIT_INPUT) : EXIT_FINE;
}

/* ---- sessions ---- */

/* What a batch moves, by what a text of two lengths does. */
static void count_bytes(struct models *m, struct lane *lane, const wherry_session_desc *session)
{
    const struct served *s = lane->model;
    uint32_t lengths[] = {s->max_length / 4 ? s->max_length / 4 : 1, s->max_length};
    double bytes[2] = {0, 0};
    if (lengths[0] == lengths[1]) return;
    for (int i = 0; i < 2; i++) {
        wherry_analysis *analysis;
        size_t count;
        const wherry_analysis_desc desc = {.struct_size = sizeof desc,
                                           .config = &s->info.config,
                                           .batch = 1,
                                           .length = lengths[i],
                                           .dtype = lane->plan.dtype,
                                           .pool = pool_of(m, s),
                                           .normalize = session->normalize > 0,
                                           .output = lane->output};
        if (wherry_analyze(m->context, &desc, &analysis)) return; /* poolings that it does not count */
        const wherry_cost *groups = wherry_analysis_groups(analysis, &count);
        for (size_t g = 0; g < count; g++) bytes[i] += (double)(groups[g].bytes_read + groups[g].bytes_written);
        wherry_analysis_destroy(analysis);
    }
    lane->bytes_token = (bytes[1] - bytes[0]) / (lengths[1] - lengths[0]);
    lane->bytes_once = bytes[0] - lane->bytes_token * lengths[0];
}

static wherry_session_desc describe(const struct models *m, struct lane *lane, enum lane_kind kind)
{
    enum { SEQUENCES_OF_WORDS = 32 }; /* each result is as wide as the vocabulary */
    const struct served *s = lane->model;
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = m->batch_tokens,
                                .max_length = s->max_length,
                                .dtype = m->settings->dtype,
                                .kernels = m->settings->kernels,
                                .memory_budget = m->settings->memory_budget};
    uint32_t sequences = m->settings->batch_requests;
    if (kind == LANE_EMBED || kind == LANE_RAW) {
        desc.pool = m->settings->pool;
        desc.normalize = kind == LANE_EMBED ? 1 : -1;
    } else if (kind == LANE_TOKENS) {
        desc.pool = WHERRY_POOL_NONE;
        desc.normalize = -1;
    } else if (kind == LANE_CLASSES) {
        desc.output = WHERRY_OUTPUT_CLASSES;
    } else if (s->info.token_weights) {
        desc.output = WHERRY_OUTPUT_SPARSE;
    } else {
        desc.output = WHERRY_OUTPUT_WORDS;
        if (sequences > SEQUENCES_OF_WORDS) sequences = SEQUENCES_OF_WORDS;
    }
    desc.max_sequences = sequences < m->batch_tokens ? sequences : m->batch_tokens;
    return desc;
}

wherry_status models_open_lane(struct models *m, struct lane *lane)
{
    enum lane_kind kind = (enum lane_kind)(lane - lane->model->lanes);
    const wherry_session_desc desc = describe(m, lane, kind);
    wherry_session *session;
    wherry_prepare_info info = {.struct_size = sizeof info};
    lane->plan = (wherry_session_plan){.struct_size = sizeof lane->plan};
    lane->output = desc.output;
    lane->per_token = desc.output == WHERRY_OUTPUT_SPARSE || kind == LANE_TOKENS;
    wherry_status status = wherry_session_create(m->context, m->device, lane->model->model, &desc, &session);
    if (status) return status;
    status = wherry_session_query(session, &lane->plan);
    if (!status) status = wherry_session_prepare(session, goes_on, m, &info);
    if (status) {
        wherry_session_destroy(session);
        return status;
    }
    m->prepare_seconds += info.seconds;
    m->kernels += info.kernels;
    m->kernels_compiled += info.kernels_compiled;
    lane->session = session;
    count_bytes(m, lane, &desc);
    return WHERRY_STATUS_OK;
}

enum task models_natural(const struct served *s)
{
    static const enum task tasks[] = {[KIND_EMBEDDING] = TASK_EMBED,
                                      [KIND_SPARSE] = TASK_EMBED_SPARSE,
                                      [KIND_CLASSIFIER] = TASK_PREDICT,
                                      [KIND_RERANKER] = TASK_RERANK};
    return tasks[s->kind];
}

const char *models_kind_name(const struct served *s)
{
    static const char *const names[] = {"embedding", "embedding", "classifier", "reranker"};
    return names[s->kind];
}

enum lane_kind models_lane(const struct served *s, enum task task, bool raw)
{
    bool embeds = s->kind == KIND_EMBEDDING;
    switch (task) {
    case TASK_EMBED:
    case TASK_SIMILARITY:
        return !embeds ? LANES : raw ? LANE_RAW : LANE_EMBED;
    case TASK_EMBED_ALL:
        return embeds ? LANE_TOKENS : LANES;
    case TASK_EMBED_SPARSE:
        return s->kind == KIND_SPARSE || (embeds && s->info.token_weights) ? LANE_SPARSE : LANES;
    case TASK_RERANK:
        return s->kind == KIND_RERANKER ? LANE_CLASSES : LANES;
    case TASK_PREDICT:
        return s->kind == KIND_RERANKER || s->kind == KIND_CLASSIFIER ? LANE_CLASSES : LANES;
    default:
        return LANES;
    }
}

/* ---- all of it ---- */

static int open_all(struct models *m)
{
    int code = open_device(m);
    for (uint32_t i = 0; !code && i < m->count; i++) code = open_model(m, &m->of[i]);
    for (uint32_t i = 0; !code && i < m->count; i++) {
        struct served *s = &m->of[i];
        struct lane *lane = &s->lanes[models_lane(s, models_natural(s), false)];
        wherry_status status = models_open_lane(m, lane);
        if (status) return say_why(m, status, s->name, EXIT_DEVICE);
        lane->open = true;
    }
    return code ? code : measure_roof(m);
}

int models_open(const struct settings *settings, struct models **out)
{
    struct models *m = need(calloc(1, sizeof *m));
    m->settings = settings;
    m->count = settings->models_count;
    for (uint32_t i = 0; i < m->count; i++) {
        m->of[i].name = settings->models[i].name;
        m->of[i].folder = settings->models[i].folder;
        for (int k = 0; k < LANES; k++) m->of[i].lanes[k].model = &m->of[i];
    }
    int code = open_all(m);
    if (code)
        models_close(m);
    else
        *out = m;
    return code;
}

void models_close(struct models *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct served *s = &m->of[i];
        for (int k = 0; k < LANES; k++) wherry_session_destroy(s->lanes[k].session);
        vocabulary_close(s->vocabulary);
        wherry_model_close(s->model);
    }
    wherry_device_close(m->device);
    wherry_context_destroy(m->context);
    free(m);
}
