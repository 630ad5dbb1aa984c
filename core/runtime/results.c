/* From what a run downloaded to what a caller gets: floats, cut where embeddings are, and a look at each whether it is
 * finite. */
#include "runtime/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"

void session_floats(const struct wherry_session *s, const void *storage, size_t count, float *out)
{
    const enum storage type = session_type(s);
    if (type == STORAGE_F32)
        memcpy(out, storage, count * sizeof *out);
    else
        for (size_t i = 0; i < count; i++) out[i] = storage_float(type, storage, i);
}

bool session_rows_are_tokens(const struct wherry_session *s)
{
    const uint32_t offsets[] = {0, 2};
    const struct batch_shape two = {1, offsets, 2, 4, 2};
    return tensor_elements(&s->graph, &two, s->graph.output) > tensor_row_length(&s->graph, s->graph.output);
}

size_t session_rows(const struct wherry_session *s, const struct share *share)
{
    return session_rows_are_tokens(s) ? share->tokens : share->sequences;
}

size_t session_row_floats(const struct wherry_session *s)
{
    return s->dimensions ? s->dimensions : tensor_row_length(&s->graph, s->graph.output);
}

/* Weights are finite, as prepare has looked at them, and so it is what was computed of them. */
static bool fail_not_finite(const struct wherry_session *s, const struct share *share, size_t row, struct error *e)
{
    size_t sequence = row;
    char token[48] = "";
    if (session_rows_are_tokens(s)) {
        const uint32_t *offsets = share->offsets + share->first_sequence;
        for (sequence = 0; offsets[sequence + 1] - share->first_token <= row;) sequence++;
        snprintf(token, sizeof token, ", token %zu of it", row - (offsets[sequence] - share->first_token));
    }
    return fail(
        e, WHERRY_STATUS_VERIFY_FAILED, "the result of sequence %zu of the batch%s is not finite: %s", sequence, token,
        session_type(s) == STORAGE_F16
            ? "a value went beyond the range of 16-bit floats, so use bf16 or f32, or this device computes wrongly, "
              "which `wherry verify` tells"
            : "a value went beyond the range of 32-bit floats, or this device computes wrongly, which "
              "`wherry verify` tells");
}

/* One result in memory as float; then the first of its values, of length 1 again where embeddings have that. */
static void cut_row(const struct wherry_session *s, const void *storage, size_t row, size_t length, float *out)
{
    const enum storage type = session_type(s);
    double sum = 0;
    for (size_t i = 0; i < s->dimensions; i++) {
        out[i] = storage_float(type, storage, row * length + i);
        sum += (double)out[i] * (double)out[i];
    }
    double norm = sqrt(sum);
    for (size_t i = 0; s->normalized && i < s->dimensions; i++)
        out[i] = (float)(out[i] / (norm > 1e-12 ? norm : 1e-12));
}

bool session_results(const struct wherry_session *s, const void *storage, const struct share *share, float *out,
                     struct error *e)
{
    size_t length = tensor_row_length(&s->graph, s->graph.output), of_row = session_row_floats(s);
    size_t first = session_rows_are_tokens(s) ? share->first_token : share->first_sequence,
           rows = session_rows(s, share);
    if (s->dimensions)
        for (size_t r = 0; r < rows; r++) cut_row(s, storage, first + r, length, out + r * of_row);
    else
        session_floats(s, (const char *)storage + first * length * session_storage(s), rows * length, out);
    for (size_t i = 0; i < rows * of_row; i++)
        if (!isfinite(out[i])) return fail_not_finite(s, share, i / of_row, e);
    return true;
}
