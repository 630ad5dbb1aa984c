/* What the options of `wherry train` say of low-rank adapters. */
#include "train/lora.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"

void names_split(const char *text, struct name_list *out)
{
    size_t count = 1;
    *out = (struct name_list){.count = 0};
    if (!text) return;
    out->text = strcpy(need(malloc(strlen(text) + 1)), text);
    for (const char *at = text; *at; at++) count += *at == ',';
    out->names = need(malloc(count * sizeof *out->names));
    for (char *word = out->text, *next; word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = 0;
        out->names[out->count++] = word;
    }
}

void names_free(struct name_list *list)
{
    free(list->text);
    free(list->names);
    *list = (struct name_list){.count = 0};
}

int lora_check(const struct options *options)
{
    const bool new = options->lora, old = options->adapter != NULL;
    if (new &&old)
        return complain(EXIT_USAGE, "--adapter goes on with that adapter's rank and layers: leave --lora out");
    if (!new && (options->lora_alpha > 0 || options->rslora || options->lora_targets || options->lora_save))
        return complain(EXIT_USAGE,
                        "--lora-alpha, --lora-targets, --lora-save and --rslora are for a new adapter: --lora "
                        "RANK");
    if (!new && !old && options->lora_merge)
        return complain(EXIT_USAGE, "--lora-merge needs an adapter: --lora RANK, or --adapter FOLDER");
    if ((new || old) && options->freeze)
        return complain(EXIT_USAGE,
                        "with an adapter all weights but its own are frozen: choose layers by --lora-targets "
                        "instead of --freeze");
    if ((new || old) && options->init)
        return complain(EXIT_USAGE, "an adapter changes weights that were trained: leave --init out");
    return EXIT_FINE;
}

void lora_describe(struct lora_options *lora, const struct options *options)
{
    names_split(options->lora_targets, &lora->targets);
    names_split(options->lora_save, &lora->saved);
    lora->used = options->lora || options->adapter;
    lora->merged = options->lora_merge;
    lora->desc = (wherry_lora_desc){.struct_size = sizeof lora->desc,
                                    .rank = options->lora,
                                    .alpha = options->lora_alpha > 0 ? (float)options->lora_alpha : 0,
                                    .root = options->rslora,
                                    .targets = lora->targets.names,
                                    .n_targets = lora->targets.count,
                                    .saved = lora->saved.names,
                                    .n_saved = lora->saved.count,
                                    .adapter = options->adapter};
}

void lora_close(struct lora_options *lora)
{
    names_free(&lora->targets);
    names_free(&lora->saved);
}

static json_t *list_json(const struct name_list *list)
{
    json_t *json = need(json_array());
    for (size_t i = 0; i < list->count; i++) json_array_append_new(json, need(json_string(list->names[i])));
    return json;
}

json_t *lora_json(const struct lora_options *lora)
{
    const wherry_lora_desc *d = &lora->desc;
    if (!lora->used) return NULL;
    return need(json_pack("{s:I, s:f, s:b, s:o, s:o, s:s*}", "rank", (json_int_t)d->rank, "alpha", (double)d->alpha,
                          "rslora", d->root, "targets", list_json(&lora->targets), "save", list_json(&lora->saved),
                          "adapter", d->adapter));
}
