/* A context, its device, the models on it, and a session for each thing that is asked of them. */
#ifndef WHERRY_SERVE_MODELS_H
#define WHERRY_SERVE_MODELS_H

#include "call.h"
#include "settings.h"

enum model_kind { KIND_EMBEDDING, KIND_SPARSE, KIND_CLASSIFIER, KIND_RERANKER };

/* What a session of a model returns; each has its own, made when the model is opened or when it is first asked for. */
enum lane_kind { LANE_EMBED, LANE_RAW, LANE_TOKENS, LANE_SPARSE, LANE_CLASSES, LANES };

struct lane {
    struct served *model;
    wherry_session *session;
    wherry_session_plan plan;
    wherry_output output;
    bool per_token;
    double bytes_once, bytes_token; /* what a batch moves, about: once + token * tokens. 0: not known */
    bool open;                      /* for other threads, under the engine's lock */
    struct item *first, *last;      /* what waits, under that lock, too */
    uint32_t tokens;                /* of it */
};

struct served {
    const char *name, *folder;
    wherry_model *model;
    wherry_model_info info;
    enum model_kind kind;
    uint32_t max_length;
    const char *prompt; /* for requests that name none */
    wherry_text_form form;
    bool instructed;               /* its pairs have a place for an instruction */
    struct vocabulary *vocabulary; /* for /tokenize and /decode */
    struct lane lanes[LANES];
};

/* They belong to one thread at a time. */
struct models {
    const struct settings *settings;
    wherry_context *context;
    wherry_device *device;
    wherry_device_info device_info;
    uint32_t batch_tokens;
    double roof; /* bytes a second that the device was measured to copy; 0: it was not */
    double prepare_seconds;
    uint32_t kernels, kernels_compiled;
    uint32_t count;
    struct served of[MODELS_MOST];
};

/* With a session for what each model is for. Complains and returns an exit code where something can't be opened. */
int models_open(const struct settings *settings, struct models **out);
void models_close(struct models *models);
/* Makes the lane's session ready; else the context has the reason. */
wherry_status models_open_lane(struct models *models, struct lane *lane);
/* Which of a model's sessions a task runs in; LANES: it can't do that. `raw`: embeddings as they are, not of length 1.
 */
enum lane_kind models_lane(const struct served *model, enum task task, bool raw);
enum task models_natural(const struct served *model);
const char *models_kind_name(const struct served *model);

#endif
