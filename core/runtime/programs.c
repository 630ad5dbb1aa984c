/* What a session's device compiles, told to whoever asks. */
#include "backends/kernel_program.h"
#include "interface/interface.h"
#include "runtime/buffers.h"
#include "runtime/session.h"
#include "wherry/wherry_compile.h"

/* The programs of all calls, of which equal ones count once. */
struct listing {
    uint64_t *hashes; /* [n] */
    uint32_t *launches;
    int *calls; /* the first that has it */
    int n;
};

static bool call_program(const struct wherry_session *s, int call, struct kernel_program *out, struct error *e)
{
    const struct step step = {.name = s->groups[s->call_groups[call]].name,
                              .kernel = s->calls[call].kernel,
                              .launch = s->calls[call].launch,
                              .f16 = s->f16,
                              .bf16 = s->bf16,
                              .call = &s->calls[call]};
    bool one = session_one_buffer(s) && s->memory.bytes <= s->device_limits.max_buffer_bytes;
    return s->device->backend->program_text(s->device->handle, &step, one, out, e);
}

static bool programs_list(const struct wherry_session *s, struct listing *list, struct kernel_program *program,
                          struct error *e)
{
    for (int i = 0; i < s->n_calls; i++) {
        TRY(call_program(s, i, program, e));
        uint64_t hash = kernel_program_hash(program);
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

static bool tell(const struct wherry_session *s, const struct listing *list, int index, struct kernel_program *program,
                 wherry_program_callback callback, void *user, bool *more, struct error *e)
{
    wherry_constant constants[CALL_MAX_CONSTANTS + 1];
    int call = list->calls[index];
    TRY(call_program(s, call, program, e));
    for (int i = 0; i < program->n_constants; i++)
        constants[i] = (wherry_constant){program->ids[i], program->values[i]};
    const wherry_program out = {.kernel = program->kernel.name,
                                .language = program->spirv ? WHERRY_LANGUAGE_SPIRV : WHERRY_LANGUAGE_OPENCL_C,
                                .code = program->kernel.data,
                                .code_bytes = program->kernel.size,
                                .options = program->options,
                                .constants = constants,
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
    const struct host *host = &context->host;
    struct error *e = &context->error;
    if (!callback) return context_invalid(context, "wherry_session_programs: callback is NULL");
    if (!session->device->backend->program_text || session->library == LIBRARY_WANTED) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: kernels of %s are compiled already, or its own: there are no programs",
             session->device->info.id, session->library == LIBRARY_WANTED ? "a library" : "the host");
        return context_status(context, false);
    }
    struct kernel_program *program = host_alloc(host, 1, sizeof *program, e);
    struct listing list = {0};
    size_t n = (size_t)session->n_calls;
    bool ok = program && (list.hashes = host_alloc(host, n, sizeof *list.hashes, e)) &&
              (list.launches = host_alloc(host, n, sizeof *list.launches, e)) &&
              (list.calls = host_alloc(host, n, sizeof *list.calls, e)) && programs_list(session, &list, program, e);
    bool more = true;
    for (int i = 0; ok && more && i < list.n; i++) ok = tell(session, &list, i, program, callback, user, &more, e);
    host_free(host, list.calls);
    host_free(host, list.launches);
    host_free(host, list.hashes);
    host_free(host, program);
    return context_status(context, ok);
}
