/* SentencePiece's own file of a model: as much of the format of protocol buffers as it takes to find the fields that
 * are read. The others are skipped. */
#include "tokenizer/sentencepiece_model.h"

#include <string.h>

static const size_t pieces_most = (size_t)1 << 21;

struct bytes {
    const unsigned char *at, *end;
};

/* A field of a message. */
struct field {
    uint32_t number;
    enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire;
    uint64_t value;     /* of VARINT, FIXED32 */
    struct bytes bytes; /* of BYTES */
};

static bool damaged(const struct part_reader *r)
{
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "this is not a model of SentencePiece, or it is damaged: get it again");
}

static bool read_varint(const struct part_reader *r, struct bytes *from, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; from->at < from->end && shift < 64; shift += 7) {
        unsigned char byte = *from->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return damaged(r);
}

/* The next field, of a message that has one more. */
static bool read_field(const struct part_reader *r, struct bytes *from, struct field *out)
{
    uint64_t key;
    TRY(read_varint(r, from, &key));
    *out = (struct field){.number = (uint32_t)(key >> 3)};
    if (key >> 3 == 0 || key >> 3 > UINT32_MAX) return damaged(r);
    size_t left;
    switch (key & 7) {
    case VARINT:
        return read_varint(r, from, &out->value);
    case BYTES:
        out->wire = BYTES;
        TRY(read_varint(r, from, &out->value));
        if (out->value > (size_t)(from->end - from->at)) return damaged(r);
        out->bytes = (struct bytes){from->at, from->at + out->value};
        from->at += out->value;
        return true;
    case FIXED64:
    case FIXED32:
        out->wire = (key & 7) == FIXED64 ? FIXED64 : FIXED32;
        left = out->wire == FIXED64 ? 8 : 4;
        if (left > (size_t)(from->end - from->at)) return damaged(r);
        for (unsigned i = 0; i < left; i++) out->value |= (uint64_t)from->at[i] << 8 * i;
        from->at += left;
        return true;
    default:
        return damaged(r);
    }
}

static bool read_piece(const struct part_reader *r, struct bytes from, struct sentencepiece_model *model)
{
    enum { PIECE = 1, SCORE = 2 };
    struct sentencepiece piece = {.text = ""};
    struct field field;
    while (from.at < from.end) {
        TRY(read_field(r, &from, &field));
        if (field.number == PIECE && field.wire == BYTES) {
            piece.text = (const char *)field.bytes.at;
            piece.bytes = (size_t)(field.bytes.end - field.bytes.at);
        } else if (field.number == SCORE && field.wire == FIXED32) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&piece.score, &bits, sizeof bits);
        }
    }
    if (model->count == pieces_most)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "it has more than %zu pieces, the most that are read", pieces_most);
    struct sentencepiece *pieces =
        host_grow_one(r->host, model->pieces, model->count, &model->room, sizeof *pieces, r->e);
    if (!pieces) return false;
    model->pieces = pieces;
    pieces[model->count++] = piece;
    return true;
}

static bool read_trainer(const struct part_reader *r, struct bytes from, struct sentencepiece_model *model)
{
    enum { MODEL_TYPE = 3 };
    struct field field;
    while (from.at < from.end) {
        TRY(read_field(r, &from, &field));
        if (field.number != MODEL_TYPE || field.wire != VARINT) continue;
        if (field.value < SENTENCEPIECE_UNIGRAM || field.value > SENTENCEPIECE_CHARACTER) return damaged(r);
        model->type = (int)field.value;
    }
    return true;
}

static bool read_normalizer(const struct part_reader *r, struct bytes from, struct sentencepiece_model *model)
{
    enum { MAP = 2 };
    struct field field;
    while (from.at < from.end) {
        TRY(read_field(r, &from, &field));
        if (field.number != MAP || field.wire != BYTES) continue;
        model->map = field.bytes.at;
        model->map_bytes = (size_t)(field.bytes.end - field.bytes.at);
    }
    return true;
}

bool sentencepiece_parse(const struct part_reader *r, const unsigned char *data, size_t size,
                         struct sentencepiece_model *model)
{
    enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };
    *model = (struct sentencepiece_model){.type = SENTENCEPIECE_UNIGRAM};
    struct bytes from = {data, data + size};
    struct field field;
    while (from.at < from.end) {
        TRY(read_field(r, &from, &field));
        if (field.wire != BYTES) continue;
        if (field.number == PIECES) TRY(read_piece(r, field.bytes, model));
        if (field.number == TRAINER) TRY(read_trainer(r, field.bytes, model));
        if (field.number == NORMALIZER) TRY(read_normalizer(r, field.bytes, model));
    }
    return model->count || damaged(r);
}

void sentencepiece_free(const struct host *host, struct sentencepiece_model *model)
{
    host_free(host, model->pieces);
    *model = (struct sentencepiece_model){.count = 0};
}
