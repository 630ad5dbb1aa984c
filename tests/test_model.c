/* Models: every published form gives the same weights; every wrong or hostile folder gives an error that says what is
 * wrong and what to do. */
#include "model_files.h"

#include <jansson.h>

#include "model/architecture.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BAD WHERRY_STATUS_BAD_FORMAT
#define NO WHERRY_STATUS_UNSUPPORTED

/* ---- folders that are right ---- */

static struct wherry_model *open_good(const char *what, const char *folder)
{
    struct wherry_model *model = NULL;
    struct error e = {0};
    if (!model_open(&files_host, folder, &model, &e)) fail_msg("%s: %s", what, e.text);
    return model;
}

static void expect_part(const struct wherry_model *model, enum weight weight, int layer, int part, uint64_t elements,
                        const char *name)
{
    const struct weight_part *parts;
    int n = model_weight(model, weight, layer, &parts);
    assert_true(part < n);
    if (parts[part].elements != elements) fail_msg("%s has %d elements", name, (int)parts[part].elements);
    float *values = malloc((size_t)elements * sizeof *values), last;
    uint16_t *halves = malloc((size_t)elements * sizeof *halves);
    static unsigned char raw[WEIGHT_RAW_BYTES];
    struct error e = {0};
    assert_true(weight_convert(&parts[part], 0, elements, WEIGHT_TYPE_F32, raw, values, &e));
    assert_true(weight_convert(&parts[part], 0, elements, WEIGHT_TYPE_F16, raw, halves, &e));
    for (uint64_t i = 0; i < elements; i++) {
        if (values[i] != tiny_value(name, i)) fail_msg("%s[%d] is %g", name, (int)i, (double)values[i]);
        if (half_to_float(halves[i]) != values[i]) fail_msg("%s[%d] differs in f16", name, (int)i);
    }
    assert_true(weight_convert(&parts[part], elements - 1, 1, WEIGHT_TYPE_F32, raw, &last, &e));
    assert_true(last == values[elements - 1]);
    free(values);
    free(halves);
}

static void expect_tiny_weights(const struct wherry_model *model, bool pooler)
{
    enum { H = TINY_HIDDEN, F = TINY_FEED_FORWARD };
    expect_part(model, WEIGHT_WORD, -1, 0, TINY_VOCABULARY * H, "embeddings.word_embeddings.weight");
    expect_part(model, WEIGHT_POSITION, -1, 0, TINY_POSITIONS * H, "embeddings.position_embeddings.weight");
    expect_part(model, WEIGHT_TYPE, -1, 0, TINY_TYPES * H, "embeddings.token_type_embeddings.weight");
    expect_part(model, WEIGHT_EMBED_GAMMA, -1, 0, H, "embeddings.LayerNorm.weight");
    expect_part(model, WEIGHT_EMBED_BETA, -1, 0, H, "embeddings.LayerNorm.bias");
    static const struct {
        enum weight weight;
        int part, elements;
        const char *name;
    } of_layer[] = {
        {WEIGHT_QKV, 0, H * H, "attention.self.query.weight"},
        {WEIGHT_QKV_BIAS, 0, H, "attention.self.query.bias"},
        {WEIGHT_QKV, 1, H * H, "attention.self.key.weight"},
        {WEIGHT_QKV_BIAS, 1, H, "attention.self.key.bias"},
        {WEIGHT_QKV, 2, H * H, "attention.self.value.weight"},
        {WEIGHT_QKV_BIAS, 2, H, "attention.self.value.bias"},
        {WEIGHT_OUT, 0, H * H, "attention.output.dense.weight"},
        {WEIGHT_OUT_BIAS, 0, H, "attention.output.dense.bias"},
        {WEIGHT_GAMMA1, 0, H, "attention.output.LayerNorm.weight"},
        {WEIGHT_BETA1, 0, H, "attention.output.LayerNorm.bias"},
        {WEIGHT_LIN1, 0, F * H, "intermediate.dense.weight"},
        {WEIGHT_LIN1_BIAS, 0, F, "intermediate.dense.bias"},
        {WEIGHT_LIN2, 0, F * H, "output.dense.weight"},
        {WEIGHT_LIN2_BIAS, 0, H, "output.dense.bias"},
        {WEIGHT_GAMMA2, 0, H, "output.LayerNorm.weight"},
        {WEIGHT_BETA2, 0, H, "output.LayerNorm.bias"},
    };
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
            char *name = files_format("encoder.layer.%d.%s", layer, of_layer[i].name);
            expect_part(model, of_layer[i].weight, layer, of_layer[i].part, (uint64_t)of_layer[i].elements, name);
            free(name);
        }
    }
    const struct weight_part *parts;
    assert_int_equal(model_weight(model, WEIGHT_FINAL_GAMMA, -1, &parts), 0);
    assert_int_equal(model_weight(model, WEIGHT_POOLER, -1, &parts), pooler);
    if (!pooler) return;
    expect_part(model, WEIGHT_POOLER, -1, 0, H * H, "pooler.dense.weight");
    expect_part(model, WEIGHT_POOLER_BIAS, -1, 0, H, "pooler.dense.bias");
}

