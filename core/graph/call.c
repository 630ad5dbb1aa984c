/* Constants and arguments of a kernel call. */
#include <string.h>

#include "base/bits.h"
#include "graph/call.h"
#include "interface/interface.h"

void call_set(struct call *call, uint8_t id, uint32_t value)
{
    int at = 0;
    while (at < call->n_constants && call->constants[at].id < id) at++;
    if (at == call->n_constants || call->constants[at].id != id) {
        memmove(&call->constants[at + 1], &call->constants[at],
                (size_t)(call->n_constants - at) * sizeof *call->constants);
        call->n_constants++;
    }
    call->constants[at] = (struct call_constant){id, value};
}

void call_set_float(struct call *call, uint8_t id, float value) { call_set(call, id, float_bits(value)); }

uint32_t call_get(const struct call *call, uint8_t id, uint32_t otherwise)
{
    for (int i = 0; i < call->n_constants; i++)
        if (call->constants[i].id == id) return call->constants[i].value;
    return otherwise;
}

uint32_t call_runtime(const struct call *call)
{
    uint32_t by_form = call_get(call, CONST_FORM, GEMM_NT) == GEMM_TN ? RUNTIME_K : RUNTIME_M,
             runtime = call_get(call, CONST_RUNTIME, RUNTIME_FORM);
    return runtime == RUNTIME_FORM ? by_form : runtime;
}

bool call_has_slot(const struct call *call, uint8_t slot)
{
    for (int i = 0; i < call->n_arguments; i++)
        if (call->arguments[i].slot == slot) return true;
    return false;
}
