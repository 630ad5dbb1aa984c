/* Single values of config.json, checked. */
#ifndef WHERRY_MODEL_CONFIG_VALUES_H
#define WHERRY_MODEL_CONFIG_VALUES_H

#include <jansson.h>

#include "base/error.h"
#include "wherry/wherry.h"

/* A whole number from `least` on. */
bool value_whole(const json_t *value, const char *key, int64_t least, uint32_t *out, struct error *e);
/* true or false; `otherwise` where there is none. */
bool value_flag(const json_t *object, const char *key, bool otherwise, bool *out, struct error *e);
/* A number over 0; *out stays where there is none. */
bool value_positive(const json_t *object, const char *key, float *out, struct error *e);
/* Whether there is a value, and not null. */
bool value_there(const json_t *object, const char *key);
/* The base of rotary positions, which files have under several names that must agree: `keys` of `json`, NULL past the
 * last, and "rope_theta" of `parameters` (NULL: none), whose "rope_type" must be "default". *base stays where there is
 * none. */
bool value_base(const json_t *json, const char *const *keys, const json_t *parameters, float *base, struct error *e);
/* The same of config->rotary_base, where the "rope_type" of `parameters`, or of "rope_scaling", may be "dynamic", too:
 * then the file's positions are those of training, and a text may have as many times as many as the factor says. */
bool value_rotary(const json_t *json, const char *const *keys, const json_t *parameters, wherry_model_config *config,
                  struct error *e);
/* What a file has for that: "rope_parameters" of config->rotary_base, and in `json` the positions of training. */
json_t *rotary_parameters_make(const wherry_model_config *config, json_t *json, bool *ok);
/* "layer_types": which layers see all keys, which must be one in so many: window's global_every and global_first. */
#define LAYER_FULL "full_attention"
#define LAYER_SLIDING "sliding_attention"
bool value_layer_types(const json_t *types, wherry_model_config *config, struct error *e);
/* The same as a list; *ok becomes false where memory is short. */
json_t *layer_types_make(const wherry_model_config *config, bool *ok);
/* Bases of both kinds of layers, as "rope_parameters" of new files; `json` and *ok as above. */
json_t *bases_make(const wherry_model_config *config, json_t *json, bool *ok);
/* Of the feed-forward; gelu where there is none. */
bool value_activation(const json_t *object, const char *key, wherry_activation *out, struct error *e);

#endif