static void opens_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct tiny_model model;
    } cases[] = {
        {"plain", {0}},
        {"prefix", {.prefix = "bert."}},
        {"F16", {.dtype = "F16"}},
        {"BF16", {.dtype = "BF16", .prefix = "bert."}},
        {"old names", {.old_names = true, .prefix = "bert."}},
        {"old names without prefix", {.old_names = true}},
        {"no pooler", {.no_pooler = true}},
        {"sharded", {.sharded = true}},
        {"sharded with prefix", {.sharded = true, .prefix = "bert.", .dtype = "F16"}},
        {"no tokenizer", {.no_vocabulary = true}},
        {"sentence-transformers", {.sentence = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tiny_model *m = &cases[i].model;
        char *folder = files_folder();
        tiny_model_write(folder, m);
        struct wherry_model *model = open_good(cases[i].what, folder);
        const wherry_model_info *info = &model->info;
        assert_int_equal(info->config.layers, TINY_LAYERS);
        assert_int_equal(info->config.hidden, TINY_HIDDEN);
        assert_int_equal(info->config.heads, TINY_HEADS);
        assert_int_equal(info->config.feed_forward, TINY_FEED_FORWARD);
        assert_int_equal(info->config.vocabulary, TINY_VOCABULARY);
        assert_int_equal(info->config.positions, TINY_POSITIONS);
        assert_int_equal(info->config.token_types, TINY_TYPES);
        assert_int_equal(info->config.activation, WHERRY_ACTIVATION_GELU);
        assert_int_equal(info->config.pooler, !m->no_pooler);
        assert_true(info->config.epsilon == 1e-12f);
        assert_int_equal(info->has_tokenizer, !m->no_vocabulary);
        assert_int_equal(info->pool, WHERRY_POOL_MEAN);
        assert_int_equal(info->normalize, m->sentence);
        assert_int_equal(info->max_tokens, m->sentence ? 16 : TINY_POSITIONS);
        assert_int_equal(info->parameters, m->no_pooler ? 5600 : 5872);
        assert_true(info->weight_file_bytes > info->parameters * (m->dtype ? 2 : 4));
        assert_string_equal(info->architecture, "BertModel");
        expect_tiny_weights(model, !m->no_pooler);
        model_close(model);
        files_remove(folder);
    }
}

/* ---- folders that are wrong ---- */

/* `says`: what is wrong; `remedy`: what to do. Either may be NULL. */
static void expect_refused(const char *what, const char *folder, wherry_status status, const char *says,
                           const char *remedy)
{
    struct wherry_model *model = NULL;
    struct error e = {0};
    if (model_open(&files_host, folder, &model, &e)) fail_msg("%s: was accepted", what);
    assert_null(model);
    if (e.status != status) fail_msg("%s: status %d: %s", what, e.status, e.text);
    if (says && !strstr(e.text, says)) fail_msg("%s: \"%s\" does not say \"%s\"", what, e.text, says);
    if (remedy && !strstr(e.text, remedy)) fail_msg("%s: \"%s\" does not say \"%s\"", what, e.text, remedy);
}

/* Replaces one value of a JSON file; `value` NULL removes it. */
static void json_edit(const char *folder, const char *name, const char *key, const char *value)
{
    char *path = files_format("%s/%s", folder, name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    if (value) {
        json_t *new_value = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(new_value);
        json_object_set_new(json, key, new_value);
    } else {
        assert_int_equal(json_object_del(json, key), 0);
    }
    assert_int_equal(json_dump_file(json, path, 0), 0);
    json_decref(json);
    free(path);
}

static void checks_config(void **state)
{
    (void)state;
    static const char unsupported[] = "supported", again[] = "get";
    static const struct {
        const char *key, *value;
        wherry_status status;
        const char *says, *remedy;
    } cases[] = {
        {"model_type", "\"roberta\"", NO, "roberta", "supported are encoders of the model types bert, roberta"},
        {"model_type", "\"distilbert\"", NO, "distilbert", unsupported},
        {"model_type", "\"modernbert\"", NO, "modernbert", unsupported},
        {"model_type", "\"xlm-roberta\"", NO, "xlm-roberta", unsupported},
        {"architectures", "[\"MegatronBertForMaskedLM\"]", NO, "MegatronBertForMaskedLM", unsupported},
        {"architectures", "[\"BertweetModel\"]", NO, "BertweetModel", unsupported},
        {"architectures", "[\"BertForMaskedLM\"]", WHERRY_STATUS_OK, NULL, NULL},
        {"architectures", NULL, WHERRY_STATUS_OK, NULL, NULL},
        {"model_type", NULL, WHERRY_STATUS_OK, NULL, NULL},
        {"hidden_act", "\"selu\"", NO, "selu", "supported are gelu"},
        {"hidden_act", "3", NO, "hidden_act", "supported are gelu"},
        {"hidden_act", "\"relu\"", WHERRY_STATUS_OK, NULL, NULL},
        {"position_embedding_type", "\"relative_key\"", NO, "relative_key", "supported is absolute"},
        {"position_embedding_type", "\"alibi\"", NO, "alibi", "supported is absolute"},
        {"position_embedding_type", NULL, WHERRY_STATUS_OK, NULL, NULL},
        {"is_decoder", "true", NO, "is_decoder", "only encoders"},
        {"is_decoder", "false", WHERRY_STATUS_OK, NULL, NULL},
        {"pruned_heads", "{\"0\": [1]}", NO, "pruned_heads", unsupported},
        {"pruned_heads", "{}", WHERRY_STATUS_OK, NULL, NULL},
        {"model_type", "\"xlm-roberta-xl\"", NO, "xlm-roberta-xl", unsupported},
        {"architectures", "[\"NomicBertModel\"]", NO, "NomicBertModel", unsupported},
        {"auto_map", "{\"AutoModel\": \"modeling.BertModel\"}", NO, "modeling.BertModel", "not run"},
        {"auto_map", "{\"AutoConfig\": \"configuration.BertConfig\"}", WHERRY_STATUS_OK, NULL, NULL},
        {"adapters", "{\"adapters\": {}}", NO, "adapters", "merge them"},
        {"relative_attention", "true", NO, "relative_attention", unsupported},
        {"rope_theta", "10000.0", NO, "rope_theta", unsupported},
        {"rope_scaling", "null", WHERRY_STATUS_OK, NULL, NULL},
        {"rope_scaling", "{\"type\": \"ntk\"}", NO, "rope_scaling", unsupported},
        {"rope_parameters", "{}", NO, "rope_parameters", unsupported},
        {"rotary_emb_base", "1000", NO, "rotary_emb_base", unsupported},
        {"rotary_value", "true", NO, "rotary_value", unsupported},
        {"pos_att_type", "[\"p2c\", \"c2p\"]", NO, "pos_att_type", unsupported},
        {"attention_window", "[512, 512]", NO, "attention_window", unsupported},
        {"sliding_window", "128", NO, "sliding_window", unsupported},
        {"use_task_id", "true", NO, "use_task_id", unsupported},
        {"is_encoder_decoder", "true", NO, "is_encoder_decoder", "only encoders"},
        {"add_cross_attention", "true", NO, "add_cross_attention", "only encoders"},
        {"is_decoder", "1", NO, "is_decoder", "only encoders"},
        {"chunk_size_feed_forward", "8", WHERRY_STATUS_OK, NULL, NULL},
        {"quantization_config", "{\"bits\": 8}", NO, "quantization_config", "save the model in F32"},
        {"hidden_size", NULL, BAD, "hidden_size", again},
        {"hidden_size", "0", BAD, "hidden_size", again},
        {"hidden_size", "-16", BAD, "hidden_size", again},
        {"hidden_size", "16.0", BAD, "hidden_size", again},
        {"hidden_size", "\"16\"", BAD, "hidden_size", again},
        {"hidden_size", "1099511627776", BAD, "hidden_size", again},
        {"hidden_size", "2097152", BAD, "hidden size is 2097152", "1 to 1048576"},
        {"hidden_size", "32", BAD,
         "embeddings.word_embeddings.weight has shape [44, 16], and config.json asks for [44, "
         "32]",
         again},
        {"num_attention_heads", "5", BAD, "not a multiple", NULL},
        {"num_attention_heads", "0", BAD, "num_attention_heads", again},
        {"layer_norm_eps", "0", BAD, "layer_norm_eps", again},
        {"layer_norm_eps", "-1e-12", BAD, "layer_norm_eps", again},
        {"layer_norm_eps", "\"1e-12\"", BAD, "layer_norm_eps", again},
        {"layer_norm_eps", NULL, WHERRY_STATUS_OK, NULL, NULL},
        {"vocab_size", "2147483647", BAD, "32 bits", "smaller model"},
        {"vocab_size", "43", BAD, "word_embeddings.weight has shape [44, 16]", again},
        {"max_position_embeddings", "512", BAD, "position_embeddings.weight has shape [24, 16]", again},
        {"type_vocab_size", "1", BAD, "token_type_embeddings.weight has shape [2, 16]", again},
        {"intermediate_size", "64", BAD, "intermediate.dense.weight has shape [32, 16]", again},
        {"num_hidden_layers", "3", BAD, "no tensor encoder.layer.2.attention.self.query.weight", again},
        {"num_hidden_layers", "2147483647", BAD, "layers is 2147483647", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder();
        tiny_model_write(folder, &(struct tiny_model){0});
        json_edit(folder, "config.json", cases[i].key, cases[i].value);
        char *what = files_format("%s = %s", cases[i].key, cases[i].value ? cases[i].value : "missing");
        if (cases[i].status) {
            expect_refused(what, folder, cases[i].status, cases[i].says, cases[i].remedy);
            expect_refused(what, folder, cases[i].status, folder, NULL);
        } else {
            model_close(open_good(what, folder));
        }
        free(what);
        files_remove(folder);
    }
}

static void checks_config_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        wherry_status status;
        const char *says;
    } cases[] = {
        {"", WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {"{", WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {"[]", WHERRY_STATUS_BAD_FORMAT, "not an object"},
        {"{}", WHERRY_STATUS_BAD_FORMAT, "model_type"},
        {"{\"model_type\": \"bert\", \"model_type\": \"bert\"}", WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {"{\"model_type\": \"\xc3\x28\"}", WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
        {"{\"model_type\": 7}", WHERRY_STATUS_BAD_FORMAT, "model_type"},
    };
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(folder, "config.json", cases[i].text);
        expect_refused(cases[i].text, folder, cases[i].status, cases[i].says, "config.json");
    }
    files_remove(folder);
}

/* What config.json of other architectures must not say, before any weight is looked for. */
static void checks_other_configs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        wherry_status status;
        const char *says;
    } cases[] = {
        {"{\"model_type\": \"mpnet\", \"relative_attention_num_buckets\": 16}", WHERRY_STATUS_UNSUPPORTED,
         "\"relative_attention_num_buckets\" is not 32, the only value"},
        {"{\"model_type\": \"distilbert\", \"n_layers\": 2, \"dim\": 16, \"hidden_size\": 32}",
         WHERRY_STATUS_BAD_FORMAT, "\"dim\" is 16 and \"hidden_size\" is 32, two names of one size"},
        {"{\"model_type\": \"distilbert\", \"n_layers\": 2, \"dim\": 16, \"n_heads\": 2, \"intermediate_size\": 8}",
         WHERRY_STATUS_BAD_FORMAT, "there is no \"hidden_dim\""},
        {"{\"model_type\": \"distilbert\", \"activation\": \"selu\"}", WHERRY_STATUS_UNSUPPORTED,
         "the activation \"selu\" (activation)"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 0}}",
         WHERRY_STATUS_BAD_FORMAT, "\"rope_theta\" is not a number over 0"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10}}",
         WHERRY_STATUS_UNSUPPORTED, "the rope_type \"yarn\" is not supported"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"rotary_emb_base\": -1000}",
         WHERRY_STATUS_BAD_FORMAT, "\"rotary_emb_base\" is not a number over 0"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"rotary_emb_base\": 10, \"rope_theta\": 20}",
         WHERRY_STATUS_BAD_FORMAT, "\"rotary_emb_base\" and \"rope_theta\" give rotary positions two bases"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"rotary_emb_fraction\": 0.5}",
         WHERRY_STATUS_UNSUPPORTED, "\"rotary_emb_fraction\" is not 1"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"prenorm\": true}",
         WHERRY_STATUS_UNSUPPORTED, "\"prenorm\" is true"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"prenorm\": 1}",
         WHERRY_STATUS_BAD_FORMAT, "\"prenorm\" is neither true nor false"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"num_experts\": 8, \"moe_every_n_layers\": 2}",
         WHERRY_STATUS_UNSUPPORTED, "the feed-forward has a gate: experts are supported without"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"activation_function\": \"mish\"}",
         WHERRY_STATUS_UNSUPPORTED, "the activation_function \"mish\" is not supported"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"head_dim\": 4}",
         WHERRY_STATUS_UNSUPPORTED, "\"head_dim\" times the number of heads is not the hidden size"},
        {"{\"model_type\": \"nomic_bert\", \"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 16, "
         "\"intermediate_size\": 8}",
         WHERRY_STATUS_BAD_FORMAT, "rotary positions turn pairs of channels, and a head has 1"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"logn_attention_scale\": true}",
         WHERRY_STATUS_UNSUPPORTED, "\"logn_attention_scale\" is true: it is supported false alone"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"pack_qkv\": false}",
         WHERRY_STATUS_UNSUPPORTED, "\"pack_qkv\" is false: it is supported true alone"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"layer_norm_type\": "
         "\"rms_norm\"}",
         WHERRY_STATUS_UNSUPPORTED, "the layer_norm_type \"rms_norm\" is not supported"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"position_embedding_type\": "
         "\"absolute\"}",
         WHERRY_STATUS_UNSUPPORTED, "the position_embedding_type \"absolute\" is not supported: supported is rope"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"position_embedding_type\": "
         "\"alibi\"}",
         WHERRY_STATUS_UNSUPPORTED, "the position_embedding_type \"alibi\" is not supported"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"yarn\", \"factor\": 2}}",
         WHERRY_STATUS_UNSUPPORTED,
         "the rope_scaling of type \"yarn\" is not supported: supported are ntk and dynamic"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"dynamic\", \"factor\": 0.5}}",
         WHERRY_STATUS_BAD_FORMAT, "\"factor\" of \"rope_scaling\" is not a number from 1 on"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 8, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"dynamic\", \"factor\": 2}}",
         WHERRY_STATUS_BAD_FORMAT, "are of heads of more than 2 channels"},
        {"{\"model_type\": \"gte\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"dynamic\", \"factor\": 2}, \"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 3}}",
         WHERRY_STATUS_BAD_FORMAT, "rotary positions are dynamic twice"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"ntk\", \"factor\": 0.5}}",
         WHERRY_STATUS_BAD_FORMAT, "\"factor\" of \"rope_scaling\" is not a number of at least 1"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"ntk\"}}",
         WHERRY_STATUS_BAD_FORMAT, "\"factor\" of \"rope_scaling\" is not a number of at least 1"},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"ntk\", \"factor\": 2, \"mixed_b\": 0.5}}",
         WHERRY_STATUS_UNSUPPORTED, "\"mixed_b\""},
        {"{\"model_type\": \"new\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_theta\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"rope_theta\" is not a number over 0"},
        {"{\"model_type\": \"gte\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_parameters\": "
         "{\"rope_type\": \"yarn\", \"rope_theta\": 10}}",
         WHERRY_STATUS_UNSUPPORTED, "the rope_type \"yarn\" is not supported"},
        {"{\"model_type\": \"gte\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_parameters\": 7}",
         WHERRY_STATUS_BAD_FORMAT, "\"rope_parameters\" are not an object"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"layer_types\": "
         "[\"full_attention\"]}",
         WHERRY_STATUS_BAD_FORMAT, "\"layer_types\" is not a list of one type for each layer"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"layer_types\": "
         "\"full_attention\"}",
         WHERRY_STATUS_BAD_FORMAT, "\"layer_types\" is not a list of one type for each layer"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"layer_types\": "
         "[\"full_attention\", \"sliding_attention\", \"linear_attention\", \"full_attention\"]}",
         WHERRY_STATUS_UNSUPPORTED, "\"layer_types\" has another type than"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"layer_types\": "
         "[\"full_attention\", \"full_attention\", \"sliding_attention\", \"full_attention\"]}",
         WHERRY_STATUS_UNSUPPORTED, "\"layer_types\" has \"full_attention\" in no order"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"local_attention\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"local_attention\" is not a whole number from 2"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"local_attention\": 1}",
         WHERRY_STATUS_BAD_FORMAT, "\"local_attention\" is not a whole number from 2"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"global_attn_every_n_layers\": "
         "0}",
         WHERRY_STATUS_BAD_FORMAT, "\"global_attn_every_n_layers\" is not a whole number from 1"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"local_rope_theta\": -10}",
         WHERRY_STATUS_BAD_FORMAT, "\"local_rope_theta\" is not a number over 0"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"global_rope_theta\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"global_rope_theta\" is not a number over 0"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_parameters\": "
         "{\"sliding_attention\": {\"rope_type\": \"linear\", \"rope_theta\": 10}}}",
         WHERRY_STATUS_UNSUPPORTED, "the rope_type \"linear\" is not supported"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
         "\"ntk\", \"factor\": 2}}",
         WHERRY_STATUS_UNSUPPORTED, "\"rope_scaling\" is there"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"norm_bias\": 1}",
         WHERRY_STATUS_BAD_FORMAT, "\"norm_bias\" is neither true nor false"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"norm_eps\": 2}",
         WHERRY_STATUS_BAD_FORMAT, "\"norm_eps\" is not a number between"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"ModernBertForMaskedLM\"], \"decoder_bias\": false}",
         WHERRY_STATUS_UNSUPPORTED, "\"decoder_bias\" is false"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"ModernBertForSequenceClassification\"], \"classifier_pooling\": \"max\"}",
         WHERRY_STATUS_UNSUPPORTED, "the classifier_pooling \"max\" is not supported"},
        {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"ModernBertForSequenceClassification\"], \"classifier_activation\": \"relu\"}",
         WHERRY_STATUS_UNSUPPORTED, "\"classifier_activation\" is not gelu"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9}",
         WHERRY_STATUS_UNSUPPORTED, "\"use_bidirectional_attention\" is false: it is supported true alone"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"attention_bias\": true}",
         WHERRY_STATUS_UNSUPPORTED, "\"attention_bias\" is true: it is supported false alone"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"attn_logit_softcapping\": 50.0}",
         WHERRY_STATUS_UNSUPPORTED, "\"attn_logit_softcapping\" is there"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"sliding_window\": 1}",
         WHERRY_STATUS_BAD_FORMAT, "\"sliding_window\" is not a whole number from 2"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"sliding_window_pattern\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"sliding_window_pattern\" is not a whole number from 1"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"rope_local_base_freq\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"rope_local_base_freq\" is not a number over 0"},
        {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"head_dim\": 8, \"query_pre_attn_scalar\": 8, \"intermediate_size\": 8, "
         "\"vocab_size\": 9, \"use_bidirectional_attention\": true, \"layer_types\": [\"full_attention\"]}",
         WHERRY_STATUS_BAD_FORMAT, "\"layer_types\" is not a list of one type for each layer"},
        {"{\"model_type\": \"bert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"JinaBertModel\"]}",
         WHERRY_STATUS_UNSUPPORTED, "\"position_embedding_type\" is not alibi"},
        {"{\"model_type\": \"bert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"JinaBertModel\"], \"position_embedding_type\": \"alibi\", \"feed_forward_type\": \"original\"}",
         WHERRY_STATUS_UNSUPPORTED, "the feed_forward_type \"original\" is not supported"},
        {"{\"model_type\": \"bert\", \"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 2, "
         "\"intermediate_size\": 8, \"vocab_size\": 9, \"max_position_embeddings\": 9, \"architectures\": "
         "[\"BertModel\"], \"position_embedding_type\": \"alibi\"}",
         WHERRY_STATUS_UNSUPPORTED, "the position_embedding_type \"alibi\" is not supported"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"num_key_value_heads\": 3}",
         WHERRY_STATUS_BAD_FORMAT, "3 heads of K and V do not divide the 4 heads of Q"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"num_key_value_heads\": 0}",
         WHERRY_STATUS_BAD_FORMAT, "\"num_key_value_heads\" is not a whole number"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"num_key_value_heads\": 8}",
         WHERRY_STATUS_BAD_FORMAT, "8 heads of K and V do not divide the 4 heads of Q"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"num_key_value_heads\": 2, \"head_dim\": 5}",
         WHERRY_STATUS_BAD_FORMAT, "rotary positions turn pairs of channels, and a head has 5"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"num_key_value_heads\": 2, \"head_dim\": 65537}",
         WHERRY_STATUS_BAD_FORMAT, "a head has 65537 channels"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"use_sliding_window\": true}",
         WHERRY_STATUS_UNSUPPORTED, "\"use_sliding_window\" is true"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"layer_types\": [\"full_attention\"]}",
         WHERRY_STATUS_BAD_FORMAT, "is not a list of one type for each layer"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         WHERRY_STATUS_UNSUPPORTED, "has another type than full_attention"},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
         "\"intermediate_size\": 8, \"rope_scaling\": {\"type\": \"yarn\"}}",
         WHERRY_STATUS_UNSUPPORTED, "the rope_type \"yarn\" is not supported: supported are default and dynamic"},
        {"{\"model_type\": \"deberta-v2\", \"architectures\": [\"DebertaV2ForSequenceClassification\"]}",
         WHERRY_STATUS_UNSUPPORTED, "disentangled attention"},
        {"{\"model_type\": \"deberta\", \"architectures\": [\"DebertaModel\"]}", WHERRY_STATUS_UNSUPPORTED,
         "Take a model of one of the types bert, "},
        {"{\"architectures\": [\"XLMRobertaXLModel\"]}", WHERRY_STATUS_UNSUPPORTED, "XLMRobertaXLModel"},
        {"{\"model_type\": \"roberta\", \"architectures\": [\"BertModel\"]}", WHERRY_STATUS_UNSUPPORTED,
         "the architecture BertModel (model type roberta)"},
    };
    char *folder = files_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(folder, "config.json", cases[i].text);
        expect_refused(cases[i].text, folder, cases[i].status, cases[i].says, "config.json");
    }
    files_write_text(folder, "adapter_config.json", "{}");
    expect_refused("an adapter", folder, WHERRY_STATUS_UNSUPPORTED, "adapter_config.json", "add it to that");
    files_remove(folder);
}

