/* The command line of wherry-serve. */
#ifndef WHERRY_SERVE_SETTINGS_H
#define WHERRY_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wherry/wherry.h>

enum { MODELS_MOST = 32, KEYS_MOST = 64 };

struct model_setting {
    char *name; /* as clients name it */
    const char *folder;
};

/* With defaults in place. */
struct settings {
    struct model_setting models[MODELS_MOST];
    uint32_t models_count;
    const char *host, *socket; /* socket NULL: TCP */
    uint32_t port;
    const char *device, *cache, *kernels, *prompt; /* prompt NULL: the one that the files use; "": none */
    wherry_dtype dtype;
    wherry_pool pool;
    uint64_t memory_budget;
    uint32_t max_tokens;                   /* of one text; 0: the model's */
    uint32_t batch_tokens, batch_requests; /* 0: by the device; no bound of its own */
    uint32_t concurrent, client_batch;
    size_t payload;
    double timeout;
    uint32_t workers, http_threads, threads; /* workers 0: as many as there are cores */
    bool low_priority;
    bool truncate, quiet, verbose, roof, help, version;
    char *keys[KEYS_MOST]; /* clients must send one of them where there are any */
    uint32_t keys_count;
};

/* An exit code, having said what is wrong. settings_free in any case. */
int settings_read(int argc, char **argv, struct settings *out);
void settings_free(struct settings *settings);
void settings_help(void);

#endif
