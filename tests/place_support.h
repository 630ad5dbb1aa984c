/* A process of its own, as far as the library goes, that has a trainer. Include after cmocka. */
#ifndef WHERRY_TESTS_PLACE_SUPPORT_H
#define WHERRY_TESTS_PLACE_SUPPORT_H

#include "trainer_support.h"

struct place {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_trainer *trainer;
    struct run run;
    wherry_session_desc session;
    wherry_training_desc training;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    wherry_lora_desc lora; /* struct_size 0: none */
    char folder[600];      /* of an adapter; "": none */
    uint64_t seed;
};

#define EXPECT_OK(place, call)                                                                                         \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s", wherry_status_name(status_), wherry_last_error((place)->context));             \
    } while (0)
#define EXPECT_REFUSED(place, call, status, text)                                                                      \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_ != (status) || !strstr(wherry_last_error((place)->context), text))                                 \
            fail_msg("line %d: %s: %s", __LINE__, wherry_status_name(status_), wherry_last_error((place)->context));   \
    } while (0)

/* The first of those that are tested, the reference where none is named. */
static inline void place_device(char out[64])
{
    const char *given = getenv("WHERRY_TEST_DEVICES");
    if (!given || !*given) given = "reference";
    snprintf(out, 64, "%.*s", (int)strcspn(given, " "), given);
}

/* With run and descriptors there; `folder`: of the model. */
static inline void place_open(struct place *p, const char *device, const char *folder)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    p->seed = 5;
    p->training = (wherry_training_desc){.struct_size = sizeof p->training, .dropout = 0.1f};
    p->session.training = &p->training;
    assert_int_equal(wherry_context_create(&desc, &p->context), 0);
    EXPECT_OK(p, wherry_device_open(p->context, device, &p->device));
    EXPECT_OK(p, wherry_model_open(p->context, folder, &p->model));
}

static inline wherry_status trainer_make(struct place *p)
{
    const wherry_trainer_desc desc = {.struct_size = sizeof desc,
                                      .loss = &p->loss,
                                      .optimizer = &p->optimizer,
                                      .seed = p->seed,
                                      .lora = p->lora.struct_size ? &p->lora : NULL};
    wherry_trainer_destroy(p->trainer);
    p->trainer = NULL;
    return wherry_trainer_create(p->context, p->device, p->model, &p->session, &desc, &p->trainer);
}

static inline void place_end(struct place *p)
{
    wherry_trainer_destroy(p->trainer);
    wherry_model_close(p->model);
    wherry_device_close(p->device);
    wherry_context_destroy(p->context);
    run_close(&p->run);
}

static inline void place_train(struct place *p, size_t first, size_t end)
{
    for (size_t s = first; s < end; s++) {
        struct run_step step;
        wherry_step_result result = {.struct_size = sizeof result};
        run_step_make(&p->run, s, 2, &step);
        EXPECT_OK(p, wherry_trainer_step(p->trainer, step.batches, 2, &step.targets, &result));
    }
}

#endif
