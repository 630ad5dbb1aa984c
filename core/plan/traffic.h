/* The bytes that a group's kernels move, counted from the code that launches them: what they are written to ask for,
 * and what of that comes from memory. */
#ifndef WHERRY_PLAN_TRAFFIC_H
#define WHERRY_PLAN_TRAFFIC_H

#include "graph/group.h"
#include "wherry/wherry_measure.h"

struct count;

/* Whose kernels run the calls: `count` adds what call number `call` of the group asks for, or returns false where
 * nobody has counted its kernel. */
struct traffic_rules {
    bool (*count)(const void *kernels, int call, struct count *count);
    const void *kernels;
};

/* One group with its calls, tile sizes included (plan/tiles.h), for the batch whose header and tables are in
 * `batch_words` (plan/batch.h). `cache_bytes`: what the device's last cache holds; 0: nothing is found there again.
 * `rules` NULL: the kernels are those of the table (plan/variants.h). The batch header and its tables are not counted.
 * Fails where a call's kernel has no rule; *out then has Q and its footprint alone. docs/measuring.md explains the
 * figures; tests/test_traffic.c holds them against what Oclgrind counts, tests/test_traffic_cpu.c against what the
 * host's kernels touch. */
bool call_traffic(const struct graph *g, const struct batch_shape *b, const struct group *group,
                  const struct call *calls, int n_calls, bool f16, const uint32_t *batch_words, uint64_t cache_bytes,
                  const struct traffic_rules *rules, wherry_traffic *out);

/* Whether the table has a rule for a kernel. */
bool traffic_has(const char *kernel);

/* The choices that a call was made with: "128x128x32, 8x8 a work-item" for products, "256 a work-group" for kernels of
 * rows, with the number of parts or their rows where there are some. */
void call_variant(const struct call *call, char text[64]);

#endif
