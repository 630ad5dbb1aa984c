/* Whether the device computes the gradients right, before a run of hours. */
#include "runtime/batches.h"
#include "runtime/create.h"
#include "train/trainer.h"

enum { SEQUENCES = 2, TOKENS = 16 };

/* Two sequences of different lengths and ids from all over the vocabulary. */
static void small_batch(const struct wherry_trainer *t, uint32_t offsets[SEQUENCES + 1], int32_t ids[TOKENS],
                        int32_t labels[TOKENS], wherry_batch *out)
{
    static const int32_t next[SEQUENCES] = {0, 1};
    const struct wherry_session *s = t->session;
    uint32_t first = 11, second = TOKENS - 11, vocabulary = s->model->info.config.vocabulary;
    uint64_t number = 1;
    if (first > s->max_length) first = s->max_length;
    if (second > s->max_length) second = s->max_length;
    offsets[0] = 0;
    offsets[1] = first;
    offsets[2] = first + second;
    for (uint32_t i = 0; i < first + second; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((number >> 33) % vocabulary);
    }
    for (uint32_t i = 0; i < first + second; i++) labels[i] = i % 5 == 1 ? ids[first + second - 1 - i] : LABEL_NONE;
    *out = (wherry_batch){.struct_size = sizeof *out,
                          .sequences = SEQUENCES,
                          .offsets = offsets,
                          .ids = ids,
                          .labels = labels,
                          .next = next};
}

/* At least one: 0 would be all. */
static uint32_t labels_of(const wherry_batch *batch)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < batch->offsets[batch->sequences]; t++) n += batch->labels[t] != LABEL_NONE;
    return n ? n : 1;
}

static bool check(struct wherry_trainer *t, const wherry_batch *batch, struct error *e)
{
    uint32_t offsets[SEQUENCES + 1];
    int32_t ids[TOKENS], labels[TOKENS];
    wherry_batch small;
    wherry_session_desc desc = t->session_desc;
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    struct wherry_session *session = NULL;
    if (!batch) {
        small_batch(t, offsets, ids, labels, &small);
        batch = &small;
    }
    if (!batch->offsets || !batch->sequences)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "an empty batch: it needs a sequence, offsets and ids");
    desc.max_tokens = batch->offsets[batch->sequences];
    desc.max_sequences = batch->sequences;
    if (desc.max_labels && batch->labels) desc.max_labels = labels_of(batch);
    desc.dtype = session_dtype(t->session);
    desc.keep_intermediates = true;
    TRY(session_create(t->context, t->device, t->model, &desc, false, &session, e));
    bool ok = !wherry_verify(session, batch, 1, NULL, NULL, &summary);
    wherry_session_destroy(session);
    return ok;
}

wherry_status wherry_trainer_check(wherry_trainer *trainer, const wherry_batch *batch)
{
    if (!trainer) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct error *e = context_error(trainer->context);
    bool ok = check(trainer, batch, e);
    return context_status(trainer->context, ok || fail_in(e, "the check before training"));
}
