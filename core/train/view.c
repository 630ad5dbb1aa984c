/* The trained model on the host, and the session that computes with it without dropout. */
#include <string.h>

#include "runtime/create.h"
#include "runtime/weights.h"
#include "train/trainer.h"

/* ---- the weights on the host ---- */

static uint64_t trained_elements(const struct wherry_trainer *t)
{
    const size_t gradients = wherry_gradient_count(t->session);
    uint64_t n = 0;
    for (size_t g = 0; g < gradients; g++)
        if (!t->weights.gradients[g].frozen) n += t->weights.elements[g];
    for (size_t i = 0; t->lora && i < t->lora->count; i++) n += t->lora->layers[i].rows * t->lora->layers[i].columns;
    return n;
}

static void part_set(struct wherry_model *model, int layer, enum weight weight, int part, const float *at, uint64_t n)
{
    model->weights[layer + 1][weight][part] =
        (struct weight_part){.memory = at, .type = WEIGHT_TYPE_F32, .elements = n};
}

/* Frozen weights, and those that the session does not train, stay where the model has them. Behind the trained ones are
 * those that have an adapter. */
static bool view_make(struct wherry_trainer *t, struct error *e)
{
    const struct host *host = &t->context->host;
    size_t rows = (size_t)t->model->info.config.layers + 1;
    uint64_t elements = trained_elements(t);
    if (t->view.model) return true;
    if (elements > SIZE_MAX / sizeof(float))
        return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "the weights are too large for this process");
    struct wherry_model *model = host_alloc(host, 1, sizeof *model, e);
    void *weights = model ? host_alloc(host, rows, sizeof *model->weights, e) : NULL;
    float *memory = weights ? host_alloc_unset(host, (size_t)elements, sizeof *memory, e) : NULL;
    if (!memory) {
        host_free(host, weights);
        host_free(host, model);
        return false;
    }
    *model = *t->model;
    model->weights = weights;
    memcpy(weights, t->model->weights, rows * sizeof *model->weights);
    float *at = memory;
    for (size_t w = 0; w < t->weights.count; w++) {
        const struct trained_weight *trained = &t->weights.of[w];
        if (trained->info.frozen || trained->adapts) continue;
        part_set(model, trained->layer, trained->weight, trained->part, at, trained->info.elements);
        at += trained->info.elements;
    }
    for (size_t i = 0; t->lora && i < t->lora->count; i++) {
        const struct lora_layer *l = &t->lora->layers[i];
        part_set(model, l->layer, l->weight, l->part, at, l->rows * l->columns);
        at += l->rows * l->columns;
    }
    t->view.model = model;
    t->view.memory = memory;
    return true;
}

bool view_refresh(struct wherry_trainer *t, struct error *e)
{
    TRY(view_make(t, e));
    if (t->view.fresh) return true;
    const size_t gradients = wherry_gradient_count(t->session);
    float *at = t->view.memory;
    for (size_t g = 0; g < gradients; g++) {
        size_t n = (size_t)t->weights.elements[g];
        if (t->weights.gradients[g].frozen) continue;
        TRY(optimizer_tensor_read(t->optimizer, OPTIMIZER_MASTER, g, at, n, e));
        at += n;
    }
    for (size_t i = 0; t->lora && i < t->lora->count; i++) {
        TRY(lora_merged(t, i, at, e));
        at += t->lora->layers[i].rows * t->lora->layers[i].columns;
    }
    t->view.fresh = true;
    return true;
}

void view_stale(struct wherry_trainer *t) { t->view.fresh = t->view.session_fresh = false; }

/* ---- the session ---- */

static bool session_make(struct wherry_trainer *t, struct error *e)
{
    wherry_session_desc desc = t->session_desc;
    if (t->view.session) return true;
    desc.training = NULL;
    desc.layouts = NULL; /* some are for training alone */
    desc.max_tokens = t->session->limits.tokens;
    desc.max_sequences = t->session->limits.sequences;
    desc.max_length = t->session->max_length;
    desc.dtype = session_dtype(t->session);
    return session_create(t->context, t->device, t->view.model, &desc, false, &t->view.session, e);
}

bool view_session(struct wherry_trainer *t, struct error *e)
{
    TRY(view_refresh(t, e) && session_make(t, e));
    if (t->view.session_fresh) return true;
    struct wherry_session *s = t->view.session;
    bool ok = s->prepared ? session_weights(s, NULL, NULL, e) : !wherry_session_prepare(s, NULL, NULL, NULL);
    t->view.session_fresh = ok;
    return ok;
}

void view_destroy(struct wherry_trainer *t)
{
    const struct host *host = &t->context->host;
    wherry_session_destroy(t->view.session);
    if (t->view.model) host_free(host, t->view.model->weights);
    host_free(host, t->view.model);
    host_free(host, t->view.memory);
}
