/* Counts the bytes that a GPU's memory moves while a child process runs work on it, by CUPTI's PM sampling: counters of
 * the device and not of a process or an API, so that OpenCL and Vulkan count, too. Needs CUDA 12.6 or newer, a GPU from
 * GA10x on, and the right to profile (root, or NVreg_RestrictProfilingToAdminUsers=0).
 *
 *   gcc -O2 -I SHIM -I CUPTI/include -I CUDA/include pm_sampling.c -L CUPTI/lib64 -lcupti -lcuda -o pm_sampling
 *   pm_sampling [-d DEVICE] [-i INTERVAL_NS] [-m METRIC]... LINE... -- COMMAND ARGUMENT...
 *
 * SHIM is a folder with an empty file named `string`: CUDA 13.0's cupti_profiler_host.h includes C++'s and does not use
 * it. run.sh makes it.
 *
 * DEVICE is CUDA's index. COMMAND is started once. It is sent each LINE on its standard input and answers "ready" when
 * all is prepared; sampling then begins, the next (empty) line starts its work, and it answers with one line of JSON
 * when that is done. LINE is sent once for every set of metrics that the counters take at once. Printed for each of
 * these, as a line of JSON: the sum of each metric over the interval, what an idle device moved in the same time
 * (measured before the work), the samples' time, those lost, and the child's answer under "child". */
#define _POSIX_C_SOURCE 200809L

#include <cuda.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_METRICS = 8,
    SAMPLES = 2048,     /* that one decoding takes: many times what comes in DECODE_MS */
    DECODE_MS = 50,     /* between two decodings */
    IDLE_MS = 200,      /* how long the idle device is looked at */
    ANSWER_MS = 600000, /* how long a child may take */
    BUFFER_BYTES = 256 << 20
};

static void die(const char *what, const char *why, const char *remedy)
{
    fprintf(stderr, "pm_sampling: %s: %s%s%s\n", what, why, remedy ? ": " : "", remedy ? remedy : "");
    exit(1);
}

static void check_cupti(CUptiResult result, const char *what)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) return;
    cuptiGetResultString(result, &text);
    die(what, text ? text : "unknown CUPTI error",
        result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "run as root, or load the driver with "
                                                        "NVreg_RestrictProfilingToAdminUsers=0"
                                                      : NULL);
}

static void check_cuda(CUresult result, const char *what)
{
    const char *text = NULL;
    if (result == CUDA_SUCCESS) return;
    cuGetErrorString(result, &text);
    die(what, text ? text : "unknown CUDA error", NULL);
}

#define CUPTI(call) check_cupti(call, #call)
#define CUDA(call) check_cuda(call, #call)
#define PARAMS(type, name, ...) type name = {.structSize = type##_STRUCT_SIZE, __VA_ARGS__}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) die("host memory", "out of it", NULL);
    return memory;
}

/* ---- the counters ---- */

static struct {
    size_t device;
    uint64_t interval_ns;
    const char *chip;
    uint8_t *availability;
} gpu = {.interval_ns = 500000};

/* Metrics that are counted at once. */
struct sampler {
    const char **metrics;
    size_t count;
    CUpti_Profiler_Host_Object *host;
    uint8_t *config;
    size_t config_bytes, passes;
    CUpti_PmSampling_Object *object;
    uint8_t *image;
    size_t image_bytes;
    double sums[MOST_METRICS];
    uint64_t covered_ns, samples, lost; /* samples without a time are lost ones */
    bool overflow;
};

