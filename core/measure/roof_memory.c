/* Ceilings of memory: what is read, written and copied at which sizes, and whether it arrived. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "measure/roof.h"
#include "wherry/wherry_measure.h"

/* Salts of the buffers' contents, and of what a write under test leaves. */
enum { SALT_X = 1 << 20, SALT_W = 1 << 22, SALT_Y = 1 << 24, SALT_TEST = 1 << 26 };

static uint32_t made_word(const struct bench *b, uint32_t index, uint32_t salt)
{
    uint32_t scattered = ROOF_SCATTER(index + salt);
    return (ROOF_MIX(scattered) & b->mask) | b->bits;
}

/* ---- works ---- */

enum { CPU_CACHES = 1 << 25 }; /* more than this leaves of another work's data nothing that matters */
enum { PARTS = 8 }; /* of a core, where nothing is moved twice: so that one that is late holds nobody up for long */

static const char *const form_names[] = {"read", "write", "copy", "triad"};
static const uint32_t form_operands[] = {1, 1, 2, 3}; /* buffers of `span` bytes that are moved */

static uint64_t chunk_bytes(const struct work *w)
{
    return (uint64_t)call_get(&w->call, CONST_LOCAL_SIZE, 1) * w->items * w->width * 4;
}

/* How the chunks of the span are distributed to work-groups, so that `least` bytes are moved in all.
 *
 * Once: each group has its own chunks. Again and again: on a GPU the groups' chunks follow each other, around and
 * around, so that all others are touched before one is touched again, by another multiprocessor then: what is measured
 * is the cache that they share. On a processor each core has its part, as threads do. */
static void work_deal(const struct bench *b, struct work *w, uint64_t least)
{
    uint64_t chunk = chunk_bytes(w), chunks = w->span / chunk, visits = chunks;
    uint32_t *words = w->words, operands = form_operands[w->form];
    uint64_t together = (w->form == ROOF_READ && chunks % 4 == 0) ? 4 : 1; /* fewer sums to write */
    uint64_t groups = chunks / together;
    if (visits * chunk * operands < least) visits = least / (chunk * operands);
    words[ROOF_TURNS] = (uint32_t)together;
    words[ROOF_OWN] = words[ROOF_CHUNKS] = (uint32_t)together;
    words[ROOF_FIRST] = 0;
    words[ROOF_STEP] = together > 1;
    if (b->limits->cpu) {
        groups = (visits > chunks ? 1 : PARTS) * core_count();
        if (groups > chunks) groups = chunks;
        chunks = chunks / groups * groups;
        w->span = chunks * chunk;
        words[ROOF_OWN] = words[ROOF_CHUNKS] = (uint32_t)(chunks / groups);
        words[ROOF_TURNS] = (uint32_t)((visits + chunks - 1) / chunks * (chunks / groups));
        words[ROOF_STEP] = chunks / groups > 1;
    } else if (visits > chunks) {
        groups = 8192;
        words[ROOF_TURNS] = (uint32_t)((visits + groups - 1) / groups);
        words[ROOF_OWN] = 0;
        words[ROOF_CHUNKS] = (uint32_t)chunks;
        words[ROOF_FIRST] = words[ROOF_TURNS];
        words[ROOF_STEP] = chunks > 1;
    }
    words[ROOF_GROUPS] = w->groups = (uint32_t)groups;
    words[ROOF_SALT] = SALT_TEST;
    words[ROOF_MASK] = b->mask;
    words[ROOF_BITS] = b->bits;
    w->passes = (double)groups * words[ROOF_TURNS] / (double)chunks;
    w->ceiling.footprint_bytes = w->span * operands;
    w->lead = !b->limits->cpu || (w->passes < 4 && w->ceiling.footprint_bytes < CPU_CACHES);
    w->ceiling.amount = (double)w->ceiling.footprint_bytes * w->passes;
    if (w->form == ROOF_READ) {
        w->ceiling.footprint_bytes += groups * 4;
        w->ceiling.amount += (double)groups * 4;
    }
}

