/* What is known of drivers: versions and their ranges, and each row of the table with a device that it is for and with
 * one that it just is not. The texts are made up after those that drivers give. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <stdlib.h>

#include "backends/kernel_program.h"
#include "backends/quirks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- versions ---- */

static void reads_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct device_version version;
    } cases[] = {
        {"Mesa 22.3.6", {{22, 3, 6}, 3}},
        {"580.159.04", {{580, 159, 4}, 3}},
        {"3.1+debian", {{3, 1}, 2}},
        {"26.2.6-1 (git-1234.5)", {{26, 2, 6}, 3}},
        {"2023.Q4.2 (LLPC)", {{0}, 0}},
        {"no number", {{0}, 0}},
        {"build 7 of 1.2.3.4.5", {{1, 2, 3, 4}, 4}},
        {"99999999999999999999.1", {{UINT32_MAX, 1}, 2}},
        {"", {{0}, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_version got = version_read(cases[i].text);
        if (memcmp(&got, &cases[i].version, sizeof got)) fail_msg("\"%s\": another version", cases[i].text);
    }
}

static void unpacks_versions(void **state)
{
    (void)state;
    struct device_version nvidia = version_unpack(580u << 22 | 159 << 14 | 4 << 6, VENDOR_NVIDIA, 0),
                          intel = version_unpack(101 << 14 | 8509, VENDOR_INTEL, DRIVER_INTEL_WINDOWS),
                          molten = version_unpack(10204, VENDOR_AMD, DRIVER_MOLTENVK),
                          other = version_unpack(22 << 22 | 3 << 12 | 6, VENDOR_INTEL, DRIVER_INTEL_MESA);
    assert_true(version_within(&nvidia, "580.159.4"));
    assert_true(version_within(&intel, "101.8509"));
    assert_true(version_within(&molten, "1.2.4"));
    assert_true(version_within(&other, "22.3.6"));
}

static void compares_versions(void **state)
{
    (void)state;
    static const struct {
        const char *version, *range;
        bool within;
    } cases[] = {
        {"101.8509", "101.8509..<101.8860", true},
        {"101.8859.3", "101.8509..<101.8860", true},
        {"101.8860", "101.8509..<101.8860", false},
        {"101.8860.1", "101.8509..101.8860", true},
        {"101.8508.9", "101.8509..", false},
        {"7.0", "6..", true},
        {"6.0", "6..", true},
        {"5.9", "6..", false},
        {"1.2", "..1.2.0", true},
        {"1.2.1", "..1.2.0", false},
        {"1.2.1", "..1.2", true},
        {"1.9", "1.10..", false},
        {"1.10", "1.9..", true},
        {"2.1", "2", true},
        {"3.1", "2", false},
        {"none", "", true},
        {"none", "0..", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_version version = version_read(cases[i].version);
        if (version_within(&version, cases[i].range) != cases[i].within)
            fail_msg("%s in \"%s\": %d expected", cases[i].version, cases[i].range, cases[i].within);
    }
}

static void reads_compilers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *compiler, *releases;
    } cases[] = {
        {"OpenCL 3.0 QUALCOMM build: commit 1a2b Compiler E031.38.11.04", "E031", "38.11.4"},
        {"Driver Build: E1f00a2, 1622721461\nCompiler Version: EV031.32.02.12", "E031", "32.2.12"},
        {"QUALCOMM build Compiler DX.17.02.01", "DX", "17.2.1"},
        {"QUALCOMM build Compiler E17.50.03.01", "E17", "50.3.1"},
        {"Mesa 26.2.6, Date 01.02.2026", "", ""},
        {"E. 1.2 DX.x EV EV031 E031. MODE031.1", "", ""},
        {"E01234567890123456789.1", "", ""}, /* no room for the name */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device_identity d;
        compiler_read(cases[i].text, &d);
        if (strcmp(d.compiler, cases[i].compiler) || !version_within(&d.release, cases[i].releases))
            fail_msg("\"%s\": compiler \"%s\"", cases[i].text, d.compiler);
    }
}

/* ---- the table ---- */

