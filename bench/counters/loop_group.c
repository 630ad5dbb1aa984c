/* Runs one group of a layer's training step again and again, for as long as a counter of the device needs, and says
 * what its bytes should be. The layer is BERT-large's (post-LN, ReLU, dropout 0.1, f16), as in `wherry bench layer`.
 *
 *   loop_group DEVICE BATCH SEQ PLAN GROUP SECONDS warm|cold [CACHE_BYTES]
 *
 * GROUP is a group's name. "list" prints all groups' bytes and runs none. "-" takes groups from standard input: a line
 * with a name is answered by "ready", the next line starts the loop, which is answered by a line of JSON; so what is
 * counted between those two is the loop alone. `cold` takes several sets of all buffers in turn, so that no run finds
 * in a cache what the one before left there. CACHE_BYTES (default: 50 MB) is what the modelled bytes assume. */
#include "base/platform.h"
#include "plan/traffic.h"
#include "runtime/calls.h"
#include "runtime/encode.h"
#include "runtime/session.h"
#include "runtime/train.h"
#include "wherry/wherry.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = 4 };

static struct {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *sets[MOST_SETS];
    int n_sets;
    struct batch_shape shapes[MOST_SETS];
    double seconds;
    uint64_t cache;
    const char *mode;
} loop;

static int give_up(const char *what, const char *why)
{
    fprintf(stderr, "loop_group: %s: %s\n", what, why);
    return 1;
}

/* ---- setting up ---- */

static wherry_batch layer_batch(uint32_t sequences, uint32_t length)
{
    uint32_t *offsets = calloc((size_t)sequences + 1, sizeof *offsets);
    for (uint32_t i = 0; offsets && i <= sequences; i++) offsets[i] = i * length;
    return (wherry_batch){.struct_size = sizeof(wherry_batch), .sequences = sequences, .offsets = offsets};
}

/* A session whose tensors all have the values of a whole step. */
static bool add_set(const char *plan, const wherry_batch *batch)
{
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f, .stack = true};
    uint32_t tokens = batch->offsets[batch->sequences];
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = tokens,
                                      .max_sequences = batch->sequences,
                                      .max_length = tokens / batch->sequences,
                                      .dtype = WHERRY_DTYPE_F16,
                                      .plan = plan,
                                      .keep_intermediates = true,
                                      .training = &training};
    wherry_session **s = &loop.sets[loop.n_sets];
    struct batch_shape *shape = &loop.shapes[loop.n_sets];
    struct error *e = context_error(loop.context);
    if (wherry_session_create(loop.context, loop.device, loop.model, &desc, s)) return false;
    loop.n_sets++;
    return !wherry_session_prepare(*s, NULL, NULL, NULL) && session_batch(*s, batch, shape, e) &&
           session_random_inputs(*s, shape, e) && session_run(*s, shape, WHERRY_PHASE_ALL, -1, -1, NULL, e);
}

static bool set_up(const char *device, uint32_t sequences, uint32_t length, const char *plan, bool cold)
{
    wherry_model_config config = {.struct_size = sizeof config};
    wherry_batch batch = layer_batch(sequences, length);
    bool ok = batch.offsets && !wherry_device_open(loop.context, device, &loop.device) &&
              !wherry_model_config_named(loop.context, "bert-large", &config);
    config.layers = 1;
    config.vocabulary = config.token_types = 1; /* a stack has no embeddings */
    config.positions = length;
    config.activation = WHERRY_ACTIVATION_RELU;
    config.pooler = false;
    ok = ok && !wherry_model_create_random(loop.context, &config, 1, &loop.model);
    for (int i = 0; ok && i < (cold ? MOST_SETS : 1); i++) ok = add_set(plan, &batch);
    free((void *)(uintptr_t)batch.offsets);
    return ok;
}

static void tear_down(void)
{
    for (int i = 0; i < loop.n_sets; i++) wherry_session_destroy(loop.sets[i]);
    wherry_model_close(loop.model);
    wherry_device_close(loop.device);
    wherry_context_destroy(loop.context);
}

/* ---- a group ---- */

static int group_find(const struct wherry_session *s, const char *name)
{
    for (int i = 0; i < s->n_groups; i++)
        if (!strcmp(s->groups[i].name, name)) return i;
    return -1;
}

/* The group's calls are first, ..., first + count - 1. */
static int calls_find(const struct wherry_session *s, int group, int *count)
{
    int first = 0;
    while (s->call_groups[first] != group) first++;
    for (*count = 0; first + *count < s->n_calls && s->call_groups[first + *count] == group;) ++*count;
    return first;
}

static json_t *pair(uint64_t read, uint64_t written)
{
    return json_pack("{s:I,s:I}", "r", (json_int_t)read, "w", (json_int_t)written);
}

