/* The list of architectures, and what is looked up in it. */
#include "model/architecture.h"

#include <string.h>

#include "base/text.h"

extern const struct architecture architecture_bert, architecture_roberta, architecture_distilbert, architecture_electra,
    architecture_mpnet, architecture_nomic_bert, architecture_gte, architecture_modernbert, architecture_jina_code,
    architecture_jina_bert, architecture_jina_v3, architecture_qwen3, architecture_gemma3;

static const struct architecture *const architectures[] = {
    &architecture_bert,      &architecture_roberta,    &architecture_distilbert, &architecture_electra,
    &architecture_mpnet,     &architecture_nomic_bert, &architecture_gte,        &architecture_modernbert,
    &architecture_jina_code, &architecture_jina_bert,  &architecture_jina_v3,    &architecture_qwen3,
    &architecture_gemma3};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

/* "BertModel", "BertForMaskedLM", "BertLMHeadModel": not "BertweetModel", "JinaBertModel". Only where a model_type says
 * the same, others, too, such as "BertCrf". */
static bool has_class(const struct family *family, const char *name, bool known)
{
    static const char *const ends[] = {"Model", "For", "LMHead"};
    size_t length = strlen(family->classes);
    bool is = false;
    if (strncmp(name, family->classes, length)) return false;
    if (!known) return name[length] >= 'A' && name[length] <= 'Z';
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) is |= !strncmp(name + length, ends[i], strlen(ends[i]));
    return is;
}

const struct architecture *architecture_find(const char *type, const char *name, const char *origin,
                                             const struct family **family)
{
    for (size_t a = 0; a < ARCHITECTURES; a++) {
        const char *own = architectures[a]->origin;
        if (own && !(origin && strstr(origin, own))) continue;
        for (const struct family *f = architectures[a]->families; f->type; f++) {
            if ((type && strcmp(f->type, type)) || (name && !has_class(f, name, !type))) continue;
            *family = f;
            return architectures[a];
        }
    }
    return NULL;
}

/* Whether its encoders may have no segments, though it has a name for them. */
static bool types_optional(const struct architecture *a)
{
    for (const struct size_key *size = a->sizes; size->keys[0]; size++)
        if (size->field == offsetof(wherry_model_config, token_types)) return size->none;
    return true;
}

bool architecture_takes_types(const struct architecture *a, uint32_t token_types)
{
    return token_types ? a->modules[WEIGHT_TYPE][0] != NULL : !a->modules[WEIGHT_TYPE][0] || types_optional(a);
}

/* Whether its feed-forwards are such; those of a mixture have no gate, and all biases or none. */
static bool feed_forward_fits(const struct architecture *a, const wherry_model_config *c)
{
    const wherry_model_config *preset = &a->preset;
    if (c->experts) return a->modules[WEIGHT_ROUTER][0] && !c->gate && (!c->without || c->without == preset->without);
    return c->gate == preset->gate && c->without == preset->without;
}

/* Whether it has the weights that such a shape wants, and no other. */
static bool fits(const struct architecture *a, const wherry_model_config *c)
{
    bool relative = a->modules[WEIGHT_RELATIVE][0], projected = a->modules[WEIGHT_PROJECT][0];
    if (c->wide_norms != a->preset.wide_norms || c->double_norms != a->preset.double_norms) return false;
    if (c->head_norms != a->preset.head_norms ||
        (a->modules[WEIGHT_QKV][0] && !a->preset.head_norms && (heads_grouped(c) || c->head_channels)))
        return false;
    if (c->norm != a->preset.norm || c->pre_layernorm != a->preset.pre_layernorm) return false;
    if (relative || c->relative_buckets) return relative && c->relative_buckets;
    const wherry_model_config *preset = &a->preset;
    if (!!(c->rotary_base > 0) != a->rotary || !feed_forward_fits(a, c)) return false;
    if (c->block_norms != preset->block_norms || !(c->embedding_scale > 0) != !(preset->embedding_scale > 0))
        return false;
    if (c->causal != preset->causal || !c->window != !preset->window || c->alibi != preset->alibi) return false;
    return (a->padding != NULL) == (c->position_offset > 0) && projected == (c->embedding > 0) &&
           architecture_takes_types(a, c->token_types);
}

const struct architecture *architecture_of_shape(const wherry_model_config *config, const struct family **family)
{
    for (size_t a = 0; a < ARCHITECTURES; a++) {
        if (!fits(architectures[a], config)) continue;
        *family = architectures[a]->families;
        return architectures[a];
    }
    return NULL;
}

void architecture_types(char *text, size_t size)
{
    struct text_writer t = text_begin(text, size);
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (const struct family *f = architectures[a]->families; f->type; f++)
            if (!a || strcmp(f->type, architectures[0]->families->type)) /* others are BERT's by type, too */
                text_add(&t, "%s%s", t.used ? ", " : "", f->type);
}

bool architecture_shape(const char *name, wherry_model_config *out, struct error *e)
{
    char names[400];
    struct text_writer t = text_begin(names, sizeof names);
    for (size_t a = 0; a < ARCHITECTURES; a++)
        for (const struct named_shape *shape = architectures[a]->shapes; shape && shape->name; shape++) {
            text_add(&t, "%s%s", t.used ? ", " : "", shape->name);
            if (!name || strcmp(name, shape->name)) continue;
            *out = shape->config;
            out->struct_size = sizeof *out;
            return true;
        }
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "there is no model shape named \"%.100s\": the names are %s",
                name ? name : "", names);
}
