/* What a session's device compiles, and what that takes. */
#ifndef WHERRY_RUNTIME_PROGRAMS_H
#define WHERRY_RUNTIME_PROGRAMS_H

#include "runtime/session.h"

#include "plan/schedule.h"
#include "wherry/wherry_compile.h"

struct kernel_program;

/* Fails where the session's device compiles no programs of ours. */
bool programs_are_ours(const struct wherry_session *s, struct error *e);
/* Tells the program of one kernel, which the step names (kernel, f16, call) on the session's device; `room` is what it
 * is made in. *more: the callback's answer. */
struct program_told {
    const struct step *step;
    const char *group;
    uint32_t launches;
    bool one_buffer;
};
bool program_tell(const struct wherry_session *s, const struct program_told *told, struct kernel_program *room,
                  wherry_program_callback callback, void *user, bool *more, struct error *e);
/* Its hash: equal programs have equal ones. */
bool program_hash(const struct wherry_session *s, const struct program_told *told, struct kernel_program *room,
                  uint64_t *hash, struct error *e);
/* What a call and its launches are, and what step `index` of a program that was made takes; its hash is the caller's.
 */
void kernel_describe(const struct wherry_session *s, const struct call *call, const struct program *program, int index,
                     wherry_session_kernel *out);
/* Of a call of a prepared session. */
void session_kernel_use(const struct wherry_session *s, int call, wherry_kernel_use *out);

#endif
