/* What a run downloaded, as floats. */
#ifndef WHERRY_RUNTIME_RESULTS_H
#define WHERRY_RUNTIME_RESULTS_H

#include "runtime/session.h"

/* Some sequences of a batch, side by side. */
struct share {
    uint32_t first_sequence, first_token; /* in the batch */
    uint32_t sequences, tokens;
    const uint32_t *offsets; /* the batch's */
};

/* A row of the output is a token's, not a sequence's. */
bool session_rows_are_tokens(const struct wherry_session *s);
/* Rows of the output and floats of each, of these sequences. */
size_t session_rows(const struct wherry_session *s, const struct share *share);
size_t session_row_floats(const struct wherry_session *s);
/* Gives a share of what lies in `storage` to `out`, which has room for it. Fails where a value is not finite, after all
 * have been given. */
bool session_results(const struct wherry_session *s, const void *storage, const struct share *share, float *out,
                     struct error *e);
void session_floats(const struct wherry_session *s, const void *storage, size_t count, float *out);

#endif