struct work *memory_work(struct bench *b, const char *id, uint32_t form, uint32_t width, uint32_t items, uint32_t local,
                         uint64_t span, uint64_t least_moved, struct error *e)
{
    struct work *w = work_add(b, id, WORK_MEMORY, e);
    if (!w) return NULL;
    w->form = form;
    w->width = width;
    w->items = items;
    w->call = (struct call){.kernel = "roof_memory", .launch = LAUNCH_ELEMENTS};
    call_set(&w->call, CONST_LOCAL_SIZE, local);
    call_set(&w->call, CONST_N, width);
    call_set(&w->call, CONST_FORM, form);
    call_set(&w->call, CONST_THREAD_M, items);
    if (b->limits->cpu) call_set(&w->call, CONST_BATCHED, 1);
    w->ceiling.unit = WHERRY_UNIT_BYTES;
    w->ceiling.dtype = WHERRY_DTYPE_F32;
    snprintf(w->ceiling.config, sizeof w->ceiling.config, "%u x %u B, %u/group", (unsigned)items, (unsigned)width * 4,
             (unsigned)local);
    uint64_t chunk = chunk_bytes(w);
    w->span = span < chunk ? chunk : span / chunk * chunk;
    work_deal(b, w, least_moved);
    return w;
}

/* ---- contents ---- */

static const uint32_t buffer_salts[BENCH_BUFFERS] = {SALT_X, SALT_W, SALT_Y};

/* The whole of buffer `index`, by the kernel that writes; `filler` is a work of ROOF_WRITE on the third buffer. */
static bool buffer_fill(struct bench *b, struct work *filler, int index, struct error *e)
{
    struct program_info info;
    double host;
    b->backend->program_destroy(b->handle, filler->program);
    for (int s = 0; s < WORK_STEPS; s++) filler->steps[s].bindings[1].buffer = b->buffers[index];
    filler->words[ROOF_SALT] = buffer_salts[index];
    filler->program = b->backend->program_create(b->handle, &filler->schedule, NULL, NULL, &info, e);
    return filler->program && work_write_words(b, filler, e) && work_run(b, filler, 1, NULL, &host, e);
}

bool memory_fill(struct bench *b, struct error *e)
{
    struct work *filler = &b->works[0];
    for (int i = 0; i < BENCH_BUFFERS; i++) TRY(buffer_fill(b, filler, i, e));
    return true;
}

/* ---- verifying ---- */

static bool fail_verify(const struct bench *b, const struct work *w, uint64_t at, struct error *e)
{
    return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                "%s: %s (%s) left something else than it should at byte %llu of %llu: report it to the driver's vendor",
                b->device->info.id, w->ceiling.id, w->ceiling.config, (unsigned long long)at,
                (unsigned long long)w->span);
}

static uint32_t expected_word(const struct bench *b, const struct work *w, uint32_t index)
{
    if (w->form == ROOF_WRITE) return made_word(b, index, SALT_TEST);
    uint32_t x = made_word(b, index, SALT_X), second = made_word(b, index, SALT_W);
    if (w->form == ROOF_COPY) return x;
    float a, h;
    memcpy(&a, &x, sizeof a);
    memcpy(&h, &second, sizeof h);
    a = a + 0.5f * h;
    memcpy(&x, &a, sizeof x);
    return x;
}

/* Blocks all over the span are looked at, the first and the last one among them. */
enum { BLOCKS = 32 };

static uint64_t block_at(const struct work *w, uint64_t n) { return (w->span / 4 - BLOCK_WORDS) * n / (BLOCKS - 1); }

/* Something else is there before. */
static bool blocks_spoil(struct bench *b, struct work *w, struct error *e)
{
    static const uint32_t nothing[BLOCK_WORDS];
    for (uint64_t n = 0; n < BLOCKS; n++)
        TRY(b->backend->buffer_write(b->handle, b->buffers[2], block_at(w, n) * 4, nothing, sizeof nothing, e));
    return true;
}