static void gpu_open(void)
{
    CUdevice device;
    CUcontext context;
    CUDA(cuInit(0));
    CUDA(cuDeviceGet(&device, (int)gpu.device));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    PARAMS(CUpti_Profiler_Initialize_Params, init);
    CUPTI(cuptiProfilerInitialize(&init));
    PARAMS(CUpti_Device_GetChipName_Params, chip, .deviceIndex = gpu.device);
    CUPTI(cuptiDeviceGetChipName(&chip));
    gpu.chip = chip.pChipName;
    PARAMS(CUpti_PmSampling_GetCounterAvailability_Params, availability, .deviceIndex = gpu.device);
    CUPTI(cuptiPmSamplingGetCounterAvailability(&availability));
    gpu.availability = allocate(availability.counterAvailabilityImageSize);
    availability.pCounterAvailabilityImage = gpu.availability;
    CUPTI(cuptiPmSamplingGetCounterAvailability(&availability));
}

/* The counters' configuration for these metrics, and how many passes they would need. */
static void sampler_configure(struct sampler *s, const char **metrics, size_t count)
{
    memset(s, 0, sizeof *s);
    s->metrics = metrics;
    s->count = count;
    PARAMS(CUpti_Profiler_Host_Initialize_Params, host, .profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING,
           .pChipName = gpu.chip, .pCounterAvailabilityImage = gpu.availability);
    CUPTI(cuptiProfilerHostInitialize(&host));
    s->host = host.pHostObject;
    PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add, .pHostObject = s->host, .ppMetricNames = metrics,
           .numMetrics = count);
    CUptiResult added = cuptiProfilerHostConfigAddMetrics(&add);
    if (added == CUPTI_ERROR_INVALID_METRIC_NAME)
        die(metrics[0], "this chip's PM sampling knows no such metric, or not one of those after it",
            "-m takes others, `ncu --query-metrics` lists names");
    check_cupti(added, "cuptiProfilerHostConfigAddMetrics");
    PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size, .pHostObject = s->host);
    CUPTI(cuptiProfilerHostGetConfigImageSize(&size));
    s->config_bytes = size.configImageSize;
    s->config = allocate(s->config_bytes);
    PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image, .pHostObject = s->host, .configImageSize = s->config_bytes,
           .pConfigImage = s->config);
    CUPTI(cuptiProfilerHostGetConfigImage(&image));
    PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, passes, .configImageSize = s->config_bytes,
           .pConfigImage = s->config);
    CUPTI(cuptiProfilerHostGetNumOfPasses(&passes));
    s->passes = passes.numOfPasses;
}

static void sampler_close(struct sampler *s)
{
    PARAMS(CUpti_Profiler_Host_Deinitialize_Params, host, .pHostObject = s->host);
    if (s->object) {
        PARAMS(CUpti_PmSampling_Disable_Params, disable, .pPmSamplingObject = s->object);
        CUPTI(cuptiPmSamplingDisable(&disable));
    }
    CUPTI(cuptiProfilerHostDeinitialize(&host));
    free(s->config);
    free(s->image);
    memset(s, 0, sizeof *s);
}

static void image_reset(struct sampler *s)
{
    PARAMS(CUpti_PmSampling_CounterDataImage_Initialize_Params, init, .pPmSamplingObject = s->object,
           .counterDataSize = s->image_bytes, .pCounterData = s->image);
    CUPTI(cuptiPmSamplingCounterDataImageInitialize(&init));
}