/* The tiny BERT's tensors have RoBERTa's names; its positions do not begin with the table's first row. */
static void opens_by_family(void **state)
{
    (void)state;
    static const struct {
        const char *padding;
        wherry_status status;
        uint32_t longest;
        const char *says;
    } cases[] = {{"1", WHERRY_STATUS_OK, 22, NULL},
                 {NULL, WHERRY_STATUS_OK, 22, NULL},
                 {"3", WHERRY_STATUS_OK, 20, NULL},
                 {"0", WHERRY_STATUS_OK, 23, NULL},
                 {"23", WHERRY_STATUS_BAD_FORMAT, 0, "the table of positions has 24 rows"},
                 {"-1", WHERRY_STATUS_BAD_FORMAT, 0, "\"pad_token_id\" is not a whole number"},
                 {"null", WHERRY_STATUS_BAD_FORMAT, 0, "\"pad_token_id\" is not a whole number"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder();
        tiny_model_write(folder, &(struct tiny_model){.no_vocabulary = true, .prefix = i % 2 ? "roberta." : ""});
        json_edit(folder, "config.json", "model_type", "\"roberta\"");
        json_edit(folder, "config.json", "architectures", "[\"RobertaForMaskedLM\"]");
        if (cases[i].padding) json_edit(folder, "config.json", "pad_token_id", cases[i].padding);
        if (cases[i].status) {
            expect_refused("a padding token", folder, cases[i].status, cases[i].says, "config.json");
        } else {
            struct wherry_model *model = open_good("a padding token", folder);
            assert_int_equal(model->info.max_tokens, cases[i].longest);
            assert_string_equal(model->info.architecture, "RobertaForMaskedLM");
            model_close(model);
        }
        files_remove(folder);
    }
    /* Its tokenizer is not BERT's, which a vocab.txt would give. */
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){0});
    json_edit(folder, "config.json", "model_type", "\"roberta\"");
    json_edit(folder, "config.json", "architectures", NULL);
    expect_refused("RoBERTa with vocab.txt", folder, WHERRY_STATUS_UNSUPPORTED, "vocab.txt and no tokenizer.json",
                   "get tokenizer.json");
    files_remove(folder);
}

