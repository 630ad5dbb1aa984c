/* Adapters for tests: PEFT's runs (golden/make_adapter.py), and a trainer of one. Include cmocka before it. */
#ifndef WHERRY_TESTS_ADAPTER_SUPPORT_H
#define WHERRY_TESTS_ADAPTER_SUPPORT_H

#include "trainer_support.h"

static inline bool adapter_run_open(const char *name, struct run *r)
{
    char folder[100], file[120];
    memset(r, 0, sizeof *r);
    snprintf(folder, sizeof folder, "trainer/%s", name);
    snprintf(file, sizeof file, "adapter/%s/run.safetensors", name);
    return run_open_file(folder, file, r);
}

/* The folder of PEFT's adapter. */
static inline void adapter_folder(const char *name, char out[600])
{
    snprintf(out, 600, "%s/../golden/adapter/%s", TEST_DATA, name);
}

/* As make_adapter.py has them. */
static inline void adapter_descs(const char *name, wherry_session_desc *session, wherry_loss_desc *loss,
                                 wherry_optimizer_desc *optimizer)
{
    run_descs(name, session, loss, optimizer);
    optimizer->learning_rate = 1e-2f;
    optimizer->weight_decay = 0.01f;
}

#endif
