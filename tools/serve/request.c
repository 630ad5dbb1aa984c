/* What a request's body asks for, in each dialect. */
#include "request.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "fields.h"

/* ---- texts ---- */

static size_t characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static void set_text(struct item *item, const json_t *text)
{
    item->text.text = json_string_value(text);
    item->text.text_bytes = json_string_length(text);
    item->call->characters += characters(item->text.text, item->text.text_bytes);
}

static void set_pair(struct item *item, const json_t *text)
{
    item->text.pair = json_string_value(text);
    item->text.pair_bytes = json_string_length(text);
    item->call->characters += characters(item->text.pair, item->text.pair_bytes);
}

static bool empty(struct call *call, const char *name)
{
    call_fail(call, 400, ERROR_EMPTY, FAILED_VALIDATION, "`%s` cannot be empty", name);
    return false;
}

/* Items for the elements of a list, or for one text that is no list. */
static bool make_items(struct call *call, const struct settings *settings, const char *name, size_t count)
{
    if (!count) return empty(call, name);
    if (count > settings->client_batch) {
        call_fail(call, 422, ERROR_VALIDATION, FAILED_BATCH_SIZE, "batch size %zu > maximum allowed batch size %u",
                  count, settings->client_batch);
        return false;
    }
    call_items(call, (uint32_t)count);
    return true;
}

static bool are_integers(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_integer(json_array_get(list, i))) return false;
    return true;
}

/* A string, or a list of ids where the task takes them. */
static bool set_input(struct item *item, const char *name, const json_t *value, bool ids)
{
    if (json_is_string(value)) {
        if (!json_string_length(value)) return empty(item->call, name);
        set_text(item, value);
        return true;
    }
    if (!ids || !json_is_array(value) || !are_integers(value))
        return field_wrong(item->call, "`%s` has an entry that is not a string%s", name,
                           ids ? " or a list of ids" : "");
    if (!json_array_size(value)) return empty(item->call, name);
    item->given = value;
    return true;
}

/* "a", ["a", "b"]; with ids also [1, 2], [[1, 2], "a"]. */
static bool read_inputs(struct call *call, const struct settings *settings, const json_t *object, const char *name,
                        bool ids)
{
    const json_t *value = field_of(object, name);
    if (!value) return field_wrong(call, "`%s` is missing: a string or a list is needed", name);
    bool one = json_is_string(value) || (ids && json_array_size(value) && json_is_integer(json_array_get(value, 0)));
    if (!one && !json_is_array(value)) return field_wrong(call, "`%s` is not a string or a list", name);
    call->list = !one;
    if (!make_items(call, settings, name, one ? 1 : json_array_size(value))) return false;
    for (uint32_t i = 0; i < call->count; i++)
        if (!set_input(&call->items[i], name, one ? value : json_array_get(value, i), ids)) return false;
    return true;
}

/* Strings, or objects with "text", each the second one of a pair with the query. */
static bool read_documents(struct call *call, const struct settings *settings, const char *name)
{
    const json_t *list = field_of(call->json, name), *query;
    if (!field_needed(call, call->json, "query", &query)) return false;
    if (!json_is_array(list)) return field_wrong(call, "`%s` is missing, or not a list", name);
    if (!make_items(call, settings, name, json_array_size(list))) return false;
    call->list = true;
    call->query = json_string_value(query);
    call->query_bytes = json_string_length(query);
    for (uint32_t i = 0; i < call->count; i++) {
        const json_t *text = json_array_get(list, i);
        if (json_is_object(text) && call->dialect == DIALECT_RANK) text = json_object_get(text, "text");
        if (!json_is_string(text)) return field_wrong(call, "entry %u of `%s` is not a string", i, name);
        if (!call->query_bytes && !json_string_length(text)) return empty(call, name);
        set_text(&call->items[i], text);
    }
    call->characters += call->count * characters(call->query, call->query_bytes);
    return true;
}

/* ["a"], ["a", "b"] */
static bool set_sequence(struct item *item, const json_t *list)
{
    size_t count = json_array_size(list);
    const json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    if (count < 1 || count > 2 || !json_is_string(first) || (second && !json_is_string(second)))
        return field_wrong(item->call, "`inputs` is not a string, a pair of strings, or a list of lists of one or two");
    if (!json_string_length(first) && !json_string_length(second)) return empty(item->call, "inputs");
    set_text(item, first);
    if (second) set_pair(item, second);
    return true;
}

