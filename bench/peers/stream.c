/* stream.c: reads, writes, copies and triads of arrays of floats by threads of the host: what `wherry roof` on a CPU
 * driver is compared with (bench/peers/compare_stream.sh).
 *
 *   cc -O3 -march=native -fno-tree-loop-distribute-patterns -pthread stream.c -o stream
 *   ./stream [THREADS [MIB [REPEATS]]]
 *
 * Plain loops: no stores around the cache, no call of memcpy, so that each written line is read first, as it is by a
 * driver's kernels; and on x86 "past", a copy whose stores go around the cache. Read and written bytes are both
 * counted, those reads of written lines are not. Prints, for each kind, the best and the median rate in GB/s (10^9). */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum kind {
    READ,
    WRITE,
    COPY,
    TRIAD,
#ifdef __SSE2__
    PAST,
#endif
    KINDS
};

static const char *const names[] = {"read", "write", "copy", "triad", "past"};
static const int arrays_moved[] = {1, 1, 2, 3, 2};

struct job {
    size_t first, end;
    uint32_t sum;
};

static float *a, *b, *c;
static size_t count;
static enum kind kind;
static pthread_barrier_t begin, finish;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(struct job *job)
{
    const float *restrict x = a, *restrict w = b;
    const uint32_t *restrict words = (const uint32_t *)(const void *)a;
    float *restrict y = c;
    uint32_t *restrict out = (uint32_t *)(void *)c;
    uint32_t sum = 0;
    switch (kind) {
    case READ:
        for (size_t i = job->first; i < job->end; i++) sum += words[i];
        break;
    case WRITE:
        for (size_t i = job->first; i < job->end; i++) out[i] = (uint32_t)i * 0x9E3779B1u;
        break;
    case COPY:
        for (size_t i = job->first; i < job->end; i++) y[i] = x[i];
        break;
    case TRIAD:
        for (size_t i = job->first; i < job->end; i++) y[i] = x[i] + 0.5f * w[i];
        break;
#ifdef __SSE2__
    case PAST:
        for (size_t i = job->first; i < job->end; i += 4) _mm_stream_ps(y + i, _mm_loadu_ps(x + i));
        _mm_sfence();
        break;
#endif
    default:
        break;
    }
    job->sum += sum;
}

static void *thread(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&begin);
        if (kind == KINDS) return NULL;
        work(argument);
        pthread_barrier_wait(&finish);
    }
}

static int ascending(const void *x, const void *y)
{
    double p = *(const double *)x, q = *(const double *)y;
    return (p > q) - (p < q);
}

int main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : sysconf(_SC_NPROCESSORS_ONLN);
    size_t mib = argc > 2 ? (size_t)atol(argv[2]) : 64;
    int repeats = argc > 3 ? atoi(argv[3]) : 21;
    if (threads < 1 || !mib || repeats < 1) return fputs("usage: stream [THREADS [MIB [REPEATS]]]\n", stderr), 2;
    count = (mib << 20) / sizeof(float);
    a = aligned_alloc(64, mib << 20);
    b = aligned_alloc(64, mib << 20);
    c = aligned_alloc(64, mib << 20);
    struct job *jobs = calloc((size_t)threads, sizeof *jobs);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    double *seconds = calloc((size_t)repeats, sizeof *seconds);
    if (!a || !b || !c || !jobs || !ids || !seconds) return fputs("stream: no memory\n", stderr), 1;
    for (size_t i = 0; i < count; i++) { /* floats from 1 to 2 of either sign, as wherry's */
        union {
            uint32_t bits;
            float value;
        } word = {((uint32_t)i * 0x9E3779B1u & 0x807fffff) | 0x3f800000};
        a[i] = b[i] = c[i] = word.value;
    }
    pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&finish, NULL, (unsigned)threads + 1);
    for (long t = 0; t < threads; t++) {
        size_t lines = count / 16, first = lines * (size_t)t / (size_t)threads; /* of the cache */
        jobs[t] = (struct job){16 * first, 16 * (lines * (size_t)(t + 1) / (size_t)threads), 0};
        if (pthread_create(&ids[t], NULL, thread, &jobs[t])) return fputs("stream: no thread\n", stderr), 1;
    }
    uint32_t sum = 0;
    for (int k = READ; k < KINDS; k++) {
        for (int r = -1; r < repeats; r++) { /* the first warms */
            kind = (enum kind)k;
            double start = now();
            pthread_barrier_wait(&begin);
            pthread_barrier_wait(&finish);
            if (r >= 0) seconds[r] = now() - start;
        }
        qsort(seconds, (size_t)repeats, sizeof *seconds, ascending);
        double bytes = (double)arrays_moved[k] * (double)(mib << 20);
        printf("%-6s best %.3f median %.3f GB/s\n", names[k], bytes / seconds[0] / 1e9,
               bytes / seconds[repeats / 2] / 1e9);
    }
    kind = KINDS;
    pthread_barrier_wait(&begin);
    for (long t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        sum += jobs[t].sum;
    }
    fprintf(stderr, "sum %u\n", (unsigned)sum); /* so that no read is left out */
    return 0;
}
