/* What is answered without the device. */
#include "pages.h"

#include <string.h>
#include <time.h>

#include "clock.h"
#include "names.h"

/* The engine, or the call's error. */
static struct engine *engine_or_error(struct server *s, struct call *call)
{
    struct engine *engine = server_engine(s);
    if (!engine) call_fail(call, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "no device is open");
    return engine;
}

void page_health(struct server *s, struct call *call, const char *rest)
{
    const char *why = server_unhealthy(s);
    (void)rest;
    if (why)
        call_fail(call, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "%s", why);
    else
        bytes_text(&call->answer, "{\"status\":\"ok\"}");
}

/* ---- /info ---- */

static void write_field(struct bytes *out, const char *name, const char *value)
{
    bytes_format(out, "\"%s\":", name);
    bytes_name(out, value);
    bytes_text(out, ",");
}

static void write_labels(struct bytes *out, const struct served *model)
{
    bytes_text(out, "{\"id2label\":{");
    for (uint32_t n = 0; n < model->info.config.labels; n++) {
        bytes_format(out, "%s\"%u\":", n ? "," : "", n);
        bytes_name(out, wherry_model_label(model->model, n));
    }
    bytes_text(out, "},\"label2id\":{");
    for (uint32_t n = 0; n < model->info.config.labels; n++) {
        if (n) bytes_text(out, ",");
        bytes_name(out, wherry_model_label(model->model, n));
        bytes_format(out, ":%u", n);
    }
    bytes_text(out, "}}");
}

static void write_type(struct bytes *out, const struct served *model, const struct settings *settings)
{
    bytes_format(out, "\"model_type\":{\"%s\":", models_kind_name(model));
    if (model->kind == KIND_EMBEDDING || model->kind == KIND_SPARSE)
        bytes_format(out, "{\"pooling\":\"%s\"}",
                     model->kind == KIND_SPARSE ? "splade"
                                                : pool_name(settings->pool ? settings->pool : model->info.pool));
    else
        write_labels(out, model);
    bytes_text(out, "},");
}

static const char *torch_name(wherry_dtype dtype)
{
    return dtype == WHERRY_DTYPE_F16 ? "float16" : dtype == WHERRY_DTYPE_BF16 ? "bfloat16" : "float32";
}

static void write_sessions(struct bytes *out, struct engine *engine, struct served *model)
{
    static const char *const names[LANES] = {"embed", "embed_unnormalized", "embed_all", "embed_sparse", "predict"};
    bool some = false;
    bytes_text(out, "\"sessions\":[");
    for (int k = 0; k < LANES; k++) {
        wherry_session_plan plan;
        if (!engine_plan(engine, &model->lanes[k], &plan)) continue;
        bytes_format(out,
                     "%s{\"route\":\"%s\",\"plan\":\"%s\",\"dtype\":\"%s\",\"device_bytes\":%llu,\"weight_bytes\":%llu,"
                     "\"activation_bytes\":%llu,\"launches\":%u,\"embedding_size\":%u,\"max_tokens\":%u,"
                     "\"max_sequences\":%u}",
                     some ? "," : "", names[k], plan.plan, dtype_name(plan.dtype),
                     (unsigned long long)plan.device_bytes, (unsigned long long)plan.weight_bytes,
                     (unsigned long long)plan.activation_bytes, plan.launches, plan.embedding_size, plan.max_tokens,
                     plan.max_sequences);
        some = true;
    }
    bytes_text(out, "]");
}

static void write_model(struct bytes *out, struct server *s, struct engine *engine, struct served *model)
{
    const struct settings *settings = server_settings(s);
    wherry_session_plan plan = {.dtype = WHERRY_DTYPE_F32};
    engine_plan(engine, &model->lanes[models_lane(model, models_natural(model), false)], &plan);
    write_field(out, "model_id", model->name);
    bytes_text(out, "\"model_sha\":null,");
    write_field(out, "model_dtype", torch_name(plan.dtype));
    write_field(out, "served_model_name", model->name);
    write_type(out, model, settings);
    bytes_format(
        out,
        "\"max_concurrent_requests\":%u,\"max_input_length\":%u,\"max_batch_tokens\":%u,\"max_batch_requests\":%u,"
        "\"max_client_batch_size\":%u,\"auto_truncate\":%s,\"tokenization_workers\":%u,",
        settings->concurrent, model->max_length, engine_batch_tokens(engine), settings->batch_requests,
        settings->client_batch, settings->truncate ? "true" : "false", server_workers(s));
    write_field(out, "architecture", model->info.architecture);
    bytes_format(out, "\"parameters\":%llu,", (unsigned long long)model->info.parameters);
    write_sessions(out, engine, model);
}

