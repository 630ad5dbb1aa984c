/* The models on their device, and the thread that runs batches of what waits for them.
 *
 * One thread has the context: it takes texts in the order in which they came, up to the budget of tokens, runs them
 * packed, and takes whatever has come meanwhile. There is no window in which it waits for more. */
#ifndef WHERRY_SERVE_ENGINE_H
#define WHERRY_SERVE_ENGINE_H

#include "call.h"
#include "models.h"

/* Complains and returns an exit code where something can't be opened. `lost` is called by the engine's thread when the
 * device is. */
int engine_open(const struct settings *settings, struct metrics *metrics, void (*lost)(void *user), void *user,
                struct engine **out);
/* Waits until nobody holds it. Accepts NULL. */
void engine_close(struct engine *engine);
/* Those who use it hold it. */
void engine_hold(struct engine *engine);
void engine_drop(struct engine *engine);

uint32_t engine_models(const struct engine *engine);
struct served *engine_model(struct engine *engine, uint32_t index);
const wherry_device_info *engine_device(const struct engine *engine);
uint32_t engine_batch_tokens(const struct engine *engine);
/* Puts the call's items, which have their tokens, at the end of the queue. */
void engine_queue(struct engine *engine, struct call *call, enum lane_kind lane);

struct engine_state {
    bool lost;
    double running;   /* seconds that the batch that runs has taken; 0: none runs */
    uint32_t waiting; /* texts */
    double roof;      /* bytes a second that the device was measured to copy; 0: it was not */
    double prepare_seconds;
    uint32_t kernels, kernels_compiled;
};
struct engine_state engine_ask(struct engine *engine);
/* A copy of the lane's plan; false: the lane is not open. */
bool engine_plan(struct engine *engine, const struct lane *lane, wherry_session_plan *out);

#endif
