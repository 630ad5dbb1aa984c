/* The host's side of a batch. */
#ifndef WHERRY_RUNTIME_BATCHES_H
#define WHERRY_RUNTIME_BATCHES_H

#include "runtime/session.h"

/* Against the session's limits. `has_ids` false: its ids are on the device already. Labels may be missing. */
bool session_batch_check(const struct wherry_session *s, const wherry_batch *batch, bool has_ids, struct error *e);
/* Fills `shape` (with offsets kept by the session) and the host's side of the batch buffer with one that was checked.
 */
void session_batch_fill(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape);
/* Both. */
bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e);

enum { SESSION_UPLOADS = 1 + BATCH_DATA_COUNT };
enum { LABEL_NONE = -100 }; /* of wherry_batch.labels: the token does not count */
/* What of the batch that was filled in the device does not have yet; their number. */
int session_uploads(struct wherry_session *s, const struct batch_shape *shape,
                    struct transfer uploads[SESSION_UPLOADS]);
/* Whether batches have labels of tokens: the output is the loss of masked tokens; and whether they have labels of
 * sequences, too: and of next sentences. */
bool session_labels(const struct wherry_session *s);
bool session_next(const struct wherry_session *s);
/* Labels, where it has some, for a batch of so many tokens in at most BARE_SEQUENCES that only has to run: `labels`, of
 * as many tokens as may have one, and zeros. */
enum { BARE_SEQUENCES = 1024 };
void session_bare_labels(const struct wherry_session *s, wherry_batch *batch, int32_t *labels, uint32_t tokens);
/* Whether each of them is a word, or says that there is none; and likewise those of sequences. */
bool session_labels_check(const struct wherry_session *s, const int32_t *labels, size_t tokens, struct error *e);
bool session_next_check(const int32_t *next, size_t sequences, struct error *e);
/* The copy of a tensor, as long as it is in this batch, to or from `storage`. */
struct transfer session_transfer(const struct wherry_session *s, const struct batch_shape *shape, int tensor,
                                 void *storage);

#endif