static void checks_weights(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct tiny_model model;
        wherry_status status;
        const char *says;
    } cases[] = {
        {"no word embeddings",
         {.skip = "embeddings.word_embeddings.weight"},
         WHERRY_STATUS_BAD_FORMAT,
         "no tensor embeddings.word_embeddings.weight"},
        {"no layernorm",
         {.skip = "encoder.layer.1.output.LayerNorm.weight", .prefix = "bert."},
         WHERRY_STATUS_BAD_FORMAT,
         "no tensor bert.encoder.layer.1.output.LayerNorm.weight"},
        {"half a pooler", {.skip = "pooler.dense.bias"}, WHERRY_STATUS_BAD_FORMAT, "no tensor pooler.dense.bias"},
        {"another prefix", {.prefix = "model.bert."}, WHERRY_STATUS_BAD_FORMAT, "no tensor embeddings.word"},
        {"integers",
         {.dtype = "I64"},
         WHERRY_STATUS_UNSUPPORTED,
         "embeddings.word_embeddings.weight has the dtype I64: save the model in F32, F16 or BF16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder();
        tiny_model_write(folder, &cases[i].model);
        expect_refused(cases[i].what, folder, cases[i].status, cases[i].says, folder);
        files_remove(folder);
    }
}

/* Cuts the weights' file at many places: no shorter file is a model. */
static void refuses_truncated_weights(void **state)
{
    (void)state;
    char *folder = files_folder(), *path = files_format("%s/model.safetensors", folder);
    tiny_model_write(folder, &(struct tiny_model){0});
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (off_t size = st.st_size - 1; size >= 0; size = size > 97 ? size - 97 : size - 1) {
        assert_int_equal(truncate(path, size), 0);
        expect_refused("truncated", folder, WHERRY_STATUS_BAD_FORMAT, "model.safetensors: ", "get it again");
    }
    free(path);
    files_remove(folder);
}

