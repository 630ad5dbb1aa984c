/* Trainers: how one is made, and what it tells of itself. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/create.h"
#include "train/schedule.h"

/* Rows that are compared with each other, where nobody says how many: a matrix of their scores has so many squared. */
enum { COUPLED_ROWS = 1024 };

/* ---- what is asked for ---- */

static bool descs_check(const wherry_session_desc *session, const wherry_trainer_desc *desc, struct error *e)
{
    const wherry_loss_desc *loss = desc->loss;
    const wherry_optimizer_desc *o = desc->optimizer;
    if (!loss || !o || loss->struct_size != sizeof *loss || o->struct_size != sizeof *o)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_trainer_desc: loss or optimizer is NULL, or their struct_size is not %zu and %zu",
                    sizeof *loss, sizeof *o);
    if (session->struct_size != sizeof *session ||
        (session->training && session->training->struct_size != sizeof *session->training))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_session_desc.struct_size or its training's is not %zu and %zu", sizeof *session,
                    sizeof *session->training);
    if (session->only || session->keep_intermediates || (session->training && session->training->stack))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "a trainer's session is of a whole model: only, keep_intermediates and stack are not for it");
    if (loss->loss < WHERRY_LOSS_CONTRASTIVE || loss->loss > WHERRY_LOSS_MASKED_NEXT)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_loss", (int)loss->loss);
    if ((unsigned)o->kind > WHERRY_OPTIMIZER_SGD)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%d is not a value of wherry_optimizer", (int)o->kind);
    if (!(o->learning_rate > 0) || !isfinite(o->learning_rate))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "wherry_optimizer_desc.learning_rate is not a number over 0: 2e-5 is usual for fine-tuning");
    const float fractions[] = {o->beta1, o->beta2, o->momentum};
    for (int i = 0; i < 3; i++)
        if (!(fractions[i] >= 0 && fractions[i] < 1))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "wherry_optimizer_desc: beta1, beta2 and momentum are from 0 to, and without, 1");
    const float sizes[] = {o->epsilon, o->weight_decay, o->max_norm, o->loss_scale, o->layer_decay};
    for (int i = 0; i < 5; i++)
        if (!(sizes[i] >= 0) || !isfinite(sizes[i]))
            return fail(
                e, WHERRY_STATUS_INVALID_ARGUMENT,
                "wherry_optimizer_desc: epsilon, weight_decay, max_norm, loss_scale and layer_decay are numbers "
                "that are not negative");
    return schedule_check(o, e);
}

static bool text_copy(struct wherry_trainer *t, int at, const char **text, struct error *e)
{
    if (!*text) return true;
    *text = t->texts[at] = host_strdup(&t->context->host, *text, e);
    return *text != NULL;
}

static bool descs_copy(struct wherry_trainer *t, const wherry_session_desc *session, const wherry_trainer_desc *desc,
                       struct error *e)
{
    const struct host *host = &t->context->host;
    const wherry_training_desc plain = {.struct_size = sizeof plain};
    t->session_desc = *session;
    t->training = session->training ? *session->training : plain;
    t->session_desc.training = &t->training;
    t->optimizer_desc = *desc->optimizer;
    t->optimizer_desc.frozen = NULL; /* their names are in the list of weights */
    t->loss_kind = desc->loss->loss;
    t->seed = desc->seed;
    if (trainer_masked(t))
        t->session_desc.output = trainer_next(t) ? WHERRY_OUTPUT_ENTROPY_NEXT : WHERRY_OUTPUT_ENTROPY;
    t->columns = trainer_masked(t)     ? 1
                 : desc->loss->columns ? desc->loss->columns
                                       : loss_columns((enum loss_kind)(desc->loss->loss - 1));
    t->coupled = t->columns > 1 || t->loss_kind == WHERRY_LOSS_COSENT;
    if (!text_copy(t, 0, &t->session_desc.plan, e) || !text_copy(t, 1, &t->session_desc.kernels, e) ||
        !text_copy(t, 2, &t->session_desc.tuning, e) || !text_copy(t, 3, &t->session_desc.layouts, e))
        return false;
    if (t->loss_kind != WHERRY_LOSS_CLASSES || !desc->loss->class_weights) return true;
    size_t labels = t->model->info.config.labels;
    float *weights = host_alloc(host, labels, sizeof *weights, e);
    if (weights) memcpy(weights, desc->loss->class_weights, labels * sizeof *weights);
    t->class_weights = weights;
    return weights != NULL;
}

/* Whether the session gives what the loss takes. */
static bool output_check(const struct wherry_trainer *t, struct error *e)
{
    bool classes = t->loss_kind >= WHERRY_LOSS_CLASSES;
    if (trainer_masked(t)) return true;
    if (classes && t->model->word_row)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "this model's score is made by two words of its vocabulary, and no weights of a classifier: take "
                    "its form for sequence classification");
    wherry_output output = t->session_desc.output;
    if (classes == (output == WHERRY_OUTPUT_CLASSES || output == WHERRY_OUTPUT_TOKEN_CLASSES) &&
        (classes || output == WHERRY_OUTPUT_EMBEDDING))
        return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                classes ? "this loss is of class scores: set wherry_session_desc.output to WHERRY_OUTPUT_CLASSES or "
                          "WHERRY_OUTPUT_TOKEN_CLASSES, of a model that has a classifier"
                        : "this loss is of embeddings: leave wherry_session_desc.output WHERRY_OUTPUT_EMBEDDING");
}