/* A device as a driver describes it. `text`: driverInfo, or CL_DRIVER_VERSION. */
struct known {
    const char *quirk; /* that this device has; NULL: none but those named before */
    enum device_api api;
    uint32_t vendor, driver, packed;
    const char *platform, *text, *name;
};

#define VK DEVICE_API_VULKAN
#define CL DEVICE_API_OPENCL

static struct device_identity identify(const struct known *k)
{
    struct device_identity d = {.api = k->api, .vendor_id = k->vendor, .driver_id = k->driver};
    snprintf(d.name, sizeof d.name, "%s", k->name);
    snprintf(d.driver_text, sizeof d.driver_text, "%s %s", k->platform, k->text);
    identity_versions(&d, k->text, k->packed);
    return d;
}

/* Each row twice: the first device has the quirk, the second does not. */
static const struct known devices[][2] = {
    {{"amd-matrices", VK, 0x1002, 1, 0, "AMD proprietary driver", "24.3.1", "AMD Radeon RX 6800 XT"},
     {NULL, VK, 0x1002, 1, 0, "AMD proprietary driver", "24.3.1", "AMD Radeon RX 7900 XTX"}},
    {{"amdvlk-matrices", VK, 0x1002, 2, 0, "AMD open-source driver", "2023.Q4.2 (LLPC)", "AMD Radeon RX 5700"},
     {NULL, VK, 0x1002, 3, 0, "radv", "Mesa 26.2.6", "AMD Radeon RX 5700 (RADV NAVI10)"}},
    {{"alchemist-matrices", VK, 0x8086, 6, 0, "Intel open-source Mesa driver", "Mesa 24.1.0",
      "Intel(R) Arc(tm) A770 Graphics (DG2)"},
     {NULL, VK, 0x8086, 6, 0, "Intel open-source Mesa driver", "Mesa 24.1.0",
      "Intel(R) Arc(tm) B580 Graphics (BMG G21)"}},
    {{"intel-windows-8509", VK, 0x8086, 5, 101 << 14 | 8531, "Intel Corporation", "Intel driver",
      "Intel(R) Arc(TM) 140V GPU"},
     {NULL, VK, 0x8086, 5, 101 << 14 | 8860, "Intel Corporation", "Intel driver", "Intel(R) Arc(TM) 140V GPU"}},
    {{"intel-subgroups", VK, 0x8086, 6, 0, "Intel open-source Mesa driver", "Mesa 24.1.0",
      "Intel(R) Iris(R) Xe Graphics (TGL GT2)"},
     {NULL, CL, 0x8086, 0, 0, "Intel(R) OpenCL Graphics", "24.22.29735", "Intel(R) Iris(R) Xe Graphics"}},
    {{"moltenvk-uuid", VK, 0x1002, 14, 10204, "MoltenVK", "1.2.4", "AMD Radeon Pro W6800X"},
     {NULL, VK, 0x106B, 26, 0, "Honeykrisp", "Mesa 26.2.6", "Apple M1 (G13G B1)"}},
    {{"turnip-full-subgroups", VK, 0x5143, 18, 0, "turnip Mesa driver", "Mesa 26.2.6", "Turnip Adreno (TM) 740v3"},
     {NULL, VK, 0x5143, 8, 512u << 22 | 530 << 12, "Qualcomm Technologies Inc. Adreno Vulkan Driver",
      "Compiler Version: EV031.38.09.01", "Adreno (TM) 740"}},
    {{"adreno-e031-38", CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)",
      "OpenCL 3.0 QUALCOMM build: commit 1a2b Compiler E031.44.02", "Adreno(TM) 830"},
     {NULL, CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 3.0 QUALCOMM build: commit 1a2b Compiler E031.45.02",
      "Adreno(TM) 830"}},
    {{"adreno-e17", CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 3.0 QUALCOMM build: Compiler E17.50.03.01",
      "Adreno(TM) X2-90"},
     {NULL, CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 3.0 QUALCOMM build: Compiler DX.17.02",
      "Adreno(TM) X1-85"}},
    {{"adreno-700-e031-41", CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)",
      "OpenCL 3.0 QUALCOMM build: Compiler E031.41.05", "Adreno(TM) 740"},
     {NULL, CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 3.0 QUALCOMM build: Compiler E031.42.05",
      "Adreno(TM) 740"}},
    {{"adreno-600-700", CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 2.0 QUALCOMM build: Compiler E031.37.12",
      "Adreno(TM) 660"},
     {NULL, CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 3.0 QUALCOMM build: Compiler E031.45.12",
      "Adreno(TM) 830"}},
    {{"adreno-before-512", CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 2.0 QUALCOMM build", "Adreno(TM) 509"},
     {NULL, CL, 0x5143, 0, 0, "QUALCOMM Snapdragon(TM)", "OpenCL 2.0 QUALCOMM build", "Adreno(TM) 512"}},
    {{"mali-flush", CL, 0x13B5, 0, 0, "ARM Platform", "3.0", "Mali-G78"},
     {NULL, CL, 0x13B5, 0, 0, "rusticl", "26.2.6", "Mali-G610 (Panfrost)"}},
    {{"oclgrind-compiler", CL, 0, 0, 0, "Oclgrind", "21.10", "Oclgrind Simulator"},
     {NULL, CL, 0x10DE, 0, 0, "NVIDIA CUDA", "580.159.04", "NVIDIA H200"}},
    {{"pocl-launches", CL, 0, 0, 0, "Portable Computing Language", "3.1+debian", "pthread-skylake-avx512"},
     {NULL, CL, 0, 0, 0, "rusticl", "26.2.6", "llvmpipe (LLVM 19)"}},
    {{"pocl-6-optimizer", CL, 0, 0, 0, "Portable Computing Language", "6.0-6+deb13u1", "cpu-skylake-avx512"},
     {NULL, CL, 0, 0, 0, "Portable Computing Language", "5.1", "cpu-skylake-avx512"}},
};