static void checks_shards(void **state)
{
    (void)state;
    static const char index[] = "model.safetensors.index.json", second[] = "model-00002-of-00002.safetensors";
    static const char gamma[] = "embeddings.LayerNorm.weight";
    static const struct {
        const char *key, *value;
        wherry_status status;
        const char *says;
    } cases[] = {
        {gamma, "\"../model-00001-of-00002.safetensors\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"a/../../b\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"..\\\\b\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"/etc/passwd\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"C:b\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"\"", WHERRY_STATUS_BAD_FORMAT, "leads out of the model's folder"},
        {gamma, "\"missing.safetensors\"", WHERRY_STATUS_IO, "missing.safetensors"},
        {gamma, "\"1_Pooling\"", WHERRY_STATUS_IO, "1_Pooling is not a regular file"},
        {gamma, "\"model-00002-of-00002.safetensors\"", WHERRY_STATUS_BAD_FORMAT,
         "has no tensor embeddings.LayerNorm.weight, where model.safetensors.index.json says it is"},
        {gamma, "7", WHERRY_STATUS_BAD_FORMAT, "weight_map gives no file for embeddings.LayerNorm.weight"},
        {gamma, NULL, WHERRY_STATUS_BAD_FORMAT, "no tensor embeddings.LayerNorm.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder(), *path = files_format("%s/%s", folder, index);
        tiny_model_write(folder, &(struct tiny_model){.sharded = true, .sentence = true});
        json_t *json = json_load_file(path, 0, NULL), *map = json_object_get(json, "weight_map");
        if (cases[i].value) {
            json_object_set_new(map, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        } else {
            json_object_del(map, cases[i].key);
        }
        assert_int_equal(json_dump_file(json, path, 0), 0);
        json_decref(json);
        expect_refused(cases[i].says, folder, cases[i].status, cases[i].says, folder);
        free(path);
        files_remove(folder);
    }
    char *folder = files_folder(), *path = files_format("%s/%s", folder, second);
    tiny_model_write(folder, &(struct tiny_model){.sharded = true});
    assert_int_equal(remove(path), 0);
    expect_refused("a shard is missing", folder, WHERRY_STATUS_IO, second, "check the path");
    files_write_text(folder, index, "{}");
    expect_refused("no map", folder, WHERRY_STATUS_BAD_FORMAT, "weight_map", "get the file again");
    files_write_text(folder, index, "{\"weight_map\": {\"a\": \"b\", \"a\": \"b\"}}");
    expect_refused("a tensor twice", folder, WHERRY_STATUS_BAD_FORMAT, index, "not valid JSON");
    free(path);
    files_remove(folder);
}

/* A model of 9 layers whose tensors are in one file, which goes by `names` names, with `spaces` after its header. */
static char *many_names(size_t names, size_t spaces)
{
    char *folder = files_folder(), *map = NULL, *path = NULL;
    struct tensor_writer w = {0};
    const struct tiny_model tiny = {.no_pooler = true};
    tiny_model_write(folder, &tiny);
    path = files_format("%s/model.safetensors", folder);
    assert_int_equal(remove(path), 0);
    char config[] = TINY_CONFIG, *layers = strstr(config, "num_hidden_layers\": 2");
    layers[strlen("num_hidden_layers\": ")] = '9';
    files_write_text(folder, "config.json", config);
    tiny_embeddings(&w, &tiny);
    for (int layer = 0; layer < 9; layer++) tiny_layer(&w, &tiny, layer);
    map = tiny_map(NULL, &w, "w");
    json_t *index = json_pack("{s:o}", "weight_map", json_object()), *list = json_object_get(index, "weight_map"),
           *value;
    char *text = files_format("{%s}", map);
    json_t *tensors = json_loads(text, 0, NULL);
    const char *key;
    size_t n = 0;
    json_object_foreach(tensors, key, value)
    {
        char name[2 * 160 + 2] = "";
        for (size_t i = 0; i < n; i++) strcat(name, "./");
        strcat(name, "w");
        json_object_set_new(list, key, json_string(name));
        if (!strstr(key, "position_ids") && n + 1 < names) n++; /* which nobody asks for */
    }
    assert_int_equal(n + 1, names);
    char *to = files_format("%s/model.safetensors.index.json", folder);
    assert_int_equal(json_dump_file(index, to, 0), 0);
    char *padding = calloc(spaces + 1, 1), *header = files_format("%s}", w.header);
    memset(padding, ' ', spaces);
    char *whole = files_format("%s%s", header, padding);
    size_t size;
    unsigned char *bytes = safetensors_bytes(whole, w.data, w.data_bytes, &size);
    files_write(folder, "w", bytes, size);
    json_decref(index);
    json_decref(tensors);
    void *const used[] = {bytes, whole, header, padding, to, text, map, path, w.header, w.data};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) free(used[i]);
    return folder;
}

/* Each file stays open, and each header is parsed, also where they are one file under many names. */
static void bounds_shards(void **state)
{
    (void)state;
    static const struct {
        size_t names, spaces;
        const char *says; /* NULL: is opened */
    } cases[] = {
        {128, 0, NULL},
        {129, 0, "has more than 128 files of weights: save it with larger shards"},
        {2, 6 << 20, NULL},
        {3, 6 << 20, "have more than 16777216 bytes together"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = many_names(cases[i].names, cases[i].spaces);
        if (cases[i].says) {
            expect_refused(cases[i].says, folder, WHERRY_STATUS_UNSUPPORTED, cases[i].says, folder);
        } else {
            model_close(open_good("many files", folder));
        }
        files_remove(folder);
    }
}

static void checks_folder(void **state)
{
    (void)state;
    char *folder = files_folder(), *missing = files_format("%s/missing", folder);
    expect_refused("empty path", "", WHERRY_STATUS_INVALID_ARGUMENT, "empty path", "give a folder");
    expect_refused("no such folder", missing, WHERRY_STATUS_IO, missing, "give the folder");
    expect_refused("empty folder", folder, WHERRY_STATUS_IO, "has no config.json", "give the folder");
    files_write_text(folder, "config.json", TINY_CONFIG);
    expect_refused("no weights", folder, WHERRY_STATUS_IO, "has no model.safetensors", "get the weights");
    files_write_text(folder, "pytorch_model.bin", "PK");
    expect_refused("PyTorch only", folder, WHERRY_STATUS_UNSUPPORTED, "pytorch_model.bin", "convert it to safetensors");
    char *file = files_format("%s/config.json", folder);
    expect_refused("a file", file, WHERRY_STATUS_IO, "has no config.json", "give the folder");
    free(file);
    files_write_text(folder, "model.safetensors/x", "");
    expect_refused("weights are a folder", folder, WHERRY_STATUS_IO, "model.safetensors is a folder",
                   "put the file in its place");
    free(missing);
    files_remove(folder);
}

/* ---- sentence-transformers ---- */

#define MODULE(path, type) "{\"idx\": 0, \"name\": \"0\", \"path\": \"" path "\", \"type\": \"" type "\"}"
#define TRANSFORMER MODULE("", "sentence_transformers.models.Transformer")
#define POOLING MODULE("1_Pooling", "sentence_transformers.models.Pooling")
#define NORMALIZE MODULE("2_Normalize", "sentence_transformers.models.Normalize")

static void checks_modules(void **state)
{
    (void)state;
    static const struct {
        const char *modules;
        wherry_status status;
        const char *says;
    } cases[] = {
        {"[" TRANSFORMER "," POOLING "," MODULE("2_Dense", "sentence_transformers.models.Dense") "]", WHERRY_STATUS_IO,
         "2_Dense/config.json"},
        {"[" TRANSFORMER "," POOLING "," NORMALIZE "," MODULE("2_Dense", "sentence_transformers.models.Dense") "]", NO,
         "Dense is not supported at its place"},
        {"[" TRANSFORMER "," POOLING "," MODULE("3_CNN", "sentence_transformers.models.CNN") "]", NO,
         "CNN is not supported at its place"},
        {"[" POOLING "," TRANSFORMER "]", NO, "Pooling is not supported at its place"},
        {"[" NORMALIZE "]", NO, "Normalize is not supported at its place"},
        {"[" TRANSFORMER "," POOLING "," POOLING "]", NO, "Pooling is not supported at its place"},
        {"[" TRANSFORMER "," TRANSFORMER "]", NO, "Transformer is not supported at its place"},
        {"[" MODULE("", "sentence_transformers.models.CLIPModel") "]", NO, "CLIPModel"},
        {"[" MODULE("../other", "sentence_transformers.models.Transformer") "]", BAD, "leads out of the model's"},
        {"[" MODULE("/etc", "sentence_transformers.models.Transformer") "]", BAD, "leads out of the model's"},
        {"[" TRANSFORMER "," MODULE("a/../..", "sentence_transformers.models.Pooling") "]", BAD, "leads out"},
        {"[" TRANSFORMER "," MODULE("missing", "sentence_transformers.models.Pooling") "]", WHERRY_STATUS_IO,
         "missing/config.json"},
        {"[{\"path\": \"\"}]", BAD, "no \"type\""},
        {"[3]", BAD, "no \"type\""},
        {"[]", BAD, "lists no modules"},
        {"{}", BAD, "lists no modules"},
        {"[", BAD, "not valid JSON"},
    };
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sentence = true});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(folder, "modules.json", cases[i].modules);
        expect_refused(cases[i].modules, folder, cases[i].status, cases[i].says, folder);
    }
    files_write_text(folder, "modules.json", "[" TRANSFORMER "," POOLING "]");
    struct wherry_model *model = open_good("without normalize", folder);
    assert_false(model->info.normalize);
    model_close(model);
    files_write_text(folder, "modules.json", "[" TRANSFORMER "]");
    model = open_good("without pooling", folder);
    assert_int_equal(model->info.pool, WHERRY_POOL_NONE);
    model_close(model);
    files_remove(folder);
}

