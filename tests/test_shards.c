/* Steps that are divided into shards: one process and several of them end with the same bits, whatever is divided how
 * among whom. Processes are threads here, with a context, a device and a trainer each, and their messages go through
 * memory; tests/cli/test_mpi.sh has real ones. */
#include "trainer_support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "devices_support.h"

#include "train/tree.h"

enum { PROCESSES_MOST = 8, SHARDS_MOST = 8, MESSAGES = 4096, STARTS = 64, STEPS = 4 };

/* ---- messages ---- */

struct hub {
    pthread_mutex_t mutex;
    pthread_cond_t change;
    struct line {
        void *data[MESSAGES];
        size_t bytes[MESSAGES], first, end;
    } lines[PROCESSES_MOST][PROCESSES_MOST]; /* from, to */
    bool broken;
    void *memory[PROCESSES_MOST]; /* that processes 0 and 1, 2 and 3, ... share */
    uint32_t processes, sharing;
};

/* By Oclgrind (tests/oclgrind.sh), which calls itself a GPU: then a step has to do, with the kernels of messages. It is
 * no two threads' at a time, whatever contexts they have: results differ from run to run. So they take turns where they
 * wait for each other. */
static bool interpreted(void) { return getenv("WHERRY_TEST_FEW") != NULL; }
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;

static void turn_begin(void)
{
    if (interpreted()) pthread_mutex_lock(&interpreter);
}

static void turn_end(void)
{
    if (interpreted()) pthread_mutex_unlock(&interpreter);
}

struct peer {
    struct hub *hub;
    uint32_t process;
    struct {
        wherry_message of[256];
        size_t count;
    } starts[STARTS];
    size_t first, end;
};

static bool start(void *user, const wherry_message *sends, size_t n_sends, const wherry_message *receives,
                  size_t n_receives)
{
    struct peer *p = user;
    pthread_mutex_lock(&p->hub->mutex);
    for (size_t i = 0; i < n_sends; i++) {
        struct line *line = &p->hub->lines[p->process][sends[i].process];
        size_t at = line->end++ % MESSAGES;
        line->data[at] = malloc(sends[i].bytes);
        line->bytes[at] = sends[i].bytes;
        memcpy(line->data[at], sends[i].data, sends[i].bytes);
    }
    pthread_cond_broadcast(&p->hub->change);
    pthread_mutex_unlock(&p->hub->mutex);
    size_t at = p->end++ % STARTS;
    memcpy(p->starts[at].of, receives, n_receives * sizeof *receives);
    p->starts[at].count = n_receives;
    return n_receives <= 256;
}

static bool finish(void *user, double *seconds)
{
    struct peer *p = user;
    size_t at = p->first++ % STARTS;
    bool ok = true;
    turn_end();
    pthread_mutex_lock(&p->hub->mutex);
    for (size_t i = 0; ok && i < p->starts[at].count; i++) {
        const wherry_message *m = &p->starts[at].of[i];
        struct line *line = &p->hub->lines[m->process][p->process];
        while (line->first == line->end && !p->hub->broken) pthread_cond_wait(&p->hub->change, &p->hub->mutex);
        ok = line->first != line->end;
        if (!ok) break;
        size_t from = line->first++ % MESSAGES;
        ok = line->bytes[from] == m->bytes;
        if (ok) memcpy(m->data, line->data[from], m->bytes);
        free(line->data[from]);
    }
    pthread_mutex_unlock(&p->hub->mutex);
    turn_begin();
    *seconds = 0;
    return ok;
}

/* Once in a run. */
static bool share(void *user, size_t bytes, void **memory)
{
    struct peer *p = user;
    struct hub *hub = p->hub;
    turn_end();
    pthread_mutex_lock(&hub->mutex);
    hub->memory[p->process] = aligned_alloc(1 << 16, bytes);
    hub->sharing++;
    pthread_cond_broadcast(&hub->change);
    while (hub->sharing < hub->processes && !hub->broken) pthread_cond_wait(&hub->change, &hub->mutex);
    for (uint32_t q = 0; q < hub->processes; q++) memory[q] = q / 2 == p->process / 2 ? hub->memory[q] : NULL;
    pthread_mutex_unlock(&hub->mutex);
    turn_begin();
    return hub->sharing == hub->processes;
}

static const char *problem(void *user)
{
    (void)user;
    return "another one has ended";
}