/* What a run of the group should move. */
static json_t *group_json(int group)
{
    const struct wherry_session *s = loop.sets[0];
    wherry_traffic t;
    char variant[64];
    int first = group_first_call(s, group);
    session_traffic(s, &loop.shapes[0], group, loop.cache, &t);
    call_variant(&s->calls[first], variant);
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:I}", "device", s->device->info.id, "group", s->groups[group].name,
                     "kernel", s->calls[first].kernel, "variant", variant, "q", pair(t.unique_read, t.unique_written),
                     "model", pair(t.model_read, t.model_written), "requested",
                     pair(t.requested_read, t.requested_written), "footprint", (json_int_t)t.footprint);
}

static void print_line(json_t *line)
{
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
    printf("\n");
    fflush(stdout);
    json_decref(line);
}

static void list_groups(void)
{
    for (int i = 0; i < loop.sets[0]->n_groups; i++) print_line(group_json(i));
}

struct part {
    struct schedule schedule;
    struct program *program;
    const struct grid *grids;
};

/* The group's steps as a program of their own, in the buffers of a set. */
static bool part_create(struct wherry_session *s, int group, struct part *out, struct error *e)
{
    struct program_info info;
    int count, first = calls_find(s, group, &count);
    out->schedule = s->schedule;
    out->schedule.steps = s->steps + first;
    out->schedule.n_steps = count;
    out->schedule.boundary = 0;
    out->grids = s->grids + first;
    out->program = s->device->backend->program_create(s->device->handle, &out->schedule, NULL, NULL, &info, e);
    return out->program != NULL;
}

static bool part_run(int set, const struct part *part, struct error *e)
{
    struct wherry_session *s = loop.sets[set];
    const struct run run = {.grids = part->grids, .batch = &loop.shapes[set]};
    return s->device->backend->program_run(s->device->handle, part->program, &run, e);
}

/* Runs until the time is over and prints what was done; `wait`: says "ready" and waits for a line before. */
static bool loop_group(const char *name, bool wait)
{
    struct part parts[MOST_SETS] = {0};
    struct error *e = context_error(loop.context);
    char line[256];
    int group = group_find(loop.sets[0], name);
    if (group < 0) return give_up(name, "no such group (\"list\" prints them)"), false;
    bool ok = true;
    for (int i = 0; ok && i < loop.n_sets; i++)
        ok = part_create(loop.sets[i], group, &parts[i], e) && part_run(i, &parts[i], e);
    if (ok && wait) {
        printf("ready\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) ok = false;
    }
    uint64_t start = clock_ns(), end = start, runs = 0;
    for (; ok && (double)(end - start) * 1e-9 < loop.seconds; end = clock_ns(), runs++)
        ok = part_run((int)(runs % (uint64_t)loop.n_sets), &parts[runs % (uint64_t)loop.n_sets], e);
    if (ok) {
        json_t *result = group_json(group);
        json_object_set_new(result, "cache", json_string(loop.mode));
        json_object_set_new(result, "sets", json_integer(loop.n_sets));
        json_object_set_new(result, "runs", json_integer((json_int_t)runs));
        json_object_set_new(result, "seconds", json_real((double)(end - start) * 1e-9));
        print_line(result);
    }
    for (int i = 0; i < loop.n_sets; i++) loop.device->backend->program_destroy(loop.device->handle, parts[i].program);
    if (!ok) give_up(name, wherry_last_error(loop.context));
    return ok;
}

static bool loop_lines(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!loop_group(line, true)) return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 8 || argc > 9 || (strcmp(argv[7], "warm") && strcmp(argv[7], "cold"))) {
        fprintf(stderr, "loop_group DEVICE BATCH SEQ PLAN GROUP|list|- SECONDS warm|cold [CACHE_BYTES]\n");
        return 2;
    }
    const wherry_context_desc desc = {.struct_size = sizeof desc};
    uint32_t sequences = (uint32_t)strtoul(argv[2], NULL, 10), length = (uint32_t)strtoul(argv[3], NULL, 10);
    loop.mode = argv[7];
    loop.seconds = strtod(argv[6], NULL);
    loop.cache = argc > 8 ? strtoull(argv[8], NULL, 10) : 50000000;
    if (!sequences || !length || wherry_context_create(&desc, &loop.context)) return give_up(argv[2], "no batch");
    bool ok = set_up(argv[1], sequences, length, argv[4], !strcmp(argv[7], "cold"));
    if (!ok)
        give_up("setting up", wherry_last_error(loop.context));
    else if (!strcmp(argv[5], "list"))
        list_groups();
    else
        ok = !strcmp(argv[5], "-") ? loop_lines() : loop_group(argv[5], false);
    tear_down();
    return !ok;
}