static void opens_encoder_in_its_own_folder(void **state)
{
    (void)state;
    char *folder = files_folder(), *inner = files_format("%s/0_BERT", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    tiny_model_write(folder, &(struct tiny_model){.sentence = true});
    tiny_model_write(inner, &(struct tiny_model){.dtype = "F16"});
    char *path = files_format("%s/model.safetensors", folder);
    assert_int_equal(remove(path), 0);
    files_write_text(folder, "modules.json",
                     "[" MODULE("0_BERT", "sentence_transformers.models.BERT.Transformer") "," POOLING "]");
    struct wherry_model *model = open_good("encoder in a folder", folder);
    expect_tiny_weights(model, true);
    assert_int_equal(model->info.max_tokens, TINY_POSITIONS); /* the outer sentence_bert_config.json is not its own */
    model_close(model);
    free(path);
    free(inner);
    files_remove(folder);
}

static void checks_pooling(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        wherry_pool pool; /* 0: refused */
        wherry_status status;
        const char *says;
    } cases[] = {
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false}", WHERRY_POOL_CLS},
        {"{\"pooling_mode_max_tokens\": true, \"pooling_mode_mean_tokens\": false}", WHERRY_POOL_MAX},
        {"{}", WHERRY_POOL_MEAN},
        {"{\"pooling_mode\": \"cls\"}", WHERRY_POOL_CLS},
        {"{\"pooling_mode\": \"lasttoken\"}", WHERRY_POOL_LAST},
        {"{\"pooling_mode\": [\"lasttoken\", \"cls\"]}", WHERRY_POOL_COMBINED},
        {"{\"pooling_mode\": [\"cls\"]}", WHERRY_POOL_CLS},
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}", WHERRY_POOL_COMBINED},
        {"{\"pooling_mode_mean_tokens\": false, \"pooling_mode_weightedmean_tokens\": true}",
         WHERRY_POOL_WEIGHTED_MEAN},
        {"{\"pooling_mode_mean_tokens\": false, \"pooling_mode_mean_sqrt_len_tokens\": true}", WHERRY_POOL_MEAN_SQRT},
        {"{\"pooling_mode_mean_tokens\": false, \"pooling_mode_lasttoken\": true}", WHERRY_POOL_LAST},
        {"{\"pooling_mode\": \"middle\"}", 0, WHERRY_STATUS_UNSUPPORTED, "middle"},
        {"{\"pooling_mode\": []}", 0, WHERRY_STATUS_BAD_FORMAT, "is empty"},
        {"{\"pooling_mode\": [1]}", 0, WHERRY_STATUS_BAD_FORMAT, "has no name"},
        {"{\"pooling_mode\": [\"cls\", \"cls\", \"cls\", \"cls\", \"cls\", \"cls\", \"cls\"]}", 0,
         WHERRY_STATUS_UNSUPPORTED, "more than 6 poolings"},
        {"{\"pooling_mode_mean_tokens\": false}", 0, WHERRY_STATUS_BAD_FORMAT, "no pooling mode is true"},
        {"{\"pooling_mode_mean_tokens\": 1}", 0, WHERRY_STATUS_BAD_FORMAT, "neither true nor false"},
        {"[]", 0, WHERRY_STATUS_BAD_FORMAT, "not an object"},
        {"", 0, WHERRY_STATUS_BAD_FORMAT, "not valid JSON"},
    };
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sentence = true});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(folder, "1_Pooling/config.json", cases[i].config);
        if (cases[i].pool) {
            struct wherry_model *model = open_good(cases[i].config, folder);
            assert_int_equal(model->info.pool, cases[i].pool);
            model_close(model);
        } else {
            expect_refused(cases[i].config, folder, cases[i].status, cases[i].says, "1_Pooling/config.json");
        }
    }
    files_remove(folder);
}

