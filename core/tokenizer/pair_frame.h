/* A pair as one text, as a language model is asked about both: a template with places for an instruction and the two
 * texts. */
#ifndef WHERRY_TOKENIZER_PAIR_FRAME_H
#define WHERRY_TOKENIZER_PAIR_FRAME_H

#include "base/host.h"

struct tokenizer;

/* In order: parts[0], the instruction, parts[1], the first text, parts[2], the second one, parts[3]. */
enum { FRAME_PARTS = 4 };
struct pair_frame {
    char *parts[FRAME_PARTS]; /* owned, UTF-8 */
    char *instruction;        /* where none is given; owned, NULL: the template has no place for any */
};
static inline void pair_frame_free(const struct host *host, struct pair_frame *frame)
{
    for (int i = 0; i < FRAME_PARTS; i++) host_free(host, frame->parts[i]);
    host_free(host, frame->instruction);
    *frame = (struct pair_frame){.instruction = NULL};
}

/* From now on the tokenizer's pairs are framed so, with no other special tokens than the frame has; takes what `frame`
 * owns, in any case. What is too long is cut before parts[3], which stays. */
bool tokenizer_frame_pairs(struct tokenizer *tokenizer, struct pair_frame *frame, struct error *e);
/* Whether its pairs are framed, and have a place for an instruction. */
bool tokenizer_frames_pairs(const struct tokenizer *tokenizer);
bool tokenizer_takes_instruction(const struct tokenizer *tokenizer);
/* Another instruction where none is given. */
bool tokenizer_instruct(struct tokenizer *tokenizer, const char *instruction, struct error *e);
/* As tokenizer_encode_places; of a pair that is framed with this instruction, NULL: the frame's own. */
bool tokenizer_encode_pair(const struct host *host, const struct tokenizer *tokenizer, const char *instruction,
                           const char *text, size_t text_bytes, const char *pair, size_t pair_bytes, size_t max_tokens,
                           int32_t *ids, int32_t *types, wherry_token_place *places, size_t *count, struct error *e);

#endif