static void sampler_enable(struct sampler *s)
{
    PARAMS(CUpti_PmSampling_Enable_Params, enable, .deviceIndex = gpu.device);
    CUPTI(cuptiPmSamplingEnable(&enable));
    s->object = enable.pPmSamplingObject;
    PARAMS(CUpti_PmSampling_SetConfig_Params, config, .pPmSamplingObject = s->object, .configSize = s->config_bytes,
           .pConfig = s->config, .hardwareBufferSize = BUFFER_BYTES, .samplingInterval = gpu.interval_ns,
           .triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
           .hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
    CUPTI(cuptiPmSamplingSetConfig(&config));
    PARAMS(CUpti_PmSampling_GetCounterDataSize_Params, size, .pPmSamplingObject = s->object, .pMetricNames = s->metrics,
           .numMetrics = s->count, .maxSamples = SAMPLES);
    CUPTI(cuptiPmSamplingGetCounterDataSize(&size));
    s->image_bytes = size.counterDataSize;
    s->image = allocate(s->image_bytes);
    image_reset(s);
}

static void add_sample(struct sampler *s, size_t index)
{
    double values[MOST_METRICS] = {0};
    PARAMS(CUpti_PmSampling_CounterData_GetSampleInfo_Params, info, .pPmSamplingObject = s->object,
           .pCounterDataImage = s->image, .counterDataImageSize = s->image_bytes, .sampleIndex = index);
    CUPTI(cuptiPmSamplingCounterDataGetSampleInfo(&info));
    if (!info.endTimestamp) s->lost++;
    if (info.endTimestamp <= info.startTimestamp) return; /* after a stop some samples cover no time */
    PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluate, .pHostObject = s->host,
           .pCounterDataImage = s->image, .counterDataImageSize = s->image_bytes, .rangeIndex = index,
           .ppMetricNames = s->metrics, .numMetrics = s->count, .pMetricValues = values);
    CUPTI(cuptiProfilerHostEvaluateToGpuValues(&evaluate));
    for (size_t m = 0; m < s->count; m++) s->sums[m] += values[m];
    s->covered_ns += info.endTimestamp - info.startTimestamp;
    s->samples++;
}

/* Takes what the device has sampled so far. */
static void sampler_decode(struct sampler *s)
{
    PARAMS(CUpti_PmSampling_DecodeData_Params, decode, .pPmSamplingObject = s->object, .pCounterDataImage = s->image,
           .counterDataImageSize = s->image_bytes);
    CUptiResult result = cuptiPmSamplingDecodeData(&decode);
    if (decode.overflow) s->overflow = true;
    if (s->overflow) return;
    check_cupti(result, "cuptiPmSamplingDecodeData");
    PARAMS(CUpti_PmSampling_GetCounterDataInfo_Params, info, .pCounterDataImage = s->image,
           .counterDataImageSize = s->image_bytes);
    CUPTI(cuptiPmSamplingGetCounterDataInfo(&info));
    for (size_t i = 0; i < info.numCompletedSamples; i++) add_sample(s, i);
    if (decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL) s->lost++;
    image_reset(s);
}

static void sampler_start(struct sampler *s)
{
    memset(s->sums, 0, sizeof s->sums);
    s->covered_ns = s->samples = s->lost = 0;
    PARAMS(CUpti_PmSampling_Start_Params, start, .pPmSamplingObject = s->object);
    CUPTI(cuptiPmSamplingStart(&start));
}

static void sampler_stop(struct sampler *s)
{
    PARAMS(CUpti_PmSampling_Stop_Params, stop, .pPmSamplingObject = s->object);
    CUPTI(cuptiPmSamplingStop(&stop));
    sampler_decode(s);
}

/* ---- the child ---- */

static struct {
    pid_t pid;
    int to, from;
    char line[65536];
} child;

static void child_start(char **command)
{
    int in[2], out[2];
    if (pipe(in) || pipe(out)) die("pipe", strerror(errno), NULL);
    child.pid = fork();
    if (child.pid < 0) die("fork", strerror(errno), NULL);
    if (!child.pid) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execvp(command[0], command);
        fprintf(stderr, "pm_sampling: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    child.to = in[1];
    child.from = out[0];
}

static void child_send(const char *line)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s\n", line);
    if (write(child.to, text, (size_t)n) != n) die("the child", "takes no more lines", NULL);
}

