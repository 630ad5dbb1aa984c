/* The routes, one table. */
#include "routes.h"

#include <string.h>

static const struct route routes[] = {
    {"/", page_health, .open = true},
    {"/health", page_health, .open = true},
    {"/ping", page_health, .open = true},
    {"/info", page_info},
    {"/metrics", page_metrics},
    {"/status", page_status},
    {"/v1/models", page_models, .dialect = DIALECT_OPENAI, .below = true},
    {"/", .task = TASK_NATURAL},
    {"/embed", .task = TASK_EMBED},
    {"/embed_all", .task = TASK_EMBED_ALL},
    {"/embed_sparse", .task = TASK_EMBED_SPARSE},
    {"/rerank", .task = TASK_RERANK},
    {"/predict", .task = TASK_PREDICT},
    {"/similarity", .task = TASK_SIMILARITY},
    {"/tokenize", .task = TASK_TOKENIZE},
    {"/decode", .task = TASK_DECODE},
    {"/v1/embeddings", .task = TASK_EMBED, .dialect = DIALECT_OPENAI},
    {"/embeddings", .task = TASK_EMBED, .dialect = DIALECT_OPENAI},
    {"/v1/rerank", .task = TASK_RERANK, .dialect = DIALECT_RANK},
    {"/v2/rerank", .task = TASK_RERANK, .dialect = DIALECT_RANK},
    {"/v1/reranking", .task = TASK_RERANK, .dialect = DIALECT_RANK},
};

const struct route *route_find(const char *path, bool post, bool *method)
{
    *method = false;
    for (size_t n = 0; n < sizeof routes / sizeof *routes; n++) {
        const struct route *r = &routes[n];
        size_t length = strlen(r->path);
        bool same = !strcmp(path, r->path) || (r->below && !strncmp(path, r->path, length) && path[length] == '/');
        if (same && post == !r->page) return r;
        *method |= same;
    }
    return NULL;
}
