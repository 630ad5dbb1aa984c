/* Folders of trained models, alone or with what training needs to go on. */
#include "model/model_write.h"
#include "train/checkpoint.h"

/* Heads on tokens' vectors have files of another format, which are copied. */
static bool can_save(const struct wherry_trainer *t, struct error *e)
{
    for (size_t w = 0; w < t->weights.count; w++)
        if (!t->weights.of[w].adapts && t->weights.of[w].weight >= WEIGHT_SPARSE &&
            t->weights.of[w].weight <= WEIGHT_COLBERT_BIAS && !t->weights.of[w].info.frozen)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "%s was trained, and its file can't be written: freeze it (\"%s\")", t->weights.of[w].info.name,
                        t->weights.of[w].info.name);
    return model_write_check(t->model, e);
}

static bool whole_write(struct wherry_trainer *t, const struct new_folder *folder, struct error *e)
{
    return view_refresh(t, e) &&
           model_write(t->model, (const struct weight_part(*)[WEIGHT_COUNT][3])t->view.model->weights, folder, e);
}

static bool save(struct wherry_trainer *t, const char *path, bool adapter, bool state, const void *data, size_t bytes,
                 struct error *e)
{
    struct new_folder folder;
    TRY((adapter || can_save(t, e)) && new_folder_begin(&t->context->host, path, &folder, e));
    bool ok = (adapter ? lora_write(t, &folder, e) : whole_write(t, &folder, e)) &&
              (!state || checkpoint_write(t, &folder, data, bytes, e));
    return new_folder_end(&folder, ok, e);
}

wherry_status wherry_trainer_save(wherry_trainer *trainer, const char *folder)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder) return context_invalid(trainer->context, "wherry_trainer_save: folder is NULL");
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, save(trainer, folder, false, false, NULL, 0, e));
}

wherry_status wherry_trainer_save_adapter(wherry_trainer *trainer, const char *folder)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || !trainer->lora)
        return context_invalid(trainer->context,
                               "wherry_trainer_save_adapter: folder is NULL, or the trainer has no adapters "
                               "(wherry_trainer_desc.lora)");
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, save(trainer, folder, true, false, NULL, 0, e));
}

wherry_status wherry_trainer_save_state(wherry_trainer *trainer, const char *folder, const void *data, size_t bytes)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || (bytes && !data))
        return context_invalid(trainer->context, "wherry_trainer_save_state: folder or data is NULL");
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, save(trainer, folder, trainer->lora, true, data, bytes, e));
}

/* ---- back ---- */

static bool load(struct wherry_trainer *t, const char *folder, void *data, size_t *bytes, struct error *e)
{
    struct checkpoint state;
    struct wherry_model *model = NULL;
    TRY(checkpoint_open(t, folder, &state, e));
    size_t there = checkpoint_data_bytes(&state), room = *bytes;
    bool ok = true;
    *bytes = there;
    if (data) {
        ok = room >= there ||
             fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%.600s has %zu bytes of the caller's, and there is room for %zu",
                  folder, there, room);
        ok = ok && (t->lora || model_open(&t->context->host, folder, &model, e)) &&
             checkpoint_read(t, &state, folder, model, data, e);
    }
    model_close(model);
    checkpoint_close(t, &state);
    return ok;
}

wherry_status wherry_trainer_load_state(wherry_trainer *trainer, const char *folder, void *data, size_t *bytes)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!folder || !bytes)
        return context_invalid(trainer->context, "wherry_trainer_load_state: folder or bytes is NULL");
    struct error *e = context_error(trainer->context);
    return context_status(trainer->context, load(trainer, folder, data, bytes, e));
}
