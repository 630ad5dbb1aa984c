/* What a trainer's device compiles, told to whoever asks: of its session and its loss, and of its own kernels. */
#include <stdio.h>

#include "backends/kernel_program.h"
#include "runtime/programs.h"
#include "train/adapters_state.h"
#include "train/bucket_kernels.h"
#include "train/buckets.h"
#include "train/state.h"
#include "train/trainer.h"

/* A kernel of training's own; names of parts as reports have them. */
struct own_call {
    struct call call;
    enum storage type;
    const char *group;
};
enum { OWN_CALLS_MOST = 2 * 2 * PHASES + HANDOVER_CALLS + ADAPTER_KERNELS + 2 * BUCKET_CALLS };

struct own_list {
    struct own_call of[OWN_CALLS_MOST];
    int n;
};

static void add(struct own_list *list, const struct call *call, enum storage type, const char *group)
{
    list->of[list->n++] = (struct own_call){*call, type, group};
}

/* In 16 bits sums of gradients and adapters are floats all the same. */
static bool optimizer_list(struct optimizer *o, struct own_list *list, struct error *e)
{
    static const char *const names[PHASES] = {"optimizer.accumulate", "optimizer.norm", "optimizer.step",
                                              "optimizer.ratios", "optimizer.step"};
    const enum storage type = session_type(o->session);
    const bool floats = type != STORAGE_F32 && (o->arena.adapters || o->arena.sums);
    for (enum way way = WAY_ACCUMULATED; way < WAYS; way++) {
        TRY(optimizer_calls_make(o, way, e));
        for (enum phase phase = PHASE_ADD; phase < PHASES; phase++) {
            if (phase > PHASE_STEP && !optimizer_lamb(o)) continue;
            add(list, &o->ways[way].calls[phase], type, names[phase]);
            if (floats && !phase_sums(phase)) add(list, &o->ways[way].calls[phase], STORAGE_F32, names[phase]);
        }
    }
    return true;
}

static bool own_list(const struct wherry_trainer *t, const wherry_trainer_desc *desc, struct own_list *list,
                     struct error *e)
{
    const struct wherry_session *s = t->session;
    struct call calls[HANDOVER_CALLS + ADAPTER_KERNELS + BUCKET_CALLS];
    list->n = 0;
    TRY(optimizer_list(t->optimizer, list, e));
    if (t->loss) {
        handover_calls(s, calls);
        for (int i = 0; i < HANDOVER_CALLS; i++) add(list, &calls[i], session_type(s), "handover");
    }
    if (t->lora) {
        TRY(adapters_calls(s, calls, e));
        for (int i = 0; i < ADAPTER_KERNELS; i++) add(list, &calls[i], session_type(s), "optimizer.adapters");
    }
    if (!desc->exchange || desc->exchange->processes < 2) return true;
    TRY(bucket_calls(s, desc->wire, calls, e));
    for (int i = 0; i < BUCKET_CALLS; i++)
        if (calls[i].kernel && (i != CALL_SCAN || desc->wire == WHERRY_WIRE_F16))
            add(list, &calls[i], i == CALL_TAKE ? session_type(s) : STORAGE_F32, "exchange");
    if (s->f16) add(list, &calls[CALL_ADD], session_type(s), "exchange");
    return true;
}

/* ---- programs ---- */

static struct step own_step(const struct own_call *own)
{
    struct step step = {.name = own->group, .kernel = own->call.kernel, .call = &own->call};
    step_store(&step, own->type);
    return step;
}

/* Equal ones once: which of the list is the first like it. */
static bool first_like(const struct wherry_session *s, const struct own_list *list, int index, uint64_t *hashes,
                       struct kernel_program *room, bool *first, struct error *e)
{
    const struct own_call *own = &list->of[index];
    const struct step step = own_step(own);
    const struct program_told told = {.step = &step};
    TRY(program_hash(s, &told, room, &hashes[index], e));
    *first = true;
    for (int i = 0; i < index; i++) *first &= hashes[i] != hashes[index];
    return true;
}

static bool own_tell(const struct wherry_trainer *t, const wherry_trainer_desc *desc, struct own_list *list,
                     struct kernel_program *room, wherry_program_callback callback, void *user, struct error *e)
{
    uint64_t hashes[OWN_CALLS_MOST];
    bool first, more = true;
    TRY(own_list(t, desc, list, e));
    for (int i = 0; i < list->n && more; i++) {
        const struct own_call *own = &list->of[i];
        const struct step step = own_step(own);
        const struct program_told told = {.step = &step, .group = own->group, .launches = 1};
        TRY(first_like(t->session, list, i, hashes, room, &first, e));
        if (first) TRY(program_tell(t->session, &told, room, callback, user, &more, e));
    }
    return true;
}

