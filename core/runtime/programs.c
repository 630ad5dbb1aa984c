/* What a session's device compiles, told to whoever asks. */
#include "runtime/programs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/kernel_program.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/traffic.h"
#include "plan/variants.h"
#include "runtime/buffers.h"
#include "wherry/wherry_compile.h"

/* The programs of all calls, of which equal ones count once. */
struct listing {
    uint64_t *hashes; /* [n] */
    uint32_t *launches;
    int *calls; /* the first that has it */
    int n;
    struct kernel_program *program; /* the one at hand, which is large */
};

static bool text_of(const struct wherry_session *s, const struct program_told *told, struct kernel_program *out,
                    struct error *e)
{
    return s->device->backend->program_text(s->device->handle, told->step, told->one_buffer, out, e);
}

/* The step of a session's call, as far as its program goes. */
static struct step call_step(const struct wherry_session *s, int call)
{
    return (struct step){.name = s->groups[s->call_groups[call]].name,
                         .kernel = s->calls[call].kernel,
                         .launch = s->calls[call].launch,
                         .f16 = s->f16,
                         .bf16 = s->bf16,
                         .call = &s->calls[call]};
}

static bool call_program(const struct wherry_session *s, int call, struct kernel_program *out, struct error *e)
{
    const struct step step = call_step(s, call);
    const struct program_told told = {.step = &step, .one_buffer = session_in_one_buffer(s)};
    return text_of(s, &told, out, e);
}

static void listing_free(const struct host *host, struct listing *list)
{
    host_free(host, list->calls);
    host_free(host, list->launches);
    host_free(host, list->hashes);
    host_free(host, list->program);
}

static bool programs_list(const struct wherry_session *s, struct listing *list, struct error *e)
{
    for (int i = 0; i < s->n_calls; i++) {
        TRY(call_program(s, i, list->program, e));
        uint64_t hash = kernel_program_hash(list->program);
        int at = 0;
        while (at < list->n && list->hashes[at] != hash) at++;
        if (at == list->n) {
            list->hashes[list->n] = hash;
            list->calls[list->n++] = i;
        }
        list->launches[at]++;
    }
    return true;
}

bool programs_are_ours(const struct wherry_session *s, struct error *e)
{
    return (s->device->backend->program_text && s->library != LIBRARY_WANTED) ||
           fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the kernels are %s: there are no programs that it compiles",
                s->device->info.id, s->library == LIBRARY_WANTED ? "a library's" : "the host's own code");
}

/* listing_free it also after a failure. */
static bool programs_of(const struct wherry_session *s, struct listing *list, struct error *e)
{
    const struct host *host = &s->context->host;
    size_t n = (size_t)s->n_calls;
    *list = (struct listing){.n = 0};
    return programs_are_ours(s, e) && (list->program = host_alloc(host, 1, sizeof *list->program, e)) &&
           (list->hashes = host_alloc(host, n, sizeof *list->hashes, e)) &&
           (list->launches = host_alloc(host, n, sizeof *list->launches, e)) &&
           (list->calls = host_alloc(host, n, sizeof *list->calls, e)) && programs_list(s, list, e);
}

static void constants_text(const struct call *call, enum constant_role role, char *text, size_t size)
{
    struct text_writer t = text_begin(text, size);
    for (int i = 0; i < call->n_constants; i++) {
        const struct constant_row *row = &constants[call->constants[i].id];
        if (row->role == role) text_add(&t, "%s%s=%" PRIu32, t.used ? " " : "", row->name, call->constants[i].value);
    }
}

bool program_hash(const struct wherry_session *s, const struct program_told *told, struct kernel_program *room,
                  uint64_t *hash, struct error *e)
{
    TRY(text_of(s, told, room, e));
    *hash = kernel_program_hash(room);
    return true;
}

