/* sharing: what two sessions of a model have on a device (wherry_device_memory), and what each of them plans.
 *
 *   sharing DEVICE MODEL DTYPE MAX_TOKENS [MAX_TOKENS_OF_THE_SECOND]
 *
 * MODEL a folder, or "config:NAME" for a named shape with random weights; DTYPE f32, f16 or default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

static wherry_context *context;

static void check(wherry_status status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "sharing: %s: %s: %s\n", what, wherry_status_name(status), wherry_last_error(context));
    exit(1);
}

static double used(wherry_device *device)
{
    wherry_device_memory_info info = {.struct_size = sizeof info};
    check(wherry_device_memory(device, &info), "memory");
    return 1e-6 * (double)info.used_bytes;
}

static wherry_model *model_open(const char *name)
{
    wherry_model *model;
    if (strncmp(name, "config:", 7) != 0) {
        check(wherry_model_open(context, name, &model), name);
        return model;
    }
    wherry_model_config config = {.struct_size = sizeof config};
    check(wherry_model_config_named(context, name + 7, &config), name);
    check(wherry_model_create_random(context, &config, 1, &model), name);
    return model;
}

static wherry_session *session_make(wherry_device *device, const wherry_model *model, wherry_dtype dtype,
                                    const char *max_tokens)
{
    const wherry_session_desc desc = {
        .struct_size = sizeof desc, .dtype = dtype, .max_tokens = (uint32_t)strtoul(max_tokens, NULL, 10)};
    wherry_session_plan plan = {.struct_size = sizeof plan};
    wherry_session *made;
    check(wherry_session_create(context, device, model, &desc, &made), "session");
    check(wherry_session_query(made, &plan), "plan");
    printf(
        "a session of %u tokens plans %.1f MB: weights %.1f MB, of which the device has %.1f MB already, and a batch's "
        "%.1f MB\n",
        plan.max_tokens, 1e-6 * (double)plan.device_bytes, 1e-6 * (double)plan.weight_bytes,
        1e-6 * (double)plan.shared_bytes, 1e-6 * (double)plan.activation_bytes);
    check(wherry_session_prepare(made, NULL, NULL, NULL), "prepare");
    printf("the device's sessions have %.1f MB\n", used(device));
    return made;
}

int main(int argc, char **argv)
{
    wherry_device *device;
    if (argc < 5) {
        fprintf(stderr, "usage: sharing DEVICE MODEL DTYPE MAX_TOKENS [MAX_TOKENS_OF_THE_SECOND]\n");
        return 2;
    }
    const wherry_dtype dtype = !strcmp(argv[3], "f32")   ? WHERRY_DTYPE_F32
                               : !strcmp(argv[3], "f16") ? WHERRY_DTYPE_F16
                                                         : WHERRY_DTYPE_DEFAULT;
    check(wherry_context_create(NULL, &context), "context");
    check(wherry_device_open(context, argv[1], &device), argv[1]);
    wherry_model *model = model_open(argv[2]);
    wherry_session *first = session_make(device, model, dtype, argv[4]);
    wherry_session *second = session_make(device, model, dtype, argv[argc > 5 ? 5 : 4]);
    wherry_session_destroy(first);
    wherry_session_destroy(second);
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
    return 0;
}
