/* The weights that a session trains, by the names of the model's files, and how each is trained. */
#include "train/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/tensor_names.h"

/* ---- patterns ---- */

bool name_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++, name++;
        } else if (star) { /* the star stands for one character more */
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

/* With or without what stands before all of the encoder's names. */
static bool is_frozen(const struct wherry_model *model, const char *name, const char *pattern)
{
    const char *prefix = model_tensor_prefix(model);
    size_t length = strlen(prefix);
    return name_matches(pattern, name) ||
           (length && !strncmp(name, prefix, length) && name_matches(pattern, name + length));
}

/* ---- rates ---- */

static bool of_embeddings(enum weight weight)
{
    switch (weight) {
    case WEIGHT_WORD:
    case WEIGHT_POSITION:
    case WEIGHT_TYPE:
    case WEIGHT_EMBED_GAMMA:
    case WEIGHT_EMBED_BETA:
    case WEIGHT_PROJECT:
    case WEIGHT_PROJECT_BIAS:
    case WEIGHT_RELATIVE:
        return true;
    default:
        return false;
    }
}

/* The embeddings are below the first layer, all other weights outside the layers above the last one. */
static float rate_of(const wherry_optimizer_desc *desc, uint32_t layers, enum weight weight, int layer)
{
    uint32_t below = layer >= 0 ? layers - (uint32_t)layer : of_embeddings(weight) ? layers + 1 : 0;
    return desc->layer_decay > 0 ? (float)pow((double)desc->layer_decay, below) : 1;
}

/* ---- the list ---- */

static void describe(const struct wherry_session *s, const wherry_optimizer_desc *desc, size_t gradient,
                     struct trained_weight *w)
{
    struct model_tensor t;
    model_tensor(s->model, w->weight, w->layer, w->part, &t);
    w->info = (wherry_weight){.struct_size = sizeof w->info,
                              .layer = w->layer,
                              .shape = {t.shape[0], t.rank == 2 ? t.shape[1] : 0},
                              .elements = t.elements,
                              .gradient = gradient,
                              .decays = desc->decay_all || t.kind == WEIGHT_MATRIX,
                              .rate = rate_of(desc, s->model->info.config.layers, w->weight, w->layer)};
    snprintf(w->info.name, sizeof w->info.name, "%s", t.name);
    for (size_t i = 0; i < desc->n_frozen; i++) w->info.frozen |= is_frozen(s->model, w->info.name, desc->frozen[i]);
}

static bool gradient_add(const struct wherry_session *s, const wherry_optimizer_desc *desc, int tensor,
                         struct trained_weights *out, struct error *e)
{
    const struct tensor *weight = &s->graph.tensors[s->graph.tensors[tensor].gradient_of];
    const struct weight_part *parts;
    int n = model_weight(s->model, weight->weight, weight->layer, &parts);
    size_t gradient = out->n_gradients++;
    uint64_t first = 0;
    for (int part = 0; part < n; part++) {
        struct trained_weight *w = &out->of[out->count++];
        *w = (struct trained_weight){.weight = weight->weight, .layer = weight->layer, .part = part, .first = first};
        describe(s, desc, gradient, w);
        first += w->info.elements;
        if (w->info.frozen != out->of[out->count - 1 - (size_t)part].info.frozen)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "the frozen patterns fit some of the query, key and value of %.150s and not all: these are one "
                        "weight here, so freeze all three or none",
                        w->info.name);
    }
    const wherry_weight *info = &out->of[out->count - 1].info;
    out->elements[gradient] = first;
    out->gradients[gradient] =
        (struct optimizer_tensor){.frozen = info->frozen, .decays = info->decays, .rate_factor = info->rate};
    return first == tensor_elements(&s->graph, &s->limits, tensor) ||
           fail(e, WHERRY_STATUS_BAD_FORMAT, "%s: the model has %llu values, its gradient another number", weight->name,
                (unsigned long long)first);
}

static bool patterns_check(const struct wherry_session *s, const wherry_optimizer_desc *desc,
                           const struct trained_weights *weights, struct error *e)
{
    size_t trained = 0;
    for (size_t i = 0; i < desc->n_frozen; i++) {
        bool fits = false;
        for (size_t w = 0; w < weights->count; w++)
            fits |= is_frozen(s->model, weights->of[w].info.name, desc->frozen[i]);
        if (!fits)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "the frozen pattern \"%.150s\" fits none of the %zu weights that would be trained: one of them "
                        "is %.150s",
                        desc->frozen[i], weights->count, weights->of[weights->count - 1].info.name);
    }
    for (size_t w = 0; w < weights->count; w++) trained += !weights->of[w].info.frozen;
    return trained || fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                           "all %zu weights are frozen: there is nothing left to train", weights->count);
}

bool trained_weights_create(const struct wherry_session *session, const wherry_optimizer_desc *desc,
                            struct trained_weights *out, struct error *e)
{
    const struct host *host = &session->context->host;
    struct trained_weights weights = {0};
    size_t count = wherry_gradient_count(session);
    for (size_t i = 0; i < desc->n_frozen; i++)
        if (!desc->frozen || !desc->frozen[i])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_optimizer_desc.frozen: pattern %zu is NULL", i);
    bool ok = (weights.of = host_alloc(host, 3 * count, sizeof *weights.of, e)) &&
              (weights.gradients = host_alloc(host, count, sizeof *weights.gradients, e)) &&
              (weights.elements = host_alloc(host, count, sizeof *weights.elements, e));
    for (int t = 0; ok && t < session->graph.n_tensors; t++)
        if (session->graph.tensors[t].gradient_of >= 0) ok = gradient_add(session, desc, t, &weights, e);
    ok = ok && patterns_check(session, desc, &weights, e);
    if (ok)
        *out = weights;
    else
        trained_weights_destroy(host, &weights);
    return ok;
}

void trained_weights_destroy(const struct host *host, struct trained_weights *weights)
{
    host_free(host, weights->of);
    host_free(host, weights->gradients);
    host_free(host, weights->elements);
    *weights = (struct trained_weights){0};
}