/* What each does. */
static const struct {
    const char *quirk;
    uint32_t switches;
} done[] = {
    {"amd-matrices", QUIRK_NO_MATRICES},
    {"amdvlk-matrices", QUIRK_NO_MATRICES},
    {"alchemist-matrices", QUIRK_NO_MATRICES},
    {"intel-windows-8509", QUIRK_NO_MATRICES | QUIRK_COMPILE_GUARDED},
    {"intel-subgroups", QUIRK_LEAST_SUBGROUP},
    {"moltenvk-uuid", QUIRK_NO_UUID},
    {"turnip-full-subgroups", QUIRK_NO_FULL_SUBGROUPS},
    {"adreno-e031-38", QUIRK_CHECK_ALL},
    {"adreno-e17", QUIRK_COMPILE_GUARDED},
    {"adreno-700-e031-41", QUIRK_COMPILE_GUARDED},
    {"adreno-600-700", QUIRK_CHECK_ALL},
    {"adreno-before-512", QUIRK_NO_GROUP_ATTRIBUTE},
    {"mali-flush", QUIRK_FLUSH_OFTEN},
    {"oclgrind-compiler", QUIRK_ONE_COMPILER},
    {"pocl-launches", QUIRK_COMPILES_TWICE | QUIRK_KEEPS_KERNELS},
    {"pocl-6-optimizer", QUIRK_OPTIMIZES_ONLY},
};

static bool has(const struct known *k, const char *quirk)
{
    const struct device_identity d = identify(k);
    const struct quirk *q;
    for (size_t i = 0; (q = quirk_at(i)); i++)
        if (!strcmp(q->name, quirk)) return quirk_applies(q, &d);
    fail_msg("the table has no \"%s\"", quirk);
    return false;
}

static void tells_devices_apart(void **state)
{
    (void)state;
    size_t n = sizeof devices / sizeof *devices, rows = 0;
    for (size_t i = 0; i < n; i++) {
        const char *quirk = devices[i][0].quirk;
        if (!has(&devices[i][0], quirk)) fail_msg("%s is not for %s", quirk, devices[i][0].name);
        if (has(&devices[i][1], quirk)) fail_msg("%s is for %s, too", quirk, devices[i][1].name);
    }
    for (const struct quirk *q; (q = quirk_at(rows)); rows++) {
        size_t i = 0;
        if (rows == n) fail_msg("no device of this test has %s", q->name);
        while (i < n && strcmp(devices[i][0].quirk, q->name)) i++;
        if (i == n) fail_msg("no device of this test has %s", q->name);
        assert_true(q->reason && q->source);
        assert_string_equal(done[rows].quirk, q->name); /* in the table's order */
        assert_int_equal(done[rows].switches, q->switches);
    }
    assert_int_equal(rows, n);
}