static void checks_limits(void **state)
{
    (void)state;
    static const struct {
        const char *sentence, *tokenizer; /* files' texts, NULL: not there */
        uint32_t max_tokens;              /* 0: refused */
    } cases[] = {
        {NULL, NULL, 24},
        {"{\"max_seq_length\": 12}", NULL, 12},
        {"{\"max_seq_length\": 512}", NULL, 24},
        {"{\"max_seq_length\": null}", NULL, 24},
        {"{\"max_seq_length\": null}", "{\"model_max_length\": 20}", 20},
        {"{\"max_seq_length\": 22}", "{\"model_max_length\": 20}", 22},
        {NULL, "{\"model_max_length\": 1000000000000000019884624838656}", 24},
        {NULL, "{\"model_max_length\": 1e30}", 24},
        {"{\"max_seq_length\": 0}", NULL, 0},
        {"{\"max_seq_length\": -4}", NULL, 0},
        {"{\"max_seq_length\": \"4\"}", NULL, 0},
        {"{\"max_seq_length\": 1.5}", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folder = files_folder();
        tiny_model_write(folder, &(struct tiny_model){0});
        if (cases[i].sentence) files_write_text(folder, "sentence_bert_config.json", cases[i].sentence);
        if (cases[i].tokenizer) files_write_text(folder, "tokenizer_config.json", cases[i].tokenizer);
        if (cases[i].max_tokens) {
            struct wherry_model *model = open_good(cases[i].sentence ? cases[i].sentence : "no limit", folder);
            assert_int_equal(model->info.max_tokens, cases[i].max_tokens);
            model_close(model);
        } else {
            expect_refused(cases[i].sentence, folder, WHERRY_STATUS_BAD_FORMAT, "max_seq_length", "get the file again");
        }
        files_remove(folder);
    }
}

static void checks_lower_case(void **state)
{
    (void)state;
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sentence = true});
    files_write_text(folder, "sentence_bert_config.json", "{\"max_seq_length\": 16, \"do_lower_case\": true}");
    model_close(open_good("the tokenizer lowers case too", folder));
    files_write_text(folder, "tokenizer_config.json", "{\"do_lower_case\": false}");
    expect_refused("the tokenizer keeps capitals", folder, WHERRY_STATUS_UNSUPPORTED, "do_lower_case", folder);
    files_remove(folder);
}