/* The child's next line; what is sampled meanwhile is taken in turns. */
static const char *child_answer(struct sampler *s)
{
    size_t n = 0;
    for (int waited = 0; waited < ANSWER_MS; waited += DECODE_MS) {
        struct pollfd fd = {.fd = child.from, .events = POLLIN};
        int ready = poll(&fd, 1, DECODE_MS);
        if (s) sampler_decode(s);
        if (ready <= 0) continue;
        ssize_t got = read(child.from, child.line + n, sizeof child.line - 1 - n);
        if (got <= 0) die("the child", "ended without an answer", NULL);
        n += (size_t)got;
        child.line[n] = 0;
        if (child.line[n - 1] != '\n') continue;
        child.line[n - 1] = 0;
        return child.line;
    }
    die("the child", "gave no answer", NULL);
    return NULL;
}

/* ---- measuring ---- */

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void measure(struct sampler *s, const char *line)
{
    double idle[MOST_METRICS]; /* per ns */
    child_send(line);
    if (strcmp(child_answer(NULL), "ready")) die(line, "the child did not say \"ready\"", child.line);
    sampler_enable(s);
    sampler_start(s);
    pause_ms(IDLE_MS);
    sampler_stop(s);
    for (size_t m = 0; m < s->count; m++) idle[m] = s->covered_ns ? s->sums[m] / (double)s->covered_ns : 0;
    sampler_start(s);
    pause_ms(DECODE_MS / 10); /* the first sample begins before the work */
    child_send("");
    const char *answer = child_answer(s);
    pause_ms(DECODE_MS / 10);
    sampler_stop(s);
    printf("{\"line\":\"%s\",\"chip\":\"%s\",\"metrics\":{", line, gpu.chip);
    for (size_t m = 0; m < s->count; m++)
        printf("%s\"%s\":{\"sum\":%.0f,\"idle\":%.0f}", m ? "," : "", s->metrics[m], s->sums[m],
               idle[m] * (double)s->covered_ns);
    printf("},\"covered_seconds\":%.6f,\"samples\":%llu,\"lost\":%llu,\"overflow\":%s,\"child\":%s}\n",
           (double)s->covered_ns * 1e-9, (unsigned long long)s->samples, (unsigned long long)s->lost,
           s->overflow ? "true" : "false", answer);
    fflush(stdout);
}

static void measure_set(const char **metrics, size_t count, const char *line)
{
    struct sampler s;
    sampler_configure(&s, metrics, count);
    bool fits = s.passes <= 1;
    if (fits) measure(&s, line);
    sampler_close(&s);
    if (fits) return;
    if (count == 1) die(metrics[0], "needs several passes", "it can't be sampled on this GPU");
    for (size_t m = 0; m < count; m++) measure_set(metrics + m, 1, line);
}

int main(int argc, char **argv)
{
    static const char *metrics[MOST_METRICS] = {"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum"};
    size_t given = 0, count = 3;
    int at = 1, command;
    for (; at + 1 < argc && argv[at][0] == '-' && argv[at][1] != '-'; at += 2) {
        if (!strcmp(argv[at], "-d"))
            gpu.device = strtoul(argv[at + 1], NULL, 10);
        else if (!strcmp(argv[at], "-i"))
            gpu.interval_ns = strtoull(argv[at + 1], NULL, 10);
        else if (!strcmp(argv[at], "-m") && given < MOST_METRICS)
            metrics[given++] = argv[at + 1];
        else
            die(argv[at], "unknown option", NULL);
    }
    if (given) count = given;
    for (command = at; command < argc && strcmp(argv[command], "--");) command++;
    if (command == at || command + 1 >= argc || !gpu.interval_ns)
        die("usage", "pm_sampling [-d DEVICE] [-i INTERVAL_NS] [-m METRIC]... LINE... -- COMMAND ARGUMENT...", NULL);
    signal(SIGPIPE, SIG_IGN);        /* a child that has ended is an error with a text */
    child_start(argv + command + 1); /* before CUDA: a forked process must not have its threads */
    gpu_open();
    for (; at < command; at++) measure_set(metrics, count, argv[at]);
    close(child.to);
    int status = 0;
    waitpid(child.pid, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
