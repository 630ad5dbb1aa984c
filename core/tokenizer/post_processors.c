/* Post-processors: the special tokens around one text or two, and what becomes of places. */
#include "tokenizer/post_processors.h"

#include <string.h>

/* ---- templates ---- */

static bool template_add(const struct part_reader *r, struct template *form, enum piece_kind kind, int32_t id,
                         uint32_t type)
{
    struct template_piece *pieces =
        host_grow(r->host, form->pieces, form->count, form->count + 1, sizeof *pieces, r->e);
    if (!pieces) return false;
    form->pieces = pieces;
    pieces[form->count++] = (struct template_piece){kind, id, (int32_t)type};
    form->special += kind == PIECE_TOKEN;
    return true;
}

static bool frame(const struct part_reader *r, int32_t cls, int32_t sep, bool twice, uint32_t second,
                  struct post_processor *out)
{
    for (int pair = 0; pair < 2; pair++) {
        struct template *form = pair ? &out->pair : &out->single;
        if (cls >= 0) TRY(template_add(r, form, PIECE_TOKEN, cls, 0));
        TRY(template_add(r, form, PIECE_FIRST, 0, 0));
        if (sep >= 0) TRY(template_add(r, form, PIECE_TOKEN, sep, 0));
        if (!pair) continue;
        if (sep >= 0 && twice) TRY(template_add(r, form, PIECE_TOKEN, sep, 0));
        TRY(template_add(r, form, PIECE_SECOND, 0, second));
        if (sep >= 0) TRY(template_add(r, form, PIECE_TOKEN, sep, second));
    }
    out->framed = true;
    return true;
}

bool post_processor_bert(const struct part_reader *r, int32_t cls, int32_t sep, struct post_processor *out)
{
    return frame(r, cls, sep, false, 1, out);
}

bool post_processor_roberta(const struct part_reader *r, int32_t cls, int32_t sep, struct post_processor *out)
{
    return frame(r, cls, sep, true, 0, out);
}

static bool template_special(const struct part_reader *r, const json_t *json, const char *name, uint32_t type,
                             struct template *form)
{
    const json_t *ids = json_object_get(json_object_get(json_object_get(json, "special_tokens"), name), "ids");
    if (!json_is_array(ids))
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "its \"special_tokens\" lack \"%.100s\"", name);
    if (form->count + json_array_size(ids) > PARTS_MOST) return part_wrong(r, "ids", "a short array");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        uint32_t id = 0;
        TRY(part_count(r, json_array_get(ids, i), "ids", r->vocabulary, &id));
        TRY(template_add(r, form, PIECE_TOKEN, (int32_t)id, type));
    }
    return true;
}

static bool template_read(const struct part_reader *r, const json_t *json, const char *key, bool pair,
                          struct template *form)
{
    const json_t *pieces = json_object_get(json, key);
    int texts[2] = {0}; /* how often each is there: where to cut is counted for once */
    if (!json_is_array(pieces) || json_array_size(pieces) > PARTS_MOST) return part_wrong(r, key, "a short array");
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i), *sequence = json_object_get(piece, "Sequence"),
                     *special = json_object_get(piece, "SpecialToken"), *one = sequence ? sequence : special;
        const char *id = "";
        uint32_t type = 0;
        if (!one) return part_wrong(r, key, "made of \"Sequence\" and \"SpecialToken\"");
        TRY(part_string(r, one, "id", &id) &&
            part_count(r, json_object_get(one, "type_id"), "type_id", INT32_MAX, &type));
        if (special) {
            TRY(template_special(r, json, id, type, form));
        } else {
            bool second = !strcmp(id, "B");
            if ((!second && strcmp(id, "A")) || (second && !pair))
                return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" has a sequence \"%.100s\"", key, id);
            TRY(template_add(r, form, second ? PIECE_SECOND : PIECE_FIRST, 0, type));
            texts[second]++;
        }
    }
    if (texts[0] == 1 && texts[1] == pair) return true;
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" does not have %s exactly once", key,
                pair ? "each of the sequences \"A\" and \"B\"" : "the sequence \"A\"");
}