static void hub_break(struct hub *hub)
{
    pthread_mutex_lock(&hub->mutex);
    hub->broken = true;
    pthread_cond_broadcast(&hub->change);
    pthread_mutex_unlock(&hub->mutex);
}

/* ---- one process ---- */

struct setting {
    const char *device, *name; /* of the run */
    wherry_wire wire;
    wherry_dtype dtype;
    size_t shards;
    uint32_t batches; /* of a shard, at most */
    uint32_t processes;
    bool mixture;     /* of experts, in place of the run's model */
    bool shares;      /* memory */
    uint32_t fails;   /* the process that gives a wrong batch in step 1; none: PROCESSES_MOST */
    uint32_t differs; /* the one with another seed */
};

struct process {
    const struct setting *setting;
    struct hub *hub;
    struct peer peer;
    pthread_t thread;
    struct run run;
    wherry_status status;
    char message[1024];
    double losses[STEPS], norms[STEPS];
    bool skipped;
    uint64_t sent, hash;
};

/* Rows of a step, column by column, as shards of whole examples, each of these as batches. */
struct division {
    wherry_shard shards[SHARDS_MOST];
    wherry_batch batches[SHARDS_MOST][BATCHES_MOST];
    uint32_t offsets[SHARDS_MOST][BATCHES_MOST][ROWS_MOST + 1];
    int32_t ids[SHARDS_MOST][1024];
    wherry_targets targets;
};

