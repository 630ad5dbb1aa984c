/* What a session takes of an earlier tuning. */
#include "runtime/tuned.h"

#include <string.h>

#include "base/round.h"
#include "base/text.h"

struct tuning_key device_tuning_key(const struct wherry_device *device)
{
    const wherry_device_info *info = &device->info;
    return tuning_key(device->backend->name, info->uuid, info->name, info->driver, device->kernels_hash,
                      device->context->host.unoptimized);
}

/* Layers share their orders, so that their number does not count. */
bool session_kind(const struct wherry_session *s, const struct graph_options *options, const char *kernels,
                  char text[LAYOUTS_TEXT], struct error *e)
{
    const wherry_model_config *c = options->config;
    struct text_writer t = text_begin(text, LAYOUTS_TEXT);
    text_add(&t, "%s %s gemm=%s i=%u h=%u u=%u %s activation=%d rows=%llu longest=%llu", s->plan->name,
             s->bf16 ? "bf16" : storage_name(session_type(s)), kernels && *kernels ? kernels : "auto", c->hidden,
             c->heads, c->feed_forward, c->pre_layernorm ? "pre" : "post", (int)c->activation,
             (unsigned long long)power_of_two(s->limits.tokens), (unsigned long long)power_of_two(s->limits.longest));
    if (options->training)
        text_add(&t, " training dropout=%d save=%d products=%u", options->dropout > 0, (int)options->save,
                 options->qkv_parts > 1 ? options->qkv_parts : 1);
    else
        text_add(&t, " inference");
    if (options->least_layers) text_add(&t, " least=%d", options->least_layers);
    if (heads_grouped(c)) text_add(&t, " keys=%u", key_heads(c));
    if (c->head_norms) text_add(&t, " head-norms");
    if (s->int8) text_add(&t, " weights=int8");
    if (options->output) text_add(&t, " output=%d", (int)options->output);
    if (options->pool == WHERRY_POOL_POOLER) text_add(&t, " pooler");
    return !t.cut || fail(e, WHERRY_STATUS_UNSUPPORTED, "this session's kind does not fit a key: %.200s", text);
}

bool session_tuning(struct wherry_session *s, const char *path, struct error *e)
{
    const struct host *host = &s->context->host;
    struct tuning_file file;
    char usual[TUNING_PATH];
    if (!s->device->kernels_hash || (path && !*path) || (!path && !host->cache_dir[0])) return true;
    const struct tuning_key key = device_tuning_key(s->device);
    tuning_path(host->cache_dir, "tuned", &key, usual);
    if (!path) path = usual;
    TRY(tuning_load(host, path, path != usual, &key, &s->tuning, &file, e));
    if (file.refused[0]) return session_note(s, e, "tuned sizes in %.200s are not used: %.280s", path, file.refused);
    if (file.damaged)
        return session_note(s, e, "of the tuned sizes in %.200s %u are not used: their lines are damaged", path,
                            file.damaged);
    if (path != usual && !file.there)
        return session_note(s, e, "tuned sizes in %.200s are not used: there is no such file", path);
    return true;
}