bool program_tell(const struct wherry_session *s, const struct program_told *told, struct kernel_program *room,
                  wherry_program_callback callback, void *user, bool *more, struct error *e)
{
    wherry_constant values[CALL_MAX_CONSTANTS + 1];
    char work[512], sizes[512];
    const struct call *call = told->step->call;
    TRY(text_of(s, told, room, e));
    for (int i = 0; i < room->n_constants; i++) values[i] = (wherry_constant){room->ids[i], room->values[i]};
    constants_text(call, CONSTANT_WORK, work, sizeof work);
    constants_text(call, CONSTANT_SIZE, sizes, sizeof sizes);
    const wherry_program out = {.kernel = room->kernel.name,
                                .language = room->spirv ? WHERRY_LANGUAGE_SPIRV : WHERRY_LANGUAGE_OPENCL_C,
                                .code = room->kernel.data,
                                .code_bytes = room->kernel.size,
                                .options = room->options,
                                .constants = values,
                                .constant_count = (size_t)room->n_constants,
                                .f16 = told->step->f16,
                                .full_subgroups = room->full_subgroups,
                                .subgroup_size = room->subgroup_size,
                                .local_size = call_get(call, CONST_LOCAL_SIZE, 0),
                                .group = told->group,
                                .launches = told->launches,
                                .hash = kernel_program_hash(room),
                                .work = work,
                                .sizes = sizes};
    *more = callback(&out, user);
    return true;
}

static bool tell(const struct wherry_session *s, const struct listing *list, int index,
                 wherry_program_callback callback, void *user, bool *more, struct error *e)
{
    const int call = list->calls[index];
    const struct step step = call_step(s, call);
    const struct program_told told = {&step, s->groups[s->call_groups[call]].name, list->launches[index],
                                      session_in_one_buffer(s)};
    return program_tell(s, &told, list->program, callback, user, more, e);
}

wherry_status wherry_session_programs(wherry_session *session, wherry_program_callback callback, void *user)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    struct error *e = context_error(context);
    struct listing list;
    if (!callback) return context_invalid(context, "wherry_session_programs: callback is NULL");
    bool ok = programs_of(session, &list, e), more = true;
    for (int i = 0; ok && more && i < list.n; i++) ok = tell(session, &list, i, callback, user, &more, e);
    listing_free(&context->host, &list);
    return context_status(context, ok);
}

/* ---- what they take ---- */

static void use_of(const struct wherry_session *s, const struct call *call, const struct program *program, int index,
                   wherry_kernel_use *out)
{
    struct kernel_usage usage;
    s->device->backend->program_usage(s->device->handle, program, index, &usage);
    *out = (wherry_kernel_use){.registers = usage.registers,
                               .spilled_bytes = usage.spilled,
                               .shared_bytes = usage.shared,
                               .waves = usage.waves,
                               .waves_most = usage.waves_most,
                               .subgroup_size = usage.subgroup,
                               .code_bytes = usage.code};
    snprintf(out->name, sizeof out->name, "%s", call->kernel);
    if (s->device->kernels_hash) call_variant(call, out->variant); /* sizes are nothing to the host's kernels */
}

void session_kernel_use(const struct wherry_session *s, int call, wherry_kernel_use *out)
{
    use_of(s, &s->calls[call], s->program, call, out);
    if (s->device->kernels_hash && s->reasons[call])
        snprintf(out->reason, sizeof out->reason, "%s: %s", kernel_class(out->name, s->device_limits.rungs),
                 s->reasons[call]);
}

void kernel_describe(const struct wherry_session *s, const struct call *call, const struct program *program, int index,
                     wherry_session_kernel *out)
{
    use_of(s, call, program, index, &out->use);
    constants_text(call, CONSTANT_WORK, out->work, sizeof out->work);
    constants_text(call, CONSTANT_SIZE, out->sizes, sizeof out->sizes);
    out->local_size = call_get(call, CONST_LOCAL_SIZE, 0);
}

wherry_status wherry_session_kernels(wherry_session *session, wherry_session_kernel *kernels, size_t *count)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    struct error *e = context_error(context);
    size_t room = kernels && count ? *count : 0;
    struct listing list;
    if (!count) return context_invalid(context, "wherry_session_kernels: count is NULL");
    if (!session->prepared) return context_invalid(context, "wherry_session_kernels: the session is not prepared");
    bool ok = programs_of(session, &list, e);
    *count = ok ? (size_t)list.n : 0;
    for (int i = 0; ok && i < list.n && (size_t)i < room; i++) {
        wherry_session_kernel *out = &kernels[i];
        *out = (wherry_session_kernel){.launches = list.launches[i], .hash = list.hashes[i]};
        kernel_describe(session, &session->calls[list.calls[i]], session->program, list.calls[i], out);
        session_kernel_use(session, list.calls[i], &out->use);
        snprintf(out->group, sizeof out->group, "%s", session->groups[session->call_groups[list.calls[i]]].name);
    }
    listing_free(&context->host, &list);
    return context_status(context, ok);
}