static void write_device(struct bytes *out, struct engine *engine)
{
    const wherry_device_info *device = engine_device(engine);
    struct engine_state state = engine_ask(engine);
    bytes_text(out, "\"device\":{");
    write_field(out, "id", device->id);
    write_field(out, "name", device->name);
    write_field(out, "driver", device->driver);
    write_field(out, "api", device->api);
    write_field(out, "type", device_type_name(device->type));
    bytes_format(out, "\"memory_bytes\":%llu,\"kernels\":%u,\"kernels_compiled\":%u,\"prepare_seconds\":",
                 (unsigned long long)device->memory_bytes, state.kernels, state.kernels_compiled);
    bytes_number(out, state.prepare_seconds);
    bytes_text(out, "},");
}

void page_info(struct server *s, struct call *call, const char *rest)
{
    struct bytes *out = &call->answer;
    struct engine *engine = engine_or_error(s, call);
    (void)rest;
    if (!engine) return;
    bytes_text(out, "{");
    write_model(out, s, engine, engine_model(engine, 0));
    bytes_text(out, ",");
    write_field(out, "version", wherry_version_string());
    bytes_text(out, "\"sha\":null,\"docker_label\":null,");
    write_device(out, engine);
    /* Tokens are made by the host; all that is computed of them by one device, or not at all. */
    bytes_text(out, "\"host_work\":\"tokenization\",\"models\":[");
    for (uint32_t m = 0; m < engine_models(engine); m++) {
        bytes_text(out, m ? ",{" : "{");
        write_model(out, s, engine, engine_model(engine, m));
        bytes_text(out, "}");
    }
    bytes_text(out, "]}");
    engine_drop(engine);
}

/* ---- /v1/models ---- */

static void write_listed(struct bytes *out, struct server *s, const struct served *model)
{
    long long created = (long long)time(NULL) - (long long)(clock_now() - server_started(s));
    bytes_text(out, "{\"id\":");
    bytes_name(out, model->name);
    bytes_format(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"wherry\"}", created);
}

void page_models(struct server *s, struct call *call, const char *rest)
{
    struct bytes *out = &call->answer;
    struct engine *engine = engine_or_error(s, call);
    if (!engine) return;
    bool found = false;
    if (!*rest) bytes_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t m = 0; m < engine_models(engine); m++) {
        const struct served *model = engine_model(engine, m);
        if (*rest && strcmp(rest + 1, model->name) != 0) continue;
        if (found) bytes_text(out, ",");
        write_listed(out, s, model);
        found = true;
    }
    if (!*rest) bytes_text(out, "]}");
    if (!found) call_fail(call, 404, ERROR_VALIDATION, FAILED_VALIDATION, "there is no model \"%.100s\"", rest + 1);
    engine_drop(engine);
}

/* ---- /metrics ---- */

void page_metrics(struct server *s, struct call *call, const char *rest)
{
    struct bytes *out = &call->answer;
    struct metrics *metrics = server_metrics(s);
    struct engine *engine = server_engine(s);
    (void)rest;
    call->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_write(metrics, out);
    double bandwidth = metrics_bandwidth(metrics);
    struct engine_state state = {.lost = true};
    if (engine) {
        state = engine_ask(engine);
        engine_drop(engine);
    }
    metrics_gauge(out, "te_queue_size", "Texts that wait.", state.waiting);
    metrics_gauge(out, "wherry_up", "1: requests are answered.", server_unhealthy(s) ? 0 : 1);
    metrics_gauge(out, "wherry_inference_bytes_per_second", "Bytes a second that the last batches moved, about.",
                  bandwidth);
    if (state.roof > 0) {
        metrics_gauge(out, "wherry_roof_bytes_per_second", "Bytes a second that the device copies, as measured.",
                      state.roof);
        metrics_gauge(out, "wherry_roof_share", "Of them, what the last batches reached.", bandwidth / state.roof);
    }
}
