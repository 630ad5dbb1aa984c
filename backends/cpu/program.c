/* A schedule as a list of resolved steps, and its run: all threads of the team go through the steps together, take
 * items of each, and meet before the next one. */
#include <string.h>

#include "cpu.h"
#include "plan/traffic_model.h"

/* The second operand of some products in panels, while the buffer that it is in stays as it was. */
struct pack {
    int step;
    const struct buffer *from;
    uint64_t written; /* of the buffer, when it was packed; UINT64_MAX: never */
    size_t panels;
    void *panel; /* the first */
    void *memory;
};

struct program {
    const struct schedule *schedule;
    struct cpu_step *steps; /* [n_steps] */
    struct pack *packs;     /* [n_packs] */
    int n_packs;
    float **scratch; /* [threads] */
    void **memory;   /* [threads]: that it is in */
};

/* ---- making ---- */

/* Whether a step of the schedule writes to what the binding covers. */
static bool is_written(const struct schedule *schedule, const struct binding *read)
{
    for (int i = 0; i < schedule->n_steps; i++)
        for (int k = 0; k < schedule->steps[i].n_bindings; k++) {
            const struct binding *b = &schedule->steps[i].bindings[k];
            if (b->written && b->buffer == read->buffer && b->offset < read->offset + read->bytes &&
                read->offset < b->offset + b->bytes)
                return true;
        }
    return false;
}

static const struct binding *binding_find(const struct step *step, uint8_t slot)
{
    for (int i = 0; i < step->n_bindings; i++)
        if (step->bindings[i].slot == slot) return &step->bindings[i];
    return NULL;
}

/* What has the batch's size is no weight. */
static bool is_weight(const struct schedule *schedule, int i)
{
    const struct binding *w = binding_find(&schedule->steps[i], SLOT_W);
    return w && call_runtime(schedule->steps[i].call) == RUNTIME_M && !is_written(schedule, w);
}

/* Weights [n][k] stay from run to run, and packing them transposes them; [k][n] are packed by copying rows, which
 * costs a product little. In bf16 there are panels alone; those of int8 would take what int8 saves. */
static bool is_worth_packing(const struct schedule *schedule, int i, const struct cpu_step *s)
{
    bool transposes = call_get(schedule->steps[i].call, CONST_FORM, GEMM_NT) == GEMM_NT;
    if (!s->how->packed || s->value[CONST_SCALES] || !binding_find(&schedule->steps[i], SLOT_W)) return false;
    return s->bf16 || ((transposes || s->onednn) && is_weight(schedule, i));
}

static bool packs_create(struct backend_device *device, struct program *p, struct program_info *info, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    if (!(p->packs = host_alloc(device->host, (size_t)schedule->n_steps, sizeof *p->packs, e))) return false;
    for (int i = 0; i < schedule->n_steps; i++) {
        struct cpu_step *s = &p->steps[i];
        struct pack *pack = &p->packs[p->n_packs];
        if (!is_worth_packing(schedule, i, s)) continue;
        uint64_t bytes = (uint64_t)s->how->packed(s, &pack->panels);
        *pack = (struct pack){.step = i,
                              .from = binding_find(&schedule->steps[i], SLOT_W)->buffer,
                              .written = UINT64_MAX,
                              .panels = pack->panels};
        if (!(pack->panel = cpu_alloc(device->host, bytes, &pack->memory, e))) return false;
        s->packed = pack->panel;
        info->host_bytes += bytes;
        p->n_packs++;
    }
    return true;
}

static bool scratch_create(struct backend_device *device, struct program *p, struct program_info *info, struct error *e)
{
    size_t most = 0, threads = workers_count(device->workers);
    for (int i = 0; i < p->schedule->n_steps; i++) {
        const struct cpu_step *s = &p->steps[i];
        size_t floats = s->how->scratch ? s->how->scratch(s) : 0;
        if (floats > most) most = floats;
    }
    p->scratch = host_alloc(device->host, threads, sizeof *p->scratch, e);
    p->memory = p->scratch ? host_alloc(device->host, threads, sizeof *p->memory, e) : NULL;
    if (!p->memory) return false;
    for (size_t t = 0; t < threads; t++) {
        uint64_t bytes = most * sizeof(float);
        if (!(p->scratch[t] = cpu_alloc(device->host, bytes, &p->memory[t], e))) return false;
        info->host_bytes += bytes;
    }
    return true;
}

/* Distinct kernels, as other backends count them: by name and constants. */
static uint32_t kernels_count(const struct program *p)
{
    uint32_t count = 0;
    for (int i = 0; i < p->schedule->n_steps; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = p->steps[k].how == p->steps[i].how &&
                   !memcmp(p->steps[k].value, p->steps[i].value, sizeof p->steps[i].value);
        count += !seen;
    }
    return count;
}

