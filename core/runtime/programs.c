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

static bool call_program(const struct wherry_session *s, int call, struct kernel_program *out, struct error *e)
{
    const struct step step = {.name = s->groups[s->call_groups[call]].name,
                              .kernel = s->calls[call].kernel,
                              .launch = s->calls[call].launch,
                              .f16 = s->f16,
                              .bf16 = s->bf16,
                              .call = &s->calls[call]};
    return s->device->backend->program_text(s->device->handle, &step, session_in_one_buffer(s), out, e);
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

/* listing_free it also after a failure. */
static bool programs_of(const struct wherry_session *s, struct listing *list, struct error *e)
{
    const struct host *host = &s->context->host;
    size_t n = (size_t)s->n_calls;
    *list = (struct listing){.n = 0};
    if (!s->device->backend->program_text || s->library == LIBRARY_WANTED)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: the kernels are %s: there are no programs that it compiles",
                    s->device->info.id, s->library == LIBRARY_WANTED ? "a library's" : "the host's own code");
    return (list->program = host_alloc(host, 1, sizeof *list->program, e)) &&
           (list->hashes = host_alloc(host, n, sizeof *list->hashes, e)) &&
           (list->launches = host_alloc(host, n, sizeof *list->launches, e)) &&
           (list->calls = host_alloc(host, n, sizeof *list->calls, e)) && programs_list(s, list, e);
}

static bool tell(const struct wherry_session *s, const struct listing *list, int index,
                 wherry_program_callback callback, void *user, bool *more, struct error *e)
{
    wherry_constant values[CALL_MAX_CONSTANTS + 1];
    struct kernel_program *program = list->program;
    int call = list->calls[index];
    TRY(call_program(s, call, program, e));
    for (int i = 0; i < program->n_constants; i++) values[i] = (wherry_constant){program->ids[i], program->values[i]};
    const wherry_program out = {.kernel = program->kernel.name,
                                .language = program->spirv ? WHERRY_LANGUAGE_SPIRV : WHERRY_LANGUAGE_OPENCL_C,
                                .code = program->kernel.data,
                                .code_bytes = program->kernel.size,
                                .options = program->options,
                                .constants = values,
                                .constant_count = (size_t)program->n_constants,
                                .f16 = s->f16,
                                .full_subgroups = program->full_subgroups,
                                .subgroup_size = program->subgroup_size,
                                .local_size = call_get(&s->calls[call], CONST_LOCAL_SIZE, 0),
                                .group = s->groups[s->call_groups[call]].name,
                                .launches = list->launches[index],
                                .hash = list->hashes[index]};
    *more = callback(&out, user);
    return true;
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

void session_kernel_use(const struct wherry_session *s, int call, wherry_kernel_use *out)
{
    struct kernel_usage usage;
    s->device->backend->program_usage(s->device->handle, s->program, call, &usage);
    *out = (wherry_kernel_use){.registers = usage.registers,
                               .spilled_bytes = usage.spilled,
                               .shared_bytes = usage.shared,
                               .waves = usage.waves,
                               .waves_most = usage.waves_most,
                               .subgroup_size = usage.subgroup,
                               .code_bytes = usage.code};
    snprintf(out->name, sizeof out->name, "%s", s->calls[call].kernel);
    if (!s->device->kernels_hash) return; /* sizes of a call are nothing to the host's kernels */
    if (s->reasons[call])
        snprintf(out->reason, sizeof out->reason, "%s: %s", kernel_class(out->name, s->device_limits.rungs),
                 s->reasons[call]);
    call_variant(&s->calls[call], out->variant);
}

static void constants_text(const struct call *call, enum constant_role role, char *text, size_t size)
{
    struct text_writer t = text_begin(text, size);
    for (int i = 0; i < call->n_constants; i++) {
        const struct constant_row *row = &constants[call->constants[i].id];
        if (row->role == role) text_add(&t, "%s%s=%" PRIu32, t.used ? " " : "", row->name, call->constants[i].value);
    }
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
        session_kernel_use(session, list.calls[i], &out->use);
        snprintf(out->group, sizeof out->group, "%s", session->groups[session->call_groups[list.calls[i]]].name);
        constants_text(&session->calls[list.calls[i]], CONSTANT_WORK, out->work, sizeof out->work);
        constants_text(&session->calls[list.calls[i]], CONSTANT_SIZE, out->sizes, sizeof out->sizes);
        out->local_size = call_get(&session->calls[list.calls[i]], CONST_LOCAL_SIZE, 0);
    }
    listing_free(&context->host, &list);
    return context_status(context, ok);
}
