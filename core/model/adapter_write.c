/* PEFT's adapter files, written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/adapter.h"
#include "model/safetensors_write.h"

void adapter_name(const struct wherry_model *model, bool bare, const char *module, const char *ending, char *out,
                  size_t size)
{
    const char *prefix = model_tensor_prefix(model);
    const size_t n = strlen(prefix);
    if (bare && n && !strncmp(module, prefix, n)) module += n;
    snprintf(out, size, "base_model.model.%s%s", module, ending);
}

bool adapter_config_write(const struct wherry_model *model, const struct adapter_settings *settings,
                          const json_t *targets, const json_t *saved, const char *task, const struct new_folder *folder,
                          struct error *e)
{
    const double alpha = (double)settings->alpha;
    json_t *number = alpha == floor(alpha) ? json_integer((json_int_t)alpha) : json_real(alpha);
    json_t *json = json_pack("{s:s, s:s?, s:s?, s:b, s:i, s:o, s:f, s:O, s:O, s:b, s:s, s:b, s:b, s:b}", "peft_type",
                             "LORA", "task_type", task, "base_model_name_or_path", model->folder, "inference_mode", 1,
                             "r", (int)settings->rank, "lora_alpha", number, "lora_dropout", 0.0, "target_modules",
                             targets, "modules_to_save", saved, "use_rslora", settings->root, "bias", "none",
                             "fan_in_fan_out", 0, "use_dora", 0, "init_lora_weights", 1);
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    bool ok = text ? new_file_write(folder, "adapter_config.json", text, strlen(text), e)
                   : fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "no memory for adapter_config.json");
    free(text); /* jansson takes it from malloc */
    json_decref(json);
    return ok;
}

bool adapter_weights_begin(const struct new_folder *folder, const struct adapter_entry *entries, size_t count,
                           const struct host *host, struct new_file *out, struct error *e)
{
    struct safetensors_entry *list = host_alloc(host, count, sizeof *list, e);
    if (!list) return false;
    for (size_t i = 0; i < count; i++) {
        const struct adapter_entry *from = &entries[i];
        list[i] = (struct safetensors_entry){
            .name = from->name, .dtype = "F32", .rank = from->rank, .shape = {from->shape[0], from->shape[1]}};
        list[i].bytes = sizeof(float) * from->shape[0] * (from->rank == 2 ? from->shape[1] : 1);
    }
    bool ok = safetensors_begin(folder, "adapter_model.safetensors", list, count, out, e);
    host_free(host, list);
    return ok;
}