/* ---- kinds ---- */

static bool open_template(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    out->framed = true;
    return template_read(r, json, "single", false, &out->single) && template_read(r, json, "pair", true, &out->pair);
}

static bool special_ids(const struct part_reader *r, const json_t *json, int32_t *cls, int32_t *sep)
{
    uint32_t ids[2] = {0};
    TRY(part_count(r, json_array_get(json_object_get(json, "cls"), 1), "cls", r->vocabulary, &ids[0]) &&
        part_count(r, json_array_get(json_object_get(json, "sep"), 1), "sep", r->vocabulary, &ids[1]));
    *cls = (int32_t)ids[0];
    *sep = (int32_t)ids[1];
    return true;
}

static bool open_bert(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    int32_t cls = 0, sep = 0;
    return special_ids(r, json, &cls, &sep) && post_processor_bert(r, cls, sep, out);
}

/* Of byte-level tokens. */
static bool open_trim(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    bool trim = true, prefix = true;
    TRY(part_optional_bool(r, json, "trim_offsets", &trim) && part_optional_bool(r, json, "add_prefix_space", &prefix));
    if (!trim) return true;
    if (out->trim_count == TRIMS_MOST) return part_wrong(r, "processors", "a short array");
    out->trims[out->trim_count++] = prefix;
    return true;
}

static bool open_roberta(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    int32_t cls = 0, sep = 0;
    return special_ids(r, json, &cls, &sep) && open_trim(r, json, out) && post_processor_roberta(r, cls, sep, out);
}

static const struct {
    const char *type; /* as tokenizer.json names it */
    bool (*open)(const struct part_reader *r, const json_t *json, struct post_processor *out);
    bool frames; /* gives the templates, which one alone may */
} kinds[] = {{"TemplateProcessing", open_template, true},
             {"BertProcessing", open_bert, true},
             {"RobertaProcessing", open_roberta, true},
             {"ByteLevel", open_trim, false}};

static bool read_one(const struct part_reader *r, const json_t *json, const char *type, struct post_processor *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].type, type)) continue;
        if (kinds[i].frames && out->framed)
            return fail(r->e, WHERRY_STATUS_UNSUPPORTED,
                        "its post-processor gives special tokens twice, the second time by \"%.100s\"", type);
        return kinds[i].open(r, json, out);
    }
    return part_unsupported(r, "post-processor", type);
}

static bool read_all(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    const char *type;
    TRY(part_type(r, json, "post-processor", &type));
    if (strcmp(type, "Sequence")) return read_one(r, json, type, out);
    const json_t *members = json_object_get(json, "processors");
    if (!json_is_array(members) || json_array_size(members) > PARTS_MOST)
        return part_wrong(r, "processors", "a short array");
    for (size_t i = 0; i < json_array_size(members); i++) TRY(read_all(r, json_array_get(members, i), out));
    return true;
}

bool post_processor_read(const struct part_reader *r, const json_t *json, struct post_processor *out)
{
    if (json && !json_is_null(json)) TRY(read_all(r, json, out));
    return out->framed || frame(r, -1, -1, false, 1, out);
}

void post_processor_free(const struct host *host, struct post_processor *post)
{
    host_free(host, post->single.pieces);
    host_free(host, post->pair.pieces);
    *post = (struct post_processor){.framed = false};
}

/* ---- places ---- */

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

void post_processor_trim(const struct post_processor *post, struct token_place *places, size_t count)
{
    for (size_t t = 0; t < post->trim_count; t++) {
        for (size_t i = 0; i < count; i++) {
            struct token_place *place = &places[i];
            uint32_t leading = place->leading;
            if (post->trims[t] && leading == 1 && (i == 0 || place->first == 0)) leading = 0;
            place->first = smaller(place->first + leading, place->end);
            if (place->trailing && place->end >= place->trailing)
                place->end = place->end - place->first > place->trailing ? place->end - place->trailing : place->first;
        }
    }
}