static bool read_sequences(struct call *call, const struct settings *settings)
{
    const json_t *value = field_of(call->json, "inputs");
    if (!value) return field_wrong(call, "`inputs` is missing: a string or a list is needed");
    bool text = json_is_string(value);
    if (!text && !json_is_array(value)) return field_wrong(call, "`inputs` is not a string or a list");
    if (!text && !json_array_size(value)) return empty(call, "inputs");
    call->list = !text && json_is_array(json_array_get(value, 0));
    if (!make_items(call, settings, "inputs", call->list ? json_array_size(value) : 1)) return false;
    if (text) return set_input(&call->items[0], "inputs", value, false);
    if (!call->list) return set_sequence(&call->items[0], value);
    for (uint32_t i = 0; i < call->count; i++)
        if (!set_sequence(&call->items[i], json_array_get(value, i))) return false;
    return true;
}

/* The first item is the source, the others are compared with it. */
static bool read_similarity(struct call *call, const struct settings *settings)
{
    const json_t *inputs = field_of(call->json, "inputs"), *source;
    if (!json_is_object(inputs))
        return field_wrong(call, "`inputs` is not an object with `source_sentence` and `sentences`");
    const json_t *list = field_of(inputs, "sentences");
    if (!field_needed(call, inputs, "source_sentence", &source)) return false;
    if (!json_is_array(list)) return field_wrong(call, "`sentences` is missing, or not a list");
    if (json_array_size(list) > settings->client_batch || !json_array_size(list))
        return make_items(call, settings, "sentences", json_array_size(list));
    call_items(call, (uint32_t)json_array_size(list) + 1);
    call->list = true;
    if (!set_input(&call->items[0], "source_sentence", source, false)) return false;
    for (uint32_t i = 1; i < call->count; i++)
        if (!set_input(&call->items[i], "sentences", json_array_get(list, i - 1), false)) return false;
    return true;
}

/* [1, 2] or [[1, 2], [3]] */
static bool read_ids(struct call *call, const struct settings *settings)
{
    const json_t *value = field_of(call->json, "ids");
    if (!json_is_array(value)) return field_wrong(call, "`ids` is missing, or not a list");
    call->list = !json_is_integer(json_array_get(value, 0));
    if (!json_array_size(value)) return empty(call, "ids");
    if (!make_items(call, settings, "ids", call->list ? json_array_size(value) : 1)) return false;
    for (uint32_t i = 0; i < call->count; i++) {
        const json_t *ids = call->list ? json_array_get(value, i) : value;
        if (!json_is_array(ids) || !are_integers(ids))
            return field_wrong(call, "`ids` has an entry that is not a list of ids");
        call->items[i].given = ids;
    }
    return true;
}

/* ---- how ---- */

static bool read_truncation(struct call *call, const struct settings *settings, const json_t *object)
{
    const json_t *direction;
    call->truncate = settings->truncate;
    if (!field_bool(call, object, "truncate", &call->truncate)) return false;
    if (!field_string(call, object, "truncation_direction", &direction)) return false;
    if (!direction) return true;
    const char *name = json_string_value(direction);
    if (strcasecmp(name, "left") && strcasecmp(name, "right"))
        return field_wrong(call, "`truncation_direction` \"%.40s\" is not \"left\" or \"right\"", name);
    call->direction = strcasecmp(name, "left") ? TRUNCATE_RIGHT : TRUNCATE_LEFT;
    return true;
}

/* Of the model's prompts; what the name makes of texts, too. */
static bool find_prompt(struct call *call, wherry_context *context, const char *name)
{
    wherry_status status = wherry_model_prompt(context, call->model->model, name, &call->prompt);
    call->form = (wherry_text_form){.struct_size = sizeof call->form};
    if (!status) status = wherry_model_text_form(context, call->model->model, name, &call->form);
    return !status || field_wrong(call, "`prompt_name`: %s", wherry_last_error(context));
}

/* A string without a NUL, at which it would end. */
static bool field_text(struct call *call, const json_t *object, const char *name, const json_t **out)
{
    if (!field_string(call, object, name, out)) return false;
    return !*out || strlen(json_string_value(*out)) == json_string_length(*out) ||
           field_wrong(call, "`%s` has a NUL", name);
}

