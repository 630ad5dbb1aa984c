#include "backends/quirks.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct quirk table[] = {
    {.name = "amd-matrices",
     .api = DEVICE_API_VULKAN,
     .driver_id = DRIVER_AMD_PROPRIETARY,
     .other_devices = "RX 7|RX 9|PRO W7|PRO V7|AI PRO|740M|760M|780M|880M|890M|8050S|8060S",
     .switches = QUIRK_NO_MATRICES,
     .reason = "reports cooperative matrices on GPUs before RDNA3, which have no units for them",
     .source = "ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 18915"},
    {.name = "amdvlk-matrices",
     .api = DEVICE_API_VULKAN,
     .driver_id = DRIVER_AMD_OPEN_SOURCE,
     .other_devices = "RX 7|RX 9|PRO W7|PRO V7|AI PRO|740M|760M|780M|880M|890M|8050S|8060S",
     .switches = QUIRK_NO_MATRICES,
     .reason = "reports cooperative matrices on GPUs before RDNA3, which have no units for them",
     .source = "ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 18915"},
    {.name = "alchemist-matrices",
     .api = DEVICE_API_VULKAN,
     .vendor_id = VENDOR_INTEL,
     .devices = "A310|A350M|A370M|A380|A530M|A550M|A570M|A580|A730M|A750|A770|DG2",
     .switches = QUIRK_NO_MATRICES,
     .reason = "products by cooperative matrices are slower than those without on GPUs before Xe2",
     .source = "ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 18915"},
    {.name = "intel-windows-8509",
     .api = DEVICE_API_VULKAN,
     .driver_id = DRIVER_INTEL_WINDOWS,
     .versions = "101.8509..<101.8860",
     .switches = QUIRK_NO_MATRICES | QUIRK_COMPILE_GUARDED,
     .reason = "crashes in kernels that other versions run, and loses the device in products by cooperative matrices",
     .source = "ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 5759; ggml-org/llama.cpp#20554"},
    {.name = "intel-subgroups",
     .api = DEVICE_API_VULKAN,
     .vendor_id = VENDOR_INTEL,
     .switches = QUIRK_LEAST_SUBGROUP,
     .reason = "chooses sub-groups of 8, 16 or 32 by the kernel, and its matrices are of the least of its sizes",
     .source = "ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 4171"},
    {.name = "moltenvk-uuid",
     .api = DEVICE_API_VULKAN,
     .driver_id = DRIVER_MOLTENVK,
     .switches = QUIRK_NO_UUID,
     .reason = "gives two GPUs of one kind the same UUID",
     .source = "KhronosGroup/MoltenVK#2683; ggml-org/ggml d99724f, src/ggml-vulkan/ggml-vulkan.cpp 7478"},
    {.name = "turnip-full-subgroups",
     .api = DEVICE_API_VULKAN,
     .driver_id = DRIVER_TURNIP,
     .switches = QUIRK_NO_FULL_SUBGROUPS,
     .reason = "crashes when large kernels ask for full sub-groups",
     .source = "Tencent/ncnn a4d2ea1, src/gpu.cpp 1641"},
    {.name = "adreno-e031-38",
     .api = DEVICE_API_OPENCL,
     .compiler = "E031",
     .releases = "38..44",
     .switches = QUIRK_CHECK_ALL,
     .reason = "its compiler miscompiles a product, which release 45 does not",
     .source = "ggml-org/ggml d99724f, src/ggml-opencl/ggml-opencl.cpp 5928"},
    {.name = "adreno-e17",
     .api = DEVICE_API_OPENCL,
     .compiler = "E17",
     .switches = QUIRK_COMPILE_GUARDED,
     .reason = "clBuildProgram ends the process by a segmentation fault in kernels of attention",
     .source = "ggml-org/ggml d99724f, src/ggml-opencl/ggml-opencl.cpp 7492"},
    {.name = "adreno-700-e031-41",
     .api = DEVICE_API_OPENCL,
     .compiler = "E031",
     .releases = "41",
     .devices = "Adreno(TM) 7",
     .switches = QUIRK_COMPILE_GUARDED,
     .reason = "its compiler crashes in kernels of attention",
     .source = "ggml-org/ggml d99724f, src/ggml-opencl/ggml-opencl.cpp 7535, 7565"},
    {.name = "adreno-600-700",
     .api = DEVICE_API_OPENCL,
     .devices = "Adreno(TM) 6|Adreno(TM) 7",
     .switches = QUIRK_CHECK_ALL,
     .reason = "vectors in private memory were miscompiled, and weights corrupted",
     .source = "ggml-org/ggml d99724f, src/ggml-opencl/ggml-opencl.cpp 7091"},
    {.name = "adreno-before-512",
     .api = DEVICE_API_OPENCL,
     .devices = "Adreno(TM) 3|Adreno(TM) 4|Adreno(TM) 50|Adreno(TM) 510",
     .switches = QUIRK_NO_GROUP_ATTRIBUTE,
     .reason = "kernels that declare their work-group's size do not run",
     .source = "alibaba/MNN 4d40bdb, OpenCLRuntime.cpp 143"},
    {.name = "mali-flush",
     .api = DEVICE_API_OPENCL,
     .vendor_id = VENDOR_ARM,
     .driver = "ARM Platform",
     .switches = QUIRK_FLUSH_OFTEN,
     .reason = "the queue has to be flushed after every second kernel",
     .source = "alibaba/MNN 4d40bdb, OpenCLRunningUtils.cpp 656"},
    {.name = "oclgrind-compiler",
     .api = DEVICE_API_OPENCL,
     .driver = "Oclgrind ",
     .switches = QUIRK_ONE_COMPILER,
     .reason = "21.10 crashes when two threads compile",
     .source = "seen with Debian 12's"},
    {.name = "pocl-launches",
     .api = DEVICE_API_OPENCL,
     .driver = "Portable Computing Language ",
     .switches = QUIRK_COMPILES_TWICE | QUIRK_KEEPS_KERNELS,
     .reason = "3.1 takes 4.7 s for attention_backward when it is first launched, for a grid of either size, and 8.9 s "
               "more for its binary, which is for any size of work-group and is not what then runs",
     .source = "measured"},
    {.name = "pocl-6-optimizer",
     .api = DEVICE_API_OPENCL,
     .driver = "Portable Computing Language ",
     .versions = "6..",
     .switches = QUIRK_OPTIMIZES_ONLY,
     .reason = "6.0 with LLVM 18 ends the process for some kernels when it is told not to optimize: an assertion about "
               "local memory that is not used, or \"Instruction Combining did not reach a fixpoint\"",
     .source = "seen with Debian 13's"},
};

