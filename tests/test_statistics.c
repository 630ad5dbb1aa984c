/* What drivers tell about kernels, translated: with the figures of real ones, and with none, too many, and wrong ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backends/occupancy.h"
#ifdef WHERRY_HAVE_VULKAN
#include "backends/vulkan/vulkan.h"
#endif

#include <cmocka.h> /* after error.h: it makes a macro of fail */

/* By the CUDA guide's table and its rules of allocation. */
static void test_occupancy(void **state)
{
    static const struct {
        uint32_t sm, registers, shared, local, waves, most;
    } cases[] = {{90, 32, 0, 256, 64, 64},      /* all that fit */
                 {90, 128, 0, 256, 16, 64},     /* 65536 / (128 * 32) */
                 {90, 255, 0, 128, 8, 64},      /* rounded up to 256 registers */
                 {90, 168, 0, 384, 12, 64},     /* 12 warps' registers: one group of 12 */
                 {90, 32, 100000, 256, 16, 64}, /* two groups' shared memory */
                 {90, 32, 0, 32, 32, 64},       /* 32 groups at most */
                 {86, 40, 0, 256, 48, 48},      {75, 64, 0, 256, 32, 32}, {80, 64, 84000, 64, 2, 64},
                 {90, 255, 0, 1024, 0, 64}, /* it does not fit at all */
                 {0, 32, 0, 256, 0, 0},         {93, 32, 0, 256, 0, 0},   {90, 0, 0, 256, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t most;
        assert_int_equal(nvidia_waves(cases[i].sm, cases[i].registers, cases[i].shared, cases[i].local, &most),
                         cases[i].waves);
        assert_int_equal(most, cases[i].most);
    }
}

#ifdef WHERRY_HAVE_VULKAN

enum { LIST = 12 };

struct told {
    const char *name;
    uint64_t value;
};

static struct kernel_usage translate(const struct told told[LIST], uint32_t subgroup)
{
    VkPipelineExecutableStatisticKHR list[LIST] = {{0}};
    struct kernel_usage usage;
    uint32_t n = 0;
    for (; n < LIST && told[n].name; n++) {
        snprintf(list[n].name, sizeof list[n].name, "%s", told[n].name);
        list[n].format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR;
        list[n].value.u64 = told[n].value;
    }
    statistics_translate(list, n, subgroup, &usage);
    return usage;
}

/* The words and units of each driver, as they were seen. */
static void test_drivers(void **state)
{
    static const struct {
        struct told told[LIST];
        uint32_t subgroup;
        struct kernel_usage usage;
    } cases[] = {
        {{{"SGPRs", 108},
          {"VGPRs", 72},
          {"Spilled SGPRs", 0},
          {"Spilled VGPRs", 0},
          {"Code size", 9020},
          {"LDS size", 4096},
          {"Scratch size", 0},
          {"Subgroups per SIMD", 16}},
         64,
         {.registers = 72, .shared = 4096, .waves = 16, .subgroup = 64, .code = 9020}},
        {{{"VGPRs", 256}, {"Spilled VGPRs", 28}, {"Scratch size", 6400}, {"Subgroups per SIMD", 4}},
         64,
         {.registers = 256, .spilled = 112, .waves = 4, .subgroup = 64}},
        {{{"Max Waves Per Core", 12}, {"Code size", 4096}, {"Registers used", 16}, {"STP Count", 3}},
         64,
         {.registers = 64, .spilled = 12, .waves = 12, .subgroup = 64, .code = 16384}},
        {{{"Max warps/SM", 36},
          {"Spills to memory", 0},
          {"Spills to reg", 9},
          {"Code size", 60912},
          {"Number of GPRs", 56},
          {"SLM size", 28}},
         32,
         {.registers = 56, .spilled = 28, .waves = 36, .subgroup = 32, .code = 60912}},
        {{{"FSCIB", 1617}, {"Code size", 18114}, {"GPRs", 103}, {"Scratch", 0}, {"Threads", 1024}, {"Spills", 0}},
         32,
         {.registers = 52, .waves = 32, .subgroup = 32, .code = 18114}},
        {{{"Max dispatch width", 16}, {"GRF registers", 128}, {"Spill Count", 2}, {"Workgroup Memory Size", 1024}},
         16,
         {.registers = 64, .spilled = 8, .shared = 1024, .subgroup = 16}},
        {{{"Register Count", 168}, {"Binary Size", 8000}, {"Local Memory Size", 16}},
         32,
         {.registers = 168, .spilled = 16, .subgroup = 32, .code = 8000}},
        {{{"Register Count", 75},
          {"Binary Size", 22144},
          {"Stack Size", 0},
          {"Local Memory Size", UINT64_C(16) << 32},
          {"Shared Memory Size", 4096}},
         32,
         {.registers = 75, .shared = 4096, .subgroup = 32, .code = 22144}},
        {{{"VGPRs", 72}}, 64, {.subgroup = 64}},                                /* of no known driver */
        {{{"Subgroups per SIMD", 16}, {"Scratch size", 64}}, 0, {.waves = 16}}, /* no sub-group to divide by */
        {{{"Register Count", UINT64_MAX}}, 32, {.registers = UINT32_MAX, .subgroup = 32}},
        {{{0}}, 0, {0}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kernel_usage usage = translate(cases[i].told, cases[i].subgroup), *want = &cases[i].usage;
        printf("case %zu\n", i);
        assert_int_equal(usage.registers, want->registers);
        assert_int_equal(usage.spilled, want->spilled);
        assert_int_equal(usage.shared, want->shared);
        assert_int_equal(usage.waves, want->waves);
        assert_int_equal(usage.subgroup, want->subgroup);
        assert_int_equal(usage.code, want->code);
    }
}

/* A number that is none, negative or a fraction, is not told at all. */
static void test_formats(void **state)
{
    VkPipelineExecutableStatisticKHR list[2] = {{.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR},
                                                {.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR}};
    struct kernel_usage usage;
    (void)state;
    snprintf(list[0].name, sizeof list[0].name, "Register Count");
    snprintf(list[1].name, sizeof list[1].name, "Binary Size");
    list[0].value.i64 = -1;
    list[1].value.f64 = 3;
    statistics_translate(list, 2, 32, &usage);
    assert_int_equal(usage.registers, 0);
    assert_int_equal(usage.code, 0);
    memset(list[0].name, 'x', sizeof list[0].name); /* without its end */
    statistics_translate(list, 1, 32, &usage);
    assert_int_equal(usage.registers, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_occupancy),
#ifdef WHERRY_HAVE_VULKAN
        cmocka_unit_test(test_drivers),
        cmocka_unit_test(test_formats),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