/* In front of each text. */
static bool read_prompt(struct call *call, wherry_context *context, const json_t *object)
{
    const json_t *name, *text, *instruction;
    call->prompt = call->model->prompt;
    call->form = call->model->form;
    if (!field_text(call, object, "prompt_name", &name) || !field_text(call, object, "prompt", &text) ||
        !field_text(call, object, "instruction", &instruction))
        return false;
    if (instruction)
        return field_wrong(call,
                           "`instruction` is for pairs of a model whose template has a place for one; what a text "
                           "begins with is `prompt`, or `prompt_name` of those that the model names");
    if (name && text) return field_wrong(call, "`prompt` and `prompt_name`: give one of them");
    if (name) return find_prompt(call, context, json_string_value(name));
    if (!text) return true;
    call->prompt = json_string_value(text);
    call->form = (wherry_text_form){.struct_size = sizeof call->form};
    return true;
}

/* Of pairs, where the model's template has a place for it; a name is that of one of the model's prompts, as
 * sentence-transformers' rerankers have it. */
static bool read_instruction(struct call *call, wherry_context *context)
{
    const json_t *name, *prompt, *text;
    call->prompt = call->model->prompt;
    call->form = call->model->form;
    if (!field_text(call, call->json, "prompt_name", &name) || !field_text(call, call->json, "prompt", &prompt) ||
        !field_text(call, call->json, "instruction", &text))
        return false;
    if (!name && !prompt && !text) return true;
    if (prompt) return field_wrong(call, "`prompt` is for texts; pairs have `instruction`");
    if (name && text) return field_wrong(call, "`instruction` and `prompt_name`: give one of them");
    if (!call->model->instructed)
        return field_wrong(call, "`%s`: the pairs of %s have no place for an instruction",
                           text ? "instruction" : "prompt_name", call->model->name);
    if (text) {
        call->instruction = json_string_value(text);
        return true;
    }
    bool found = find_prompt(call, context, json_string_value(name));
    call->instruction = call->prompt;
    return found;
}

/* A model whose pairs are framed is asked by pairs. */
static bool asks_pairs(const struct call *call)
{
    return call->task == TASK_RERANK || (call->task == TASK_PREDICT && call->model->info.pair_template);
}

static bool check_pairs(struct call *call)
{
    for (uint32_t i = 0; call->instruction && i < call->count; i++)
        if (!call->items[i].text.pair)
            return field_wrong(call, "text %u is no pair, which alone have an instruction", i);
    return true;
}

/* What is asked for in front of texts is not put in front of ids. */
static bool check_given(struct call *call, const json_t *object)
{
    for (uint32_t i = 0; i < call->count; i++)
        if (call->items[i].given && (field_of(object, "prompt") || field_of(object, "prompt_name")))
            return field_wrong(call, "text %u is a list of ids, which have no prompt: give it as a string", i);
    return true;
}

/* Only of a model whose vectors are as wide or wider. */
static bool read_dimensions(struct call *call)
{
    uint32_t width = call->model->lanes[LANE_EMBED].plan.embedding_size;
    if (!field_count(call, call->json, "dimensions", &call->dimensions)) return false;
    if (call->dimensions > width)
        return field_wrong(call, "`dimensions` is %u, and the model's vectors have %u", call->dimensions, width);
    if (call->dimensions == width) call->dimensions = 0;
    return true;
}

static bool read_format(struct call *call)
{
    const json_t *format;
    if (!field_string(call, call->json, "encoding_format", &format)) return false;
    const char *name = format ? json_string_value(format) : "float";
    if (strcmp(name, "float") && strcmp(name, "base64"))
        return field_wrong(call, "`encoding_format` \"%.40s\" is not \"float\" or \"base64\"", name);
    call->base64 = !strcmp(name, "base64");
    return true;
}

/* ---- tasks ---- */

static bool read_embed(struct call *call, const struct settings *settings)
{
    bool openai = call->dialect == DIALECT_OPENAI;
    if (!openai && !field_bool(call, call->json, "normalize", &call->normalize)) return false;
    if (openai && !read_format(call)) return false;
    return read_dimensions(call) && read_inputs(call, settings, call->json, openai ? "input" : "inputs", true);
}

static bool read_rerank(struct call *call, const struct settings *settings)
{
    bool rank = call->dialect == DIALECT_RANK;
    if (!field_bool(call, call->json, "raw_scores", &call->raw_scores)) return false;
    if (!field_bool(call, call->json, rank ? "return_documents" : "return_text", &call->return_text)) return false;
    if (rank && !field_count(call, call->json, "top_n", &call->top)) return false;
    return read_documents(call, settings, rank ? "documents" : "texts");
}