wherry_status wherry_trainer_programs(wherry_context *context, wherry_device *device, const wherry_model *model,
                                      const wherry_session_desc *session, const wherry_trainer_desc *desc,
                                      wherry_program_callback callback, void *user)
{
    wherry_trainer *t = NULL;
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!callback) return context_invalid(context, "wherry_trainer_programs: callback is NULL");
    wherry_status status = trainer_create(context, device, model, session, desc, true, &t);
    if (status) return status;
    struct error *e = context_error(context);
    status = wherry_session_programs(t->session, callback, user);
    if (!status && t->loss) status = wherry_session_programs(loss_session(t->loss), callback, user);
    if (!status) {
        struct own_list *list = host_alloc(&context->host, 1, sizeof *list, e);
        struct kernel_program *room = list ? host_alloc(&context->host, 1, sizeof *room, e) : NULL;
        status = context_status(context, room && own_tell(t, desc, list, room, callback, user, e));
        host_free(&context->host, room);
        host_free(&context->host, list);
    }
    wherry_trainer_destroy(t);
    return status;
}

/* ---- what they take ---- */

enum { SCHEDULES_MOST = WAYS + 3 };

struct made {
    const struct schedule *schedule;
    struct program *program;
    const char *group;
};

static int made_list(const struct wherry_trainer *t, struct made out[SCHEDULES_MOST])
{
    int n = 0;
    for (int way = 0; way < WAYS; way++) {
        const struct way_program *w = &t->optimizer->ways[way];
        if (w->program) out[n++] = (struct made){&w->schedule, w->program, "optimizer"};
    }
    if (t->handover) {
        out[n].schedule = handover_schedule(t->handover, &out[n].program);
        out[n++].group = "handover";
    }
    if (t->lora) {
        const struct adapters *a = t->lora->adapters;
        out[n++] = (struct made){&a->schedule, a->program, "optimizer"};
    }
    if (t->sharding.buckets) {
        out[n].schedule = buckets_schedule(t->sharding.buckets, &out[n].program);
        out[n++].group = "exchange";
    }
    return n;
}

/* Equal ones of a program once, with how often it has them. */
static bool made_tell(const struct wherry_session *s, const struct made *made, struct kernel_program *room,
                      wherry_kernel_callback callback, void *user, bool *more, struct error *e)
{
    const struct schedule *schedule = made->schedule;
    const struct host *host = &s->context->host;
    uint64_t *hashes = host_alloc(host, (size_t)schedule->n_steps, sizeof *hashes, e);
    bool ok = hashes != NULL;
    for (int i = 0; ok && i < schedule->n_steps; i++) {
        const struct program_told told = {.step = &schedule->steps[i]};
        ok = program_hash(s, &told, room, &hashes[i], e);
    }
    for (int i = 0; ok && *more && i < schedule->n_steps; i++) {
        wherry_session_kernel kernel = {.hash = hashes[i]};
        bool first = true;
        for (int k = 0; k < schedule->n_steps; k++) {
            first &= k >= i || hashes[k] != hashes[i];
            kernel.launches += hashes[k] == hashes[i];
        }
        if (!first) continue;
        kernel_describe(s, schedule->steps[i].call, made->program, i, &kernel);
        snprintf(kernel.group, sizeof kernel.group, "%s.%s", made->group, schedule->steps[i].name);
        *more = callback(&kernel, user);
    }
    host_free(host, hashes);
    return ok;
}

static wherry_status session_tell(struct wherry_session *s, wherry_kernel_callback callback, void *user, bool *more)
{
    const struct host *host = &s->context->host;
    size_t count = 0;
    wherry_status status = s->prepared ? WHERRY_STATUS_OK : wherry_session_prepare(s, NULL, NULL, NULL);
    if (!status) status = wherry_session_kernels(s, NULL, &count);
    if (status) return status;
    wherry_session_kernel *kernels = host_alloc(host, count + 1, sizeof *kernels, context_error(s->context));
    if (!kernels) return context_status(s->context, false);
    status = wherry_session_kernels(s, kernels, &count);
    for (size_t i = 0; !status && *more && i < count; i++) *more = callback(&kernels[i], user);
    host_free(host, kernels);
    return status;
}

wherry_status wherry_trainer_kernels(wherry_trainer *t, wherry_kernel_callback callback, void *user)
{
    if (!t) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = t->context;
    struct error *e = context_error(context);
    struct made made[SCHEDULES_MOST];
    bool more = true;
    if (!callback) return context_invalid(context, "wherry_trainer_kernels: callback is NULL");
    if (!programs_are_ours(t->session, e)) return context_status(context, false);
    wherry_status status = session_tell(t->session, callback, user, &more);
    if (!status && t->loss && more) status = session_tell(loss_session(t->loss), callback, user, &more);
    if (status) return status;
    struct kernel_program *room = host_alloc(&context->host, 1, sizeof *room, e);
    bool ok = room != NULL;
    for (int i = 0, n = made_list(t, made); ok && more && i < n; i++)
        ok = made_tell(t->session, &made[i], room, callback, user, &more, e);
    host_free(&context->host, room);
    return context_status(context, ok);
}
