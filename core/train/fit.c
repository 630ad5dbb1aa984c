/* How many layers of a trainer keep the least for the backward pass, so that all of it is within the memory's budget.
 */
#include "base/number.h"
#include "runtime/session.h"
#include "train/trainer.h"

struct fit {
    const struct wherry_trainer *of;
    const wherry_session_desc *session;
    const wherry_trainer_desc *desc;
};

/* Device bytes of the trainer whose first `layers` layers keep the least: of one that is planned and not made. The
 * budget is no session's then: the error would name a batch that fits alone. */
static bool bytes_of(const struct fit *f, uint32_t layers, uint64_t *bytes, struct error *e)
{
    const struct wherry_trainer *of = f->of;
    wherry_training_desc training = of->training;
    wherry_session_desc session = *f->session;
    wherry_train_memory memory;
    training.least_layers = layers;
    session.training = &training;
    session.memory_budget = UINT64_MAX;
    struct wherry_trainer *t = host_alloc(&of->context->host, 1, sizeof *t, e);
    if (!t) return false;
    t->context = of->context;
    t->device = of->device;
    t->model = of->model;
    t->planned = t->fitted = true;
    bool ok = trainer_make(t, &session, f->desc, e);
    if (ok) {
        trainer_memory(t, &memory);
        *bytes = memory.total;
    }
    wherry_trainer_destroy(t);
    return ok;
}

/* The fewest layers that are enough; at most `layers` of the model, with which it is known to be. */
static bool fewest(const struct fit *f, uint32_t layers, uint64_t budget, uint32_t *out, struct error *e)
{
    uint32_t low = 1, high = layers; /* none is not enough */
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

bool trainer_fit(struct wherry_trainer *t, const wherry_session_desc *session, const wherry_trainer_desc *desc,
                 struct error *e)
{
    const struct fit f = {t, session, desc};
    const uint32_t layers = t->model->info.config.layers;
    const uint64_t device = t->device->backend->limits(t->device->handle)->memory_bytes;
    const uint64_t budget = session->memory_budget ? session->memory_budget : device;
    uint64_t bytes, least;
    t->fitted = true;
    if (!budget || t->training.save != WHERRY_SAVE_DEFAULT || t->training.least_layers || !layers) return true;
    TRY(bytes_of(&f, 0, &bytes, e));
    if (bytes <= budget) return true;
    TRY(bytes_of(&f, layers, &least, e));
    if (least > budget)
        return fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
                    "training in batches of at most %u tokens takes %llu bytes of device memory, and %llu where all "
                    "layers keep the least for the backward pass; the budget is %llu: make batches smaller, which adds "
                    "up gradients of several of them, or train adapters alone",
                    session->max_tokens, (unsigned long long)bytes, (unsigned long long)least,
                    (unsigned long long)budget);
    TRY(fewest(&f, layers, budget, &t->training.least_layers, e));
    return true;
}

bool trainer_fit_note(const struct wherry_trainer *t, uint32_t asked, struct error *e)
{
    const uint32_t chosen = t->training.least_layers;
    if (chosen == asked) return true;
    return session_note(t->session, e,
                        "%u of %u layers keep the least for the backward pass, and compute the rest again: else "
                        "training would take more than the memory's budget",
                        chosen, t->model->info.config.layers);
}