struct program *cpu_program_create(struct backend_device *device, const struct schedule *schedule,
                                   wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    (void)progress, (void)user;
    memset(info, 0, sizeof *info);
    struct program *p = host_alloc(device->host, 1, sizeof *p, e);
    if (!p) return NULL;
    p->schedule = schedule;
    bool ok = (p->steps = host_alloc(device->host, (size_t)schedule->n_steps, sizeof *p->steps, e)) != NULL;
    mutex_enter(&device->computing);
    for (int i = 0; ok && i < schedule->n_steps; i++)
        ok = cpu_step_resolve(device, &schedule->steps[i], &p->steps[i], e) &&
             (schedule->library != LIBRARY_WANTED ||
              cpu_onednn_take(device, &schedule->steps[i], is_weight(schedule, i), &p->steps[i], e));
    mutex_leave(&device->computing);
    ok = ok && packs_create(device, p, info, e) && scratch_create(device, p, info, e);
    if (ok) {
        info->kernels = kernels_count(p);
        return p;
    }
    cpu_program_destroy(device, p);
    return NULL;
}

void cpu_program_destroy(struct backend_device *device, struct program *p)
{
    if (!p) return;
    mutex_enter(&device->computing);
    for (int i = 0; p->steps && i < p->schedule->n_steps; i++) cpu_onednn_release(device, &p->steps[i]);
    mutex_leave(&device->computing);
    for (int i = 0; i < p->n_packs; i++) host_free(device->host, p->packs[i].memory);
    for (size_t t = 0; p->memory && t < workers_count(device->workers); t++) host_free(device->host, p->memory[t]);
    void *memory[] = {p->steps, p->packs, p->scratch, (void *)p->memory};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) host_free(device->host, memory[i]);
    host_free(device->host, p);
}

/* ---- running ---- */

struct running {
    struct workers *workers;
    struct program *program;
    const struct run *run;
    int first, end;
};

/* The packs that the run needs and that are older than their buffers. */
static void pack_again(const struct running *r)
{
    for (int i = 0; i < r->program->n_packs; i++) {
        const struct pack *pack = &r->program->packs[i];
        const struct cpu_step *s = &r->program->steps[pack->step];
        if (pack->step < r->first || pack->step >= r->end || pack->written == pack->from->written) continue;
        for (size_t panel; (panel = workers_take(r->workers)) < pack->panels;) s->how->pack(s, panel, pack->panel);
        workers_meet(r->workers);
    }
}

static void run_steps(size_t thread, void *user)
{
    const struct running *r = user;
    float *scratch = r->program->scratch[thread];
    double *seconds = r->run->step_seconds;
    pack_again(r);
    uint64_t before = workers_met(r->workers);
    for (int i = r->first; i < r->end; i++) {
        const struct cpu_step *s = &r->program->steps[i];
        const struct grid *grid = &r->run->grids[i];
        /* Items are counted by the kernel, but a step of no work-groups does nothing, whatever the batch. */
        size_t items = grid->x && grid->y && grid->z ? s->how->items(s) : 0;
        for (size_t item; (item = workers_take(r->workers)) < items;) s->how->run(s, item, scratch);
        workers_meet(r->workers);
        if (thread || !seconds) continue;
        uint64_t now = workers_met(r->workers);
        seconds[i] = (double)(now - before) * 1e-9;
        before = now;
    }
}

/* What programs packed of these buffers is no longer what is there. */
static void mark_written(const struct running *r)
{
    const struct schedule *schedule = r->program->schedule;
    for (int i = r->first; i < r->end; i++)
        for (int k = 0; k < schedule->steps[i].n_bindings; k++)
            if (schedule->steps[i].bindings[k].written) schedule->steps[i].bindings[k].buffer->written++;
}

static bool run_alone(struct backend_device *device, struct program *p, const struct run *run, struct error *e)
{
    struct running r = {device->workers, p, run, run->first, run->end ? run->end : p->schedule->n_steps};
    for (int i = 0; i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        TRY(cpu_buffer_write(device, t->buffer, t->offset, t->host, t->bytes, e));
    }
    workers_run(device->workers, run_steps, &r);
    TRY(cpu_onednn_check_run(device, e));
    for (int i = 0; i < p->n_packs; i++)
        if (p->packs[i].step >= r.first && p->packs[i].step < r.end) p->packs[i].written = p->packs[i].from->written;
    mark_written(&r);
    for (int i = 0; i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        TRY(cpu_buffer_read(device, t->buffer, t->offset, t->host, t->bytes, e));
    }
    return true;
}

/* All cores compute one run at a time. */
bool cpu_program_run(struct backend_device *device, struct program *p, const struct run *run, struct error *e)
{
    mutex_enter(&device->computing);
    bool ok = run_alone(device, p, run, e);
    mutex_leave(&device->computing);
    return ok;
}

/* Whoever submits computes: there is nobody else. */
bool cpu_program_submit(struct backend_device *device, struct program *program, const struct run *run, int slot,
                        struct error *e)
{
    (void)slot;
    return cpu_program_run(device, program, run, e);
}

bool cpu_program_wait(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns, bool *done,
                      struct error *e)
{
    (void)device, (void)program, (void)slot, (void)timeout_ns, (void)e;
    *done = true;
    return true;
}

/* ---- what is told of it ---- */

const char *cpu_program_note(const struct program *program, int step)
{
    const struct cpu_step *s = &program->steps[step];
    return s->bf16 ? s->bf16 : s->note;
}

bool cpu_program_traffic(const struct backend_device *device, const struct program *p, int step, struct count *count)
{
    (void)device;
    struct cpu_step s = p->steps[step];
    if (!s.how->count) return false;
    s.batch = count->words;
    s.how->count(&s, count);
    return true;
}