static bool verify_blocks(struct bench *b, struct work *w, struct error *e)
{
    uint32_t block[BLOCK_WORDS];
    for (uint64_t n = 0; n < BLOCKS; n++) {
        uint64_t at = block_at(w, n);
        TRY(b->backend->buffer_read(b->handle, b->buffers[2], at * 4, block, sizeof block, e));
        for (uint32_t i = 0; i < BLOCK_WORDS; i++)
            if (block[i] != expected_word(b, w, (uint32_t)(at + i))) return fail_verify(b, w, (at + i) * 4, e);
    }
    return true;
}

/* Sums of each BLOCK_WORDS words of the first operand, for all works that read it: chunks are made of such blocks. */
static bool sums_make(struct bench *b, struct error *e)
{
    uint64_t blocks = b->bytes / 4 / BLOCK_WORDS;
    if (b->sums) return true;
    if (!(b->sums = host_alloc(b->host, blocks, sizeof *b->sums, e))) return false;
    for (uint64_t n = 0; n < blocks; n++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < BLOCK_WORDS; i++) sum += made_word(b, (uint32_t)n * BLOCK_WORDS + i, SALT_X);
        b->sums[n] = sum;
    }
    return true;
}

/* What group g should have found. */
static uint32_t expected_sum(const struct bench *b, const struct work *w, uint32_t g)
{
    uint64_t blocks = chunk_bytes(w) / 4 / BLOCK_WORDS;
    const uint32_t *words = w->words;
    uint32_t at = g * words[ROOF_FIRST] % words[ROOF_CHUNKS], sum = 0;
    for (uint32_t t = 0; t < words[ROOF_TURNS]; t++) {
        const uint32_t *block = b->sums + (g * words[ROOF_OWN] + at) * blocks;
        for (uint64_t i = 0; i < blocks; i++) sum += block[i];
        at = (at + words[ROOF_STEP]) % words[ROOF_CHUNKS];
    }
    return sum;
}

static bool verify_sums(struct bench *b, struct work *w, struct error *e)
{
    TRY(sums_make(b, e));
    uint32_t *groups = host_alloc(b->host, w->groups, sizeof *groups, e);
    bool ok = groups && b->backend->buffer_read(b->handle, b->results, 0, groups, w->groups * sizeof *groups, e);
    for (uint32_t g = 0; ok && g < w->groups; g++)
        if (groups[g] != expected_sum(b, w, g)) ok = fail_verify(b, w, g * chunk_bytes(w), e);
    host_free(b->host, groups);
    return ok;
}

bool work_verify(struct bench *b, struct work *w, struct error *e)
{
    double host, seconds[WORK_STEPS];
    if (w->kind != WORK_MEMORY) return arithmetic_verify(b, w, e);
    if (w->form != ROOF_READ) TRY(blocks_spoil(b, w, e));
    TRY(work_run(b, w, 1, b->host_clock ? NULL : seconds, &host, e));
    if (!(w->first > 0)) w->first = b->host_clock ? host : seconds[0];
    return w->form == ROOF_READ ? verify_sums(b, w, e) : verify_blocks(b, w, e);
}

/* ---- DRAM ---- */

struct config {
    uint32_t width, items, local;
};

/* The first is the sentinel's. */
static const struct config gpu_configs[] = {{4, 1, 256}, {4, 4, 256}, {4, 2, 256}, {4, 1, 128}, {4, 1, 512},
                                            {4, 4, 512}, {2, 4, 256}, {1, 4, 256}, {1, 1, 256}};
/* A compiler needs seconds for all of them on a processor. */
static const struct config cpu_configs[] = {{4, 4, 64}, {4, 1, 256}, {4, 8, 64}, {1, 1, 256}};

static const struct config *configs_of(const struct bench *b, size_t *n)
{
    *n = b->limits->cpu ? sizeof cpu_configs / sizeof *cpu_configs : sizeof gpu_configs / sizeof *gpu_configs;
    return b->limits->cpu ? cpu_configs : gpu_configs;
}