/* ---- memory ---- */

struct scarce {
    long left;  /* allocations that succeed */
    long alive; /* not yet freed */
};

static void *scarce_alloc(size_t size, void *user)
{
    struct scarce *s = user;
    if (s->left-- <= 0) return NULL;
    s->alive++;
    return malloc(size);
}

static void scarce_free(void *pointer, void *user)
{
    ((struct scarce *)user)->alive--;
    free(pointer);
}

/* Every allocation fails once: each time a clean error, and nothing is kept. */
static void survives_lack_of_memory(void **state)
{
    (void)state;
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sharded = true, .sentence = true});
    struct scarce s = {0};
    struct host host = {.alloc = scarce_alloc, .free = scarce_free, .user = &s};
    struct wherry_model *model = NULL;
    long n = 0;
    for (bool done = false; !done; n++) {
        struct error e = {0};
        s = (struct scarce){.left = n};
        done = model_open(&host, folder, &model, &e);
        if (!done && e.status != WHERRY_STATUS_OUT_OF_HOST_MEMORY) fail_msg("after %ld: %s", n, e.text);
        if (!done) assert_int_equal(s.alive, 0);
    }
    assert_true(n > 10);
    model_close(model);
    assert_int_equal(s.alive, 0);
    wherry_model_config config;
    struct error e = {0};
    assert_true(architecture_shape("minilm-l6", &config, &e));
    config.vocabulary = 100;
    for (n = 0;; n++) {
        s = (struct scarce){.left = n};
        if (model_random(&host, &config, 1, &model, &e)) break;
        assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        assert_int_equal(s.alive, 0);
    }
    model_close(model);
    assert_int_equal(s.alive, 0);
    files_remove(folder);
}

/* Damages one of the folder's files at a time: any answer is right but a crash, a leak or a read out of bounds. */
static void survives_mutated_files(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json",
                                        "modules.json",
                                        "1_Pooling/config.json",
                                        "sentence_bert_config.json",
                                        "vocab.txt",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors"};
    char *folder = files_folder();
    tiny_model_write(folder, &(struct tiny_model){.sharded = true, .sentence = true});
    uint64_t random = 7;
    size_t accepted = 0, refused = 0;
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        char *path = files_format("%s/%s", folder, names[f]);
        FILE *file = fopen(path, "rb");
        static unsigned char good[65536], bytes[65536];
        size_t size = fread(good, 1, sizeof good, file);
        fclose(file);
        assert_true(size && size < sizeof good);
        for (int round = 0; round < 300; round++) {
            memcpy(bytes, good, size);
            size_t n = size;
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(random >> 33) % (size < 4096 ? size : 4096);
            if (random >> 20 & 7) {
                bytes[at] = (unsigned char)(random >> 24);
            } else {
                n = at;
            }
            files_write(folder, names[f], bytes, n);
            struct wherry_model *model = NULL;
            struct error e = {0};
            if (model_open(&files_host, folder, &model, &e)) {
                accepted++;
                model_close(model);
            } else {
                refused++;
                assert_true(e.status != WHERRY_STATUS_OK && *e.text);
            }
        }
        files_write(folder, names[f], good, size);
        free(path);
    }
    assert_true(accepted > 100 && refused > 500);
    model_close(open_good("undamaged again", folder));
    files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_every_form),
        cmocka_unit_test(checks_config),
        cmocka_unit_test(checks_config_text),
        cmocka_unit_test(checks_other_configs),
        cmocka_unit_test(opens_by_family),
        cmocka_unit_test(checks_weights),
        cmocka_unit_test(refuses_truncated_weights),
        cmocka_unit_test(checks_shards),
        cmocka_unit_test(bounds_shards),
        cmocka_unit_test(checks_folder),
        cmocka_unit_test(checks_modules),
        cmocka_unit_test(opens_encoder_in_its_own_folder),
        cmocka_unit_test(checks_pooling),
        cmocka_unit_test(checks_limits),
        cmocka_unit_test(checks_lower_case),
        cmocka_unit_test(survives_lack_of_memory),
        cmocka_unit_test(survives_mutated_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