static void divide(const struct run *r, size_t step, const struct setting *s, uint32_t columns, struct division *d)
{
    const uint32_t *offsets = r->offsets + step * (r->rows + 1);
    const int32_t *ids = r->ids;
    size_t examples = r->rows / columns;
    for (size_t i = 0; i < step; i++) ids += r->offsets[i * (r->rows + 1) + r->rows];
    for (size_t v = 0; v < s->shards; v++) {
        size_t first = examples * v / s->shards, end = examples * (v + 1) / s->shards, rows = (end - first) * columns;
        size_t n = rows < s->batches ? rows : s->batches;
        int32_t *to = d->ids[v];
        d->shards[v] = (wherry_shard){.struct_size = sizeof(wherry_shard), .batches = d->batches[v], .n_batches = n};
        for (size_t b = 0, row = 0; b < n; b++) {
            uint32_t *its = d->offsets[v][b];
            d->batches[v][b] =
                (wherry_batch){.struct_size = sizeof(wherry_batch),
                               .offsets = its,
                               .ids = to,
                               .types = r->types ? r->types + (ids - r->ids) + offsets[first + row] : NULL,
                               .next = r->next ? r->next + step * r->rows + first + row : NULL};
            its[0] = 0;
            for (; row < rows * (b + 1) / n; row++) {
                size_t from = row / (end - first) * examples + first + row % (end - first);
                uint32_t length = offsets[from + 1] - offsets[from];
                memcpy(to, ids + offsets[from], length * sizeof *to);
                to += length;
                its[d->batches[v][b].sequences + 1] = its[d->batches[v][b].sequences] + length;
                d->batches[v][b].sequences++;
            }
        }
    }
    d->targets = (wherry_targets){.struct_size = sizeof d->targets, .count = r->masked ? offsets[r->rows] : r->targets};
    if (r->labels) d->targets.labels = r->labels + (r->masked ? (size_t)(ids - r->ids) : step * r->targets);
    if (r->values) d->targets.values = r->values + step * r->targets;
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

static wherry_status hash_weights(struct process *p, wherry_trainer *trainer)
{
    p->hash = 1469598103934665603u;
    for (size_t w = 0; w < wherry_trainer_weight_count(trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        wherry_trainer_weight_describe(trainer, w, &info);
        float *values = malloc((size_t)info.elements * sizeof *values);
        wherry_status status = wherry_trainer_weight_read(trainer, w, values, (size_t)info.elements);
        p->hash = mix(p->hash, values, (size_t)info.elements * sizeof *values);
        free(values);
        if (status) return status;
    }
    return WHERRY_STATUS_OK;
}

static wherry_status train(struct process *p, wherry_trainer *trainer, uint32_t columns)
{
    struct division *d = calloc(1, sizeof *d);
    wherry_exchange_times times = {.struct_size = sizeof times};
    wherry_status status = WHERRY_STATUS_OK;
    for (size_t s = 0; !status && s < (interpreted() ? 1 : STEPS); s++) {
        wherry_step_result result = {.struct_size = sizeof result};
        divide(&p->run, s, p->setting, columns, d);
        if (s == 1 && p->setting->fails == p->peer.process) d->ids[0][0] = -1;
        status = wherry_trainer_step_shards(trainer, d->shards, p->setting->shards,
                                            d->targets.count ? &d->targets : NULL, &result);
        p->losses[s] = result.loss;
        p->norms[s] = result.gradient_norm;
        p->skipped |= result.skipped;
    }
    if (!status) status = wherry_trainer_weights_compare(trainer);
    if (!status) status = hash_weights(p, trainer);
    wherry_trainer_exchange_times(trainer, &times);
    p->sent = times.bytes_sent;
    free(d);
    return status;
}

static void *live(void *user)
{
    struct process *p = user;
    const struct setting *s = p->setting;
    const wherry_context_desc context_desc = {.struct_size = sizeof context_desc,
                                              .cache_dir = getenv("WHERRY_TEST_CACHE")};
    const wherry_exchange exchange = {.struct_size = sizeof exchange,
                                      .process = p->peer.process,
                                      .processes = s->processes,
                                      .user = &p->peer,
                                      .start = start,
                                      .finish = finish,
                                      .problem = problem,
                                      .share = s->shares ? share : NULL};
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    wherry_session_desc session;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    wherry_context *own = NULL;
    wherry_device *device = NULL;
    wherry_model *model = NULL;
    wherry_trainer *trainer = NULL;
    run_descs(s->name, &session, &loss, &optimizer);
    session.training = &training;
    session.dtype = s->dtype;
    const wherry_trainer_desc desc = {.struct_size = sizeof desc,
                                      .loss = &loss,
                                      .optimizer = &optimizer,
                                      .seed = s->differs == p->peer.process ? 4 : 3,
                                      .shards = (uint32_t)s->shards,
                                      .exchange = s->processes > 1 ? &exchange : NULL,
                                      .wire = s->wire,
                                      .bucket_bytes = 4096};
    turn_begin();
    p->status = wherry_context_create(&context_desc, &own);
    if (!p->status) p->status = wherry_device_open(own, s->device, &device);
    const wherry_model_config mixture = run_mixture();
    if (!p->status)
        p->status = s->mixture ? wherry_model_create_random(own, &mixture, 5, &model)
                               : wherry_model_open(own, p->run.folder, &model);
    if (!p->status) p->status = wherry_trainer_create(own, device, model, &session, &desc, &trainer);
    if (!p->status) p->status = train(p, trainer, strcmp(s->name, "contrastive") ? 1 + !strcmp(s->name, "cosent") : 3);
    if (p->status) {
        snprintf(p->message, sizeof p->message, "%s", wherry_last_error(own));
        hub_break(p->hub);
    }
    wherry_trainer_destroy(trainer);
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(own);
    turn_end();
    return NULL;
}

/* ---- all of them ---- */

static void run_all(const struct setting *s, struct process *all)
{
    struct hub *hub = calloc(1, sizeof *hub);
    hub->processes = s->processes;
    pthread_mutex_init(&hub->mutex, NULL);
    pthread_cond_init(&hub->change, NULL);
    for (uint32_t p = 0; p < s->processes; p++) {
        all[p] = (struct process){.setting = s, .hub = hub, .peer = {.hub = hub, .process = p}};
        assert_true(run_open(s->name, &all[p].run));
    }
    for (uint32_t p = 0; p < s->processes; p++)
        assert_int_equal(pthread_create(&all[p].thread, NULL, live, &all[p]), 0);
    for (uint32_t p = 0; p < s->processes; p++) pthread_join(all[p].thread, NULL);
    for (uint32_t p = 0; p < s->processes; p++) run_close(&all[p].run);
    pthread_mutex_destroy(&hub->mutex);
    pthread_cond_destroy(&hub->change);
    for (uint32_t a = 0; a < s->processes; a++)
        for (uint32_t b = 0; b < s->processes; b++)
            for (struct line *l = &hub->lines[a][b]; l->first < l->end; l->first++) free(l->data[l->first % MESSAGES]);
    for (uint32_t p = 0; p < s->processes; p++) free(hub->memory[p]);
    free(hub);
}

/* Process 0 of all; every other one has the same bits. */
static void run_fine(struct setting s, struct process *out)
{
    struct process *all = calloc(PROCESSES_MOST, sizeof *all);
    s.fails = s.differs = PROCESSES_MOST;
    run_all(&s, all);
    for (uint32_t p = 0; p < s.processes; p++) {
        if (all[p].status) fail_msg("%s, process %u of %u: %s", s.device, p, s.processes, all[p].message);
        assert_memory_equal(all[p].losses, all[0].losses, sizeof all->losses);
        assert_memory_equal(all[p].norms, all[0].norms, sizeof all->norms);
        assert_true(all[p].hash == all[0].hash);
    }
    *out = all[0];
    free(all);
}

static void check_same(struct setting s, const uint32_t *counts, size_t n)
{
    struct process *one = calloc(1, sizeof *one), *other = calloc(1, sizeof *other);
    s.processes = 1;
    run_fine(s, one);
    for (size_t i = 0; i < n; i++) {
        s.processes = counts[i];
        run_fine(s, other);
        if (other->hash != one->hash || memcmp(one->losses, other->losses, sizeof one->losses) ||
            memcmp(one->norms, other->norms, sizeof one->norms))
            fail_msg(
                "%s, %s in %zu shards: %u processes have other bits: losses %.17g and %.17g, norms %.17g and %.17g",
                s.device, s.name, s.shards, counts[i], one->losses[STEPS - 1], other->losses[STEPS - 1],
                one->norms[STEPS - 1], other->norms[STEPS - 1]);
        assert_true(other->sent > 0);
    }
    printf("%s, %s in %zu shards: loss %.9g, norm %.9g, the same bits\n", s.device, s.name, s.shards,
           one->losses[STEPS - 1], one->norms[STEPS - 1]);
    free(one);
    free(other);
}

static bool slowest(const char *device) { return !strncmp(device, "vulkan", 6) && !support_is_gpu(context, device); }
static bool slow(const char *device)
{
    return strchr(device, ':') && (interpreted() || !support_is_gpu(context, device));
}

/* Gradients added up, looked through, packed in 16 bits, summed, unpacked; a minute of processor for each process. */
static void exchanges(const char *device)
{
    struct process *half = calloc(1, sizeof *half);
    run_fine((struct setting){.device = device,
                              .name = "classes",
                              .dtype = WHERRY_DTYPE_F32,
                              .wire = WHERRY_WIRE_F16,
                              .shards = 4,
                              .batches = 1,
                              .processes = 2},
             half);
    free(half);
}

/* Losses that know all rows, and those that do not; shards of several batches, empty ones, and a number that is no
 * power of two. lavapipe, which compiles everything anew in each process, has the latter alone. */
static void has_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t all[] = {2, 3, 4, 8}, few[] = {2};
    for (size_t d = 0; d < n_devices; d++) {
        struct setting s = {.device = devices[d], .name = "contrastive", .dtype = WHERRY_DTYPE_F32, .shards = 4};
        s.batches = 1;
        if (interpreted()) {
            exchanges(devices[d]);
            continue;
        }
        if (!slowest(devices[d])) check_same(s, slow(devices[d]) ? few : all, slow(devices[d]) ? 1 : 4);
        s.name = "classes";
        s.shards = 8;
        /* NVIDIA's driver pins a page for one context of a process: there only real processes share. */
        s.shares = !support_is_gpu(context, devices[d]);
        check_same(s, slow(devices[d]) ? few : all, slow(devices[d]) ? 1 : 4);
        if (slow(devices[d])) continue;
        s.shards = 7;
        s.batches = 2;
        check_same(s, all, 4);
        s.shares = false;
        s.name = "masked";
        check_same(s, all, 2);
        s.name = "next";
        s.shards = 4;
        s.batches = 1;
        check_same(s, all, 2);
        s.shards = 7;
        s.batches = 2;
        s.name = "contrastive";
        s.shards = 8;
        check_same(s, all, 4);
    }
}

/* Where a token's experts are depends on no other token, nor do the sums over an expert's rows on other shards'. */
static void has_the_same_bits_of_a_mixture(void **state)
{
    (void)state;
    static const uint32_t several[] = {2, 4};
    for (size_t d = 0; d < n_devices && !interpreted(); d++) {
        struct setting s = {.device = devices[d], .name = "contrastive", .dtype = WHERRY_DTYPE_F32, .mixture = true};
        if (slow(devices[d])) continue;
        s.shards = 4;
        s.batches = 1;
        check_same(s, several, 2);
        s.shards = 3; /* one has none */
        s.batches = 2;
        s.shares = !support_is_gpu(context, devices[d]);
        check_same(s, several, 2);
    }
}

/* A single shard is a step as ever, which one process has all on its device; of two, one has it by way of the host. */
static void has_the_bits_of_a_step(void **state)
{
    (void)state;
    static const char *const names[] = {"contrastive", "classes", "masked", "next"};
    static const uint32_t two[] = {2};
    for (size_t d = 0; d < n_devices; d++)
        for (size_t i = 0;
             !slowest(devices[d]) && !interpreted() && i < (slow(devices[d]) ? 1 : sizeof names / sizeof *names); i++) {
            struct setting s = {
                .device = devices[d], .name = names[i], .dtype = WHERRY_DTYPE_F32, .shards = 1, .batches = 3};
            check_same(s, two, 1);
            for (s.dtype = WHERRY_DTYPE_F16; s.dtype <= WHERRY_DTYPE_BF16; s.dtype++)
                if (!slow(devices[d]) && support_has_f16(context, devices[d])) check_same(s, two, 1);
        }
}

/* Two processes of one batch each send the session's gradients as they are: what a session stores in 16 bits loses
 * nothing as 16 bits on the wire. */
static void takes_gradients_as_they_are(void **state)
{
    (void)state;
    static const uint32_t two[] = {2}, several[] = {2, 4};
    for (size_t d = 0; d < n_devices && !interpreted(); d++) {
        struct setting s = {
            .device = devices[d], .name = "classes", .dtype = WHERRY_DTYPE_F32, .shards = 2, .batches = 1};
        s.shares = !support_is_gpu(context, devices[d]);
        check_same(s, two, 1);
        if (slow(devices[d]) || !support_has_f16(context, devices[d])) continue;
        s.dtype = WHERRY_DTYPE_F16;
        check_same(s, two, 1);
        s.name = "masked"; /* whose table does not go by rows, which are summed, and so rounded, first */
        s.wire = WHERRY_WIRE_F16;
        check_same(s, two, 1);
        s.dtype = WHERRY_DTYPE_BF16;
        s.wire = WHERRY_WIRE_BF16;
        check_same(s, two, 1);
        s.wire = WHERRY_WIRE_F32; /* what is rounded in 16 bits then is each shard's alone */
        s.shards = 4;
        check_same(s, several, 2);
        s.name = "contrastive";
        check_same(s, several, 2);
    }
}

static const char *host_device(void)
{
    for (size_t d = 0; d < n_devices; d++)
        if (!strchr(devices[d], ':')) return devices[d];
    return NULL;
}

/* One shard is a step as ever, but for the order in which a batch's gradients are weighted. */
static void divides_alone(void **state)
{
    (void)state;
    struct process *one = calloc(1, sizeof *one), *other = calloc(1, sizeof *other);
    struct setting s = {
        .device = host_device(), .name = "regression", .dtype = WHERRY_DTYPE_F32, .batches = 1, .processes = 1};
    if (!s.device) skip();
    s.shards = 1;
    run_fine(s, one);
    s.shards = 5;
    run_fine(s, other);
    /* Masks are others. */
    assert_true(one->losses[0] != other->losses[0] && fabs(one->losses[0] / other->losses[0] - 1) < 0.2);
    free(one);
    free(other);
}

/* In 16 bits on the wire gradients are rounded: processes still agree, and are near. */
static void rounds_on_the_wire(void **state)
{
    (void)state;
    struct process *one = calloc(1, sizeof *one), *other = calloc(1, sizeof *other), *half = calloc(1, sizeof *half);
    struct setting s = {
        .device = host_device(), .name = "classes", .dtype = WHERRY_DTYPE_F32, .shards = 8, .batches = 1};
    if (!s.device) skip();
    s.processes = 1;
    run_fine(s, one);
    s.processes = 3;
    run_fine(s, other);
    for (s.wire = WHERRY_WIRE_BF16; s.wire >= WHERRY_WIRE_F16; s.wire--) {
        const double most = s.wire == WHERRY_WIRE_F16 ? 1e-3 : 8e-3; /* with 3 digits less */
        run_fine(s, half);
        assert_true(half->norms[0] != one->norms[0] && fabs(half->norms[0] / one->norms[0] - 1) < most);
        assert_true(half->sent < other->sent * 6 / 10);
        for (size_t i = 0; i < STEPS; i++) assert_true(fabs(half->losses[i] / one->losses[i] - 1) < 1e-2);
    }
    s.wire = WHERRY_WIRE_F16;
    for (size_t d = 0; d < n_devices; d++) { /* each has kernels of its own for it */
        struct setting its = s;
        if (!strchr(devices[d], ':')) continue;
        its.device = devices[d];
        its.processes = 2;
        its.shares = true;
        for (; its.wire <= WHERRY_WIRE_BF16; its.wire++) {
            run_fine(its, other);
            assert_true(fabs(other->norms[0] / one->norms[0] - 1) < (its.wire == WHERRY_WIRE_F16 ? 1e-3 : 8e-3));
            for (size_t i = 0; i < STEPS; i++) assert_true(fabs(other->losses[i] / one->losses[i] - 1) < 1e-2);
        }
    }
    s.dtype = WHERRY_DTYPE_F16;
    if (support_has_f16(context, s.device)) run_fine(s, half);
    free(one);
    free(other);
    free(half);
}

/* Of one process' error all hear, and another trainer is found before the first step. */
static void tells_of_others(void **state)
{
    (void)state;
    struct process *all = calloc(PROCESSES_MOST, sizeof *all);
    struct setting s = {.device = host_device(),
                        .name = "classes",
                        .dtype = WHERRY_DTYPE_F32,
                        .shards = 4,
                        .batches = 1,
                        .processes = 3,
                        .fails = 1,
                        .differs = PROCESSES_MOST};
    if (!s.device) skip();
    run_all(&s, all);
    assert_int_equal(all[1].status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(all[1].message, "step number 1 from 0"));
    for (int p = 0; p < 3; p += 2) {
        assert_int_equal(all[p].status, WHERRY_STATUS_IO);
        assert_non_null(strstr(all[p].message, "another one has ended"));
    }
    s.fails = PROCESSES_MOST;
    s.differs = 2;
    run_all(&s, all);
    for (int p = 0; p < 3; p++) {
        assert_int_equal(all[p].status, WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(all[p].message, "process 2 has another"));
    }
    free(all);
}

/* The sums of a tree, as a text: every process' parts together are what one has. */
static void sums_as_a_tree(void **state)
{
    (void)state;
    for (size_t shards = 1; shards <= 32; shards++)
        for (size_t processes = 1; processes <= 9; processes++) {
            struct tree one = {.n = 0}, joined = {.n = 0};
            bool there[32], adds, first;
            for (size_t v = 0; v < shards; v++) there[v] = v % 3 != 1;
            tree_of(shards, 0, 1, there, &one);
            for (size_t p = processes; p-- > 0;) {
                struct tree part;
                tree_of(shards, p, processes, there, &part);
                assert_in_range(part.n, 0, tree_depth(shards, processes));
                for (int i = 0; i < part.n; i++) {
                    tree_add(&joined, part.parts[i]);
                    while (tree_join(&joined, &adds, &first)) continue;
                }
            }
            assert_int_equal(joined.n, one.n);
            for (int i = 0; i < one.n; i++) {
                assert_int_equal(joined.parts[i].first, one.parts[i].first);
                assert_int_equal(joined.parts[i].count, one.parts[i].count);
                assert_int_equal(joined.parts[i].there, one.parts[i].there);
            }
        }
    assert_int_equal(tree_depth(8, 8), 1);
    assert_int_equal(tree_depth(8, 1), 4);
    assert_true(tree_depth(TREE_SHARDS_MOST, 1) <= TREE_PARTS_MOST);
}

int main(void)
{
    if (!devices_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_as_a_tree),
        cmocka_unit_test(has_the_same_bits),
        cmocka_unit_test(has_the_same_bits_of_a_mixture),
        cmocka_unit_test(has_the_bits_of_a_step),
        cmocka_unit_test(takes_gradients_as_they_are),
        cmocka_unit_test(divides_alone),
        cmocka_unit_test(rounds_on_the_wire),
        cmocka_unit_test(tells_of_others),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