bool dram_add(struct bench *b, struct error *e)
{
    size_t n;
    const struct config *configs = configs_of(b, &n);
    for (uint32_t form = ROOF_READ; form <= ROOF_TRIAD; form++) {
        char id[24];
        snprintf(id, sizeof id, "dram.%s", form_names[form]);
        if (!bench_wants(b, id)) continue;
        for (size_t i = 0; i < n; i++) {
            const struct config *c = &configs[i];
            if (c->local > b->limits->max_local_size) continue;
            TRY(memory_work(b, id, form, c->width, c->items, c->local, b->bytes, 0, e));
        }
    }
    return true;
}

/* ---- the cache ---- */

static struct config usual_config(const struct bench *b)
{
    return b->limits->cpu ? (struct config){4, 4, 64} : (struct config){4, 4, 256};
}

/* So much that launching does not count: a tenth of a millisecond of the fastest caches. */
static uint64_t least_moved(const struct bench *b) { return b->limits->cpu ? 1 << 25 : 1 << 30; }

/* Sizes from 64 KiB on, every one a half-power of two more: 1, 1.4, 2, 2.8, ... */
bool sweep_add(struct bench *b, struct error *e)
{
    struct config c = usual_config(b);
    uint64_t before = 0;
    for (int n = 0;; n++) {
        uint64_t each = (uint64_t)(32768 * pow(2, 0.5 * n));
        if (each > b->bytes) return true;
        size_t made = b->n_works;
        struct work *w = memory_work(b, "sweep", ROOF_COPY, c.width, c.items, c.local, each, least_moved(b), e);
        if (!w) return false;
        if (w->span == before) b->n_works = made; /* smaller than a chunk */
        before = w->span;
    }
}

bool cache_add(struct bench *b, uint64_t cache_bytes, struct error *e)
{
    struct config usual = usual_config(b);
    for (uint32_t form = ROOF_READ; form <= ROOF_COPY; form += ROOF_COPY - ROOF_READ) {
        char id[24];
        snprintf(id, sizeof id, "cache.%s", form_names[form]);
        if (!bench_wants(b, id)) continue;
        TRY(memory_work(b, id, form, usual.width, usual.items, usual.local, cache_bytes / 4 / form_operands[form],
                        least_moved(b), e));
        if (b->limits->cpu || b->limits->max_local_size < 512) continue;
        TRY(memory_work(b, id, form, 4, 4, 512, cache_bytes / 4 / form_operands[form], least_moved(b), e));
    }
    return true;
}

bool launches_add(struct bench *b, struct error *e)
{
    struct config c = b->limits->cpu ? (struct config){4, 4, 64} : (struct config){4, 1, 256};
    for (uint64_t each = 4096; each <= (uint64_t)1 << 25 && each <= b->bytes; each *= 2)
        TRY(memory_work(b, "launch", ROOF_COPY, c.width, c.items, c.local, each, 0, e));
    return true;
}

uint64_t sweep_edge(const wherry_roof_point *points, size_t n)
{
    const double contrast = 1.3; /* less is no edge */
    double rates[ROOF_WORKS], memory = 0, cache = 0;
    if (n < 6 || n > ROOF_WORKS) return 0;
    for (size_t i = 0; i < n; i++) rates[i] = (double)points[i].bytes / points[i].time.median;
    /* Memory's rate: the middle one of the three largest. */
    const double *last = rates + n - 3;
    memory = fmax(fmin(last[0], last[1]), fmin(fmax(last[0], last[1]), last[2]));
    size_t edge = n;
    while (edge > 0 && rates[edge - 1] < contrast * memory) edge--;
    if (!edge || edge > n - 2) return 0;
    /* The cache's: the best from a half of that size to an eighth, so that a smaller cache's does not count. */
    uint64_t limit = points[edge - 1].bytes;
    for (size_t i = 0; i < edge; i++)
        if (points[i].bytes >= limit / 8 && rates[i] > cache) cache = rates[i];
    while (edge > 0 && rates[edge - 1] < (cache + memory) / 2) edge--;
    return edge ? points[edge - 1].bytes : 0;
}