static bool read_task(struct call *call, const struct settings *settings, wherry_context *context)
{
    const json_t *more = field_of(call->json, "parameters");
    bool similarity = call->task == TASK_SIMILARITY && json_is_object(more);
    if (!read_truncation(call, settings, similarity ? more : call->json)) return false;
    if (asks_pairs(call) ? !read_instruction(call, context)
                         : !read_prompt(call, context, similarity ? more : call->json))
        return false;
    switch (call->task) {
    case TASK_EMBED:
        return read_embed(call, settings) && check_given(call, call->json);
    case TASK_EMBED_ALL:
    case TASK_EMBED_SPARSE:
        return read_inputs(call, settings, call->json, "inputs", true) && check_given(call, call->json);
    case TASK_RERANK:
        return read_rerank(call, settings);
    case TASK_PREDICT:
        return field_bool(call, call->json, "raw_scores", &call->raw_scores) && read_sequences(call, settings) &&
               check_pairs(call);
    case TASK_SIMILARITY:
        return read_similarity(call, settings);
    case TASK_TOKENIZE:
        return field_bool(call, call->json, "add_special_tokens", &call->add_special) &&
               read_inputs(call, settings, call->json, "inputs", false);
    case TASK_DECODE:
        return field_bool(call, call->json, "skip_special_tokens", &call->skip_special) && read_ids(call, settings);
    default:
        return false;
    }
}

/* ---- which model ---- */

static bool can(const struct served *model, enum task task)
{
    return task == TASK_NATURAL || task == TASK_TOKENIZE || task == TASK_DECODE ||
           models_lane(model, task, false) != LANES;
}

static bool is_similarity(const struct call *call) { return json_is_object(json_object_get(call->json, "inputs")); }

/* By its name; of one model every name is right, as clients name models that they know. Without a name the first that
 * can do it. */
static bool choose_model(struct call *call)
{
    const json_t *name;
    uint32_t count = engine_models(call->engine);
    if (!field_string(call, call->json, "model", &name)) return false;
    call->model = engine_model(call->engine, 0);
    if (count == 1) return true;
    for (uint32_t m = count; m-- > 0;) {
        struct served *model = engine_model(call->engine, m);
        if (name ? !strcmp(json_string_value(name), model->name) : can(model, call->task)) {
            call->model = model;
            if (name) return true;
        }
    }
    if (!name) return true;
    call_fail(call, 404, ERROR_VALIDATION, FAILED_VALIDATION, "there is no model \"%.100s\"; GET /v1/models lists them",
              json_string_value(name));
    return false;
}

static bool check_task(struct call *call)
{
    static const char *const what[] = {[TASK_EMBED] = "an embedding model",
                                       [TASK_EMBED_ALL] = "an embedding model",
                                       [TASK_EMBED_SPARSE] = "a model with sparse embeddings",
                                       [TASK_RERANK] = "a re-ranker model",
                                       [TASK_PREDICT] = "a classifier model",
                                       [TASK_SIMILARITY] = "an embedding model"};
    if (call->task == TASK_NATURAL) call->task = is_similarity(call) ? TASK_SIMILARITY : models_natural(call->model);
    if (call->task == TASK_RERANK && json_object_get(call->json, "inputs") && !json_object_get(call->json, "query"))
        call->task = TASK_PREDICT;
    if (can(call->model, call->task)) return true;
    call_fail(call, 424, ERROR_BACKEND, FAILED_MODEL_TYPE, "model is not %s: %s is for %s", what[call->task],
              call->model->name, models_kind_name(call->model));
    return false;
}

bool request_read(struct call *call, const struct settings *settings, wherry_context *context)
{
    const struct json_limits limits = {.bytes = settings->payload, .values = 1 << 18, .depth = 16};
    char why[JSON_WHY];
    const char *text = call->body.at ? call->body.at : "";
    wherry_status status = json_read(text, call->body.used, &limits, JSON_ALLOW_NUL, &call->json, why);
    bytes_free(&call->body);
    if (status == WHERRY_STATUS_OUT_OF_HOST_MEMORY) {
        call_fail(call, 503, ERROR_OVERLOADED, FAILED_OVERLOADED, "%s", why);
        return false;
    }
    if (status) return field_wrong(call, "the body: %s", why);
    if (call->task == TASK_RERANK && call->dialect == DIALECT_TEI && json_object_get(call->json, "documents") &&
        !json_object_get(call->json, "texts"))
        call->dialect = DIALECT_RANK;
    if (!json_is_object(call->json)) return field_wrong(call, "the body is not a JSON object");
    return choose_model(call) && check_task(call) && read_task(call, settings, context);
}