/* ---- its parts ---- */

static bool optimizer_make(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e)
{
    static const enum optimizer_kind kinds[] = {OPTIMIZER_ADAMW, OPTIMIZER_LAMB, OPTIMIZER_SGD};
    const wherry_optimizer_desc *d = &t->optimizer_desc;
    const struct optimizer_options options = {.kind = kinds[d->kind],
                                              .beta1 = d->beta1 > 0 ? (double)d->beta1 : 0.9,
                                              .beta2 = d->beta2 > 0 ? (double)d->beta2 : 0.999,
                                              .epsilon = d->epsilon > 0                     ? (double)d->epsilon
                                                         : d->kind == WHERRY_OPTIMIZER_LAMB ? 1e-6
                                                                                            : 1e-8,
                                              .weight_decay = (double)d->weight_decay,
                                              .momentum = (double)d->momentum,
                                              .max_norm = (double)d->max_norm,
                                              .tensors = t->weights.gradients,
                                              .count = t->weights.n_gradients,
                                              .loss_scale = (double)d->loss_scale,
                                              .accumulates = sharding_accumulates(desc),
                                              .sums = sharding_sums(desc),
                                              .planned = t->planned,
                                              .adapters = t->lora ? t->lora->adapters : NULL};
    return (t->optimizer = optimizer_create(t->session, &options, e)) != NULL;
}

/* Nothing to make: the session's graph has the loss. */
static bool masked_options(struct wherry_trainer *t, const wherry_loss_desc *d, struct error *e)
{
    t->targets_each = 1;
    t->max_rows = (size_t)t->session->limits.tokens;
    return (d->scale == 0 && !d->symmetric && d->columns <= 1 && !d->class_weights && d->positive_weight == 0 &&
            !d->n_dimensions) ||
           fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "the loss of masked tokens has no scale, columns, weights or dimensions: leave them out");
}

static bool loss_make(struct wherry_trainer *t, const wherry_trainer_desc *desc, struct error *e)
{
    const wherry_loss_desc *d = desc->loss;
    const struct loss_options options = {.kind = (enum loss_kind)(d->loss - 1),
                                         .scale = d->scale,
                                         .symmetric = d->symmetric,
                                         .columns = t->columns,
                                         .dimensions = d->dimensions,
                                         .dimension_weights = d->dimension_weights,
                                         .n_dimensions = d->n_dimensions,
                                         .class_weights = d->class_weights,
                                         .positive_weight = d->positive_weight,
                                         .planned = t->planned};
    if (trainer_masked(t)) return masked_options(t, d, e);
    size_t most = t->rows_of_tokens ? t->session->limits.tokens : t->session->limits.sequences;
    t->max_rows = desc->max_rows ? desc->max_rows : t->coupled && most > COUPLED_ROWS ? COUPLED_ROWS : most;
    if (!t->coupled && t->max_rows > most) t->max_rows = most; /* they are taken batch by batch */
    t->max_rows = t->max_rows / t->columns * t->columns;
    t->targets_each = loss_targets_each(options.kind, t->row_floats);
    return (t->loss = loss_create(t->device, &options, t->max_rows, t->row_floats, e)) != NULL;
}

static bool handover_make(struct wherry_trainer *t, struct error *e)
{
    if (t->planned || !t->loss) return true;
    return (t->handover = handover_create(t->session, t->loss, t->optimizer, e)) != NULL;
}

bool trainer_make(struct wherry_trainer *t, const wherry_session_desc *session, const wherry_trainer_desc *desc,
                  struct error *e)
{
    const struct graph *g;
    TRY(descs_check(session, desc, e) && sharding_check(desc, e) && descs_copy(t, session, desc, e) &&
        output_check(t, e));
    TRY(session_create(t->context, t->device, t->model, &t->session_desc, false, &t->session, e));
    t->session->divides = desc->exchange && desc->exchange->processes > 1;
    g = &t->session->graph;
    t->row_floats = tensor_row_length(g, g->output);
    t->rows_of_tokens = trainer_masked(t) || strchr(g->tensors[g->output].dims, 'j') != NULL;
    return trained_weights_create(t->session, desc->optimizer, &t->weights, e) && lora_plan(t, desc->lora, e) &&
           loss_make(t, desc, e) && optimizer_make(t, desc, e) && lora_begin(t, desc->lora, e) && handover_make(t, e) &&
           (t->planned || sharding_make(t, desc, e));
}

void wherry_trainer_destroy(wherry_trainer *t)
{
    if (!t) return;
    const struct host *host = &t->context->host;
    view_destroy(t);
    sharding_destroy(t);
    handover_destroy(t->handover);
    loss_destroy(t->loss);
    optimizer_destroy(t->optimizer);
    lora_destroy(t);
    wherry_session_destroy(t->session);
    trained_weights_destroy(host, &t->weights);
    host_free(host, (void *)t->class_weights);
    for (size_t i = 0; i < sizeof t->texts / sizeof *t->texts; i++) host_free(host, t->texts[i]);
    host_free(host, t->rows);
    host_free(host, t);
}

wherry_session *wherry_trainer_session(wherry_trainer *trainer) { return trainer ? trainer->session : NULL; }
size_t wherry_trainer_row_floats(const wherry_trainer *trainer) { return trainer ? trainer->row_floats : 0; }
uint64_t wherry_trainer_steps(const wherry_trainer *trainer) { return trainer ? trainer->step : 0; }