static void knows_no_quirks_of_the_host(void **state)
{
    (void)state;
    struct device_identity none = {.api = DEVICE_API_NONE};
    char names[64];
    unsetenv("WHERRY_QUIRKS");
    assert_int_equal(quirks_find(&none, names, sizeof names), 0);
    assert_string_equal(names, "");
}

static void obeys_the_environment(void **state)
{
    (void)state;
    const struct device_identity d = identify(&devices[0][0]);
    char names[256];
    unsetenv("WHERRY_QUIRKS");
    assert_int_equal(quirks_find(&d, names, sizeof names), QUIRK_NO_MATRICES);
    assert_string_equal(names, "amd-matrices");
    setenv("WHERRY_QUIRKS", "none", 1);
    assert_int_equal(quirks_find(&d, names, sizeof names), 0);
    assert_string_equal(names, "");
    setenv("WHERRY_QUIRKS", "no-16-bit,check-all", 1);
    assert_int_equal(quirks_find(&d, names, sizeof names), QUIRK_NO_16_BIT | QUIRK_CHECK_ALL);
    assert_string_equal(names, "WHERRY_QUIRKS=no-16-bit,check-all");
    setenv("WHERRY_QUIRKS", "no-32-bit", 1);
    assert_int_equal(quirks_find(&d, names, sizeof names), 0);
    assert_string_equal(names, "WHERRY_QUIRKS=no-32-bit, there is no switch \"no-32-bit\"");
    unsetenv("WHERRY_QUIRKS");
    for (uint32_t bit = 1; bit <= QUIRK_COMPILE_GUARDED; bit <<= 1) assert_non_null(quirk_switch_name(bit));
}

/* What switches change of what compilers are given. Others are seen on devices: tests/limits/limits.sh. */
static void changes_programs(void **state)
{
    (void)state;
    const struct device_limits plain = {.coopmat_subgroup = 8}, full = {.quirks = QUIRK_NO_FULL_SUBGROUPS},
                               declares = {.quirks = QUIRK_NO_GROUP_ATTRIBUTE};
    const struct embedded_kernel kernel = {.name = "made up", .matrices = true}, portable = {.name = "made up"};
    struct kernel_program out;
    vulkan_program(&plain, true, &kernel, NULL, 0, &out);
    assert_true(out.full_subgroups);
    assert_int_equal(out.subgroup_size, 8);
    vulkan_program(&full, false, &kernel, NULL, 0, &out);
    assert_false(out.full_subgroups);
    vulkan_program(&plain, true, &portable, NULL, 0, &out);
    assert_false(out.full_subgroups);
    assert_int_equal(out.subgroup_size, 0);
    struct embedded_kernel map;
    if (!opencl_kernel_find("map", &map)) return; /* a build without OpenCL */
    const struct call call = {.kernel = "map"};
    const struct step step = {.name = "made up", .kernel = "map", .call = &call};
    const struct opencl_form form = {.unoptimized = false};
    struct error e = {0};
    assert_true(opencl_program(&plain, &form, &step, &out, &e));
    assert_null(strstr(out.options, "GROUP_ATTRIBUTE"));
    assert_true(opencl_program(&declares, &form, &step, &out, &e));
    assert_non_null(strstr(out.options, "-D GROUP_ATTRIBUTE=0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_versions),        cmocka_unit_test(unpacks_versions),
        cmocka_unit_test(compares_versions),     cmocka_unit_test(reads_compilers),
        cmocka_unit_test(tells_devices_apart),   cmocka_unit_test(knows_no_quirks_of_the_host),
        cmocka_unit_test(obeys_the_environment), cmocka_unit_test(changes_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
