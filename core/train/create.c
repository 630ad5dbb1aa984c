/* Creates trainers: within the memory's budget, by how many layers keep the least for the backward pass. */
#include "train/trainer.h"

struct fit {
    const struct wherry_trainer *of; /* not made yet */
    const wherry_session_desc *session;
    const wherry_trainer_desc *desc;
};

/* Makes it, with so many layers that keep the least. */
static bool make_with(struct wherry_trainer *t, const struct fit *f, uint32_t layers, uint64_t budget, struct error *e)
{
    const wherry_training_desc plain = {.struct_size = sizeof plain};
    wherry_session_desc session = *f->session;
    wherry_training_desc training = session.training ? *session.training : plain;
    training.least_layers = layers;
    session.training = &training;
    session.memory_budget = budget;
    return trainer_make(t, &session, f->desc, e);
}

/* Device bytes of such a trainer: of one that is planned alone. A budget is its session's, by the session's bytes. */
static bool bytes_within(const struct fit *f, uint32_t layers, uint64_t budget, uint64_t *bytes, struct error *e)
{
    wherry_train_memory memory;
    struct wherry_trainer *t = host_alloc(&f->of->context->host, 1, sizeof *t, e);
    if (!t) return false;
    t->context = f->of->context;
    t->device = f->of->device;
    t->model = f->of->model;
    t->planned = true;
    bool ok = make_with(t, f, layers, budget, e);
    if (ok) {
        trainer_memory(t, &memory);
        *bytes = memory.total;
    }
    wherry_trainer_destroy(t);
    return ok;
}

static bool bytes_of(const struct fit *f, uint32_t layers, uint64_t *bytes, struct error *e)
{
    return bytes_within(f, layers, UINT64_MAX, bytes, e);
}

/* The fewest layers that are enough; all are known to be, none not to be. */
static bool fewest(const struct fit *f, uint32_t all, uint64_t budget, uint32_t *out, struct error *e)
{
    uint32_t low = 1, high = all;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        uint64_t bytes;
        TRY(bytes_of(f, middle, &bytes, e));
        if (bytes <= budget)
            high = middle;
        else
            low = middle + 1;
    }
    *out = low;
    return true;
}

static bool fit(const struct fit *f, uint32_t *layers, struct error *e)
{
    const uint32_t all = f->of->model->info.config.layers;
    const uint64_t device = f->of->device->backend->limits(f->of->device->handle)->memory_bytes;
    const uint64_t budget = f->session->memory_budget ? f->session->memory_budget : device;
    uint64_t bytes, least;
    if (!budget || !all) return true;
    TRY(bytes_of(f, 0, &bytes, e));
    if (bytes <= budget) return true;
    TRY(bytes_of(f, all, &least, e));
    if (least > budget) {
        TRY(bytes_within(f, all, budget, &least, e)); /* where the session alone is too large, it says what would fit */
        return fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
                    "training in batches of at most %u tokens takes %llu bytes of device memory, and %llu where all "
                    "layers keep the least for the backward pass; the budget is %llu: make batches smaller, which adds "
                    "up gradients of several of them, or train adapters alone",
                    f->session->max_tokens, (unsigned long long)bytes, (unsigned long long)least,
                    (unsigned long long)budget);
    }
    return fewest(f, all, budget, layers, e);
}

static bool make(struct wherry_trainer *t, const wherry_session_desc *session, const wherry_trainer_desc *desc,
                 struct error *e)
{
    const struct fit f = {t, session, desc};
    const wherry_training_desc *training = session->training;
    uint32_t layers = 0;
    /* Other libraries' descriptors are refused when it is made. */
    bool ours = session->struct_size == sizeof *session && (!training || training->struct_size == sizeof *training);
    if (!ours || (training && (training->save != WHERRY_SAVE_DEFAULT || training->least_layers)))
        return trainer_make(t, session, desc, e);
    TRY(fit(&f, &layers, e) && make_with(t, &f, layers, session->memory_budget, e));
    return !layers || session_note(t->session, e,
                                   "%u of %u layers keep the least for the backward pass, and compute the rest again: "
                                   "else training would take more than the memory's budget",
                                   layers, t->model->info.config.layers);
}

wherry_status trainer_create(wherry_context *context, wherry_device *device, const wherry_model *model,
                             const wherry_session_desc *session, const wherry_trainer_desc *desc, bool planned,
                             wherry_trainer **out)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!device || !model || !session || !desc || !out || desc->struct_size != sizeof *desc)
        return context_invalid(context,
                               "wherry_trainer_create: an argument is NULL, or wherry_trainer_desc.struct_size is not "
                               "%zu",
                               sizeof *desc);
    struct error *e = context_error(context);
    struct wherry_trainer *t = host_alloc(&context->host, 1, sizeof *t, e);
    if (!t) return context_status(context, false);
    t->context = context;
    t->device = device;
    t->model = model;
    t->planned = planned;
    bool ok = make(t, session, desc, e);
    if (ok)
        *out = t;
    else
        wherry_trainer_destroy(t);
    return context_status(context, ok);
}

wherry_status wherry_trainer_create(wherry_context *context, wherry_device *device, const wherry_model *model,
                                    const wherry_session_desc *session, const wherry_trainer_desc *desc,
                                    wherry_trainer **out)
{
    return trainer_create(context, device, model, session, desc, false, out);
}
