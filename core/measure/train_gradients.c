/* When the backward pass has made which gradients. */
#include <wherry/wherry_train_measure.h>

#include "runtime/train.h"
#include "train/trainer.h"

/* Also where it writes to a slice. */
static bool writes(const struct graph *g, const struct group *group, int tensor)
{
    for (int i = 0; i < group->n_writes; i++) {
        int written = group->writes[i];
        while (written >= 0 && written != tensor) written = g->tensors[written].parent;
        if (written == tensor) return true;
    }
    return false;
}

static uint32_t last_group(const struct wherry_session *s, int tensor)
{
    int first = 0, last = s->n_groups - 1;
    while (first < last && !s->groups[first].backward) first++;
    while (last > first && !writes(&s->graph, &s->groups[last], tensor)) last--;
    return (uint32_t)(last - first);
}

static size_t gradients_fill(const struct wherry_trainer *t, wherry_train_gradient *out, size_t room)
{
    const struct wherry_session *s = t->session;
    const size_t table = sharding_table(t);
    size_t n = 0;
    for (size_t i = 0; i < t->weights.n_gradients; i++) {
        const int tensor = session_gradient(s, i);
        if (t->weights.gradients[i].frozen) continue;
        if (n < room)
            out[n] = (wherry_train_gradient){.elements = tensor_elements(&s->graph, &s->limits, tensor),
                                             .rows = i == table ? t->model->info.config.vocabulary : 0,
                                             .group = last_group(s, tensor)};
        n++;
    }
    return n;
}

wherry_status wherry_trainer_gradients(wherry_context *context, wherry_device *device, const wherry_model *model,
                                       const wherry_session_desc *session, const wherry_trainer_desc *desc,
                                       wherry_train_gradient *gradients, size_t *count)
{
    wherry_trainer *trainer = NULL;
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!count) return context_invalid(context, "wherry_trainer_gradients: count is NULL");
    wherry_status status = trainer_create(context, device, model, session, desc, true, &trainer);
    if (status) return status;
    *count = gradients_fill(trainer, gradients, gradients ? *count : 0);
    wherry_trainer_destroy(trainer);
    return WHERRY_STATUS_OK;
}
