/* Ceilings: what a device reaches when it only copies, only computes, only launches. */
#include "runtime/roof.h"

#include <string.h>

#include "base/host.h"

/* ---- what was measured ---- */

void wherry_roof_destroy(wherry_roof *roof)
{
    if (!roof) return;
    const struct host *host = &roof->context->host;
    host_free(host, roof->ceilings);
    host_free(host, roof->sweep);
    host_free(host, roof->launches);
    host_free(host, roof);
}

const wherry_ceiling *wherry_roof_ceilings(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_ceilings : 0;
    return roof ? roof->ceilings : NULL;
}

const wherry_ceiling *wherry_roof_ceiling(const wherry_roof *roof, const char *id)
{
    for (size_t i = 0; roof && id && i < roof->n_ceilings; i++)
        if (roof->ceilings[i].best && !strcmp(roof->ceilings[i].id, id)) return &roof->ceilings[i];
    return NULL;
}

const wherry_roof_point *wherry_roof_sweep(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_sweep : 0;
    return roof ? roof->sweep : NULL;
}

const wherry_roof_point *wherry_roof_launches(const wherry_roof *roof, size_t *count)
{
    if (count) *count = roof ? roof->n_launches : 0;
    return roof ? roof->launches : NULL;
}

uint64_t wherry_roof_cache_bytes(const wherry_roof *roof) { return roof ? roof->cache_bytes : 0; }

const wherry_timer_info *wherry_roof_timer(const wherry_roof *roof) { return roof ? &roof->timer : NULL; }

void wherry_roof_sentinel(const wherry_roof *roof, wherry_time *first, wherry_time *last)
{
    if (first) *first = roof ? roof->sentinel_first : (wherry_time){0};
    if (last) *last = roof ? roof->sentinel_last : (wherry_time){0};
}