static const char *const switches[] = {"no-matrices",    "least-subgroup", "no-full-subgroups",  "no-16-bit",
                                       "no-uuid",        "check-all",      "no-group-attribute", "flush-often",
                                       "one-compiler",   "compiles-twice", "keeps-kernels",      "optimizes-only",
                                       "compile-guarded"};
enum { SWITCHES = sizeof switches / sizeof *switches };

const struct quirk *quirk_at(size_t index) { return index < sizeof table / sizeof *table ? &table[index] : NULL; }

const char *quirk_switch_name(uint32_t bit)
{
    for (size_t i = 0; i < SWITCHES; i++)
        if (bit == 1u << i) return switches[i];
    return NULL;
}

/* Whether one of the list's words is a part of the text. */
static bool any_in(const char *list, const char *text)
{
    char word[64];
    while (*list) {
        size_t length = strcspn(list, "|");
        if (length < sizeof word) {
            memcpy(word, list, length);
            word[length] = 0;
            if (strstr(text, word)) return true;
        }
        list += length + (list[length] == '|');
    }
    return false;
}

bool quirk_applies(const struct quirk *q, const struct device_identity *d)
{
    return d->api != DEVICE_API_NONE && (!q->api || q->api == d->api) &&
           (!q->driver_id || q->driver_id == d->driver_id) && (!q->vendor_id || q->vendor_id == d->vendor_id) &&
           (!q->driver || strstr(d->driver_text, q->driver)) && version_within(&d->driver, q->versions) &&
           (!q->compiler || !strcmp(q->compiler, d->compiler)) && version_within(&d->release, q->releases) &&
           (!q->devices || any_in(q->devices, d->name)) && (!q->other_devices || !any_in(q->other_devices, d->name));
}

static uint32_t asked_for(const char *list, struct text_writer *names)
{
    uint32_t bits = 0;
    for (const char *word = list; *word;) {
        size_t length = strcspn(word, ","), i = 0;
        while (i < SWITCHES && (strlen(switches[i]) != length || strncmp(switches[i], word, length) != 0)) i++;
        if (i < SWITCHES)
            bits |= 1u << i;
        else if (length)
            text_add(names, ", there is no switch \"%.*s\"", (int)(length < 40 ? length : 40), word);
        word += length + (word[length] == ',');
    }
    return bits;
}

uint32_t quirks_find(const struct device_identity *identity, char *names, size_t size)
{
    const char *list = getenv("WHERRY_QUIRKS");
    struct text_writer t = text_begin(names, size);
    uint32_t bits = 0;
    if (list && *list) {
        if (!strcmp(list, "none")) return 0;
        text_add(&t, "WHERRY_QUIRKS=%.100s", list);
        return asked_for(list, &t);
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!quirk_applies(&table[i], identity)) continue;
        text_add(&t, "%s%s", names[0] ? ", " : "", table[i].name);
        bits |= table[i].switches;
    }
    return bits;
}
