/* Which class a device is of, by names and numbers that real drivers give, and that every class's sizes are among those
 * that a tuning can choose. */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/class_sizes.h"
#include "plan/constants.h"
#include "plan/variants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- names ---- */

struct described {
    const char *class, *name;
    uint32_t vendor, device, driver; /* numbers */
    uint32_t sm, least;              /* compute capability * 10, the smallest sub-group */
};

static const struct described devices[] = {
    {"amd-rdna3", "AMD Radeon RX 7900 XTX (RADV NAVI31)", VENDOR_AMD, 0x744C, DRIVER_RADV, 0, 32},
    {"amd-rdna3", "AMD RADV GFX1100", VENDOR_AMD, 0, DRIVER_RADV, 0, 32},
    {"amd-rdna3", "AMD Radeon 780M (RADV PHOENIX)", VENDOR_AMD, 0x15BF, DRIVER_RADV, 0, 32},
    {"amd-rdna3", "AMD Radeon RX 7600", VENDOR_AMD, 0x7480, DRIVER_AMD_PROPRIETARY, 0, 32},
    {"amd-rdna3", "gfx1151", VENDOR_AMD, 0, 0, 0, 32},
    {"amd-rdna3", "AMD Radeon PRO W7900", VENDOR_AMD, 0x7448, DRIVER_AMD_PROPRIETARY, 0, 32},
    {"amd-rdna4", "AMD Radeon RX 9070 XT (RADV GFX1201)", VENDOR_AMD, 0x7550, DRIVER_RADV, 0, 32},
    {"amd-rdna4", "gfx1201", VENDOR_AMD, 0, 0, 0, 32},
    {"amd-rdna", "AMD Radeon RX 6800 XT (RADV NAVI21)", VENDOR_AMD, 0x73BF, DRIVER_RADV, 0, 32},
    {"amd-rdna", "AMD Radeon RX 5700 XT", VENDOR_AMD, 0x731F, DRIVER_AMD_PROPRIETARY, 0, 32},
    {"amd-rdna", "AMD Custom GPU 0405 (RADV VANGOGH)", VENDOR_AMD, 0x163F, DRIVER_RADV, 0, 32},
    {"amd-rdna", "gfx1030", VENDOR_AMD, 0, 0, 0, 32},
    {"amd-rdna", "AMD Radeon Graphics", VENDOR_AMD, 0x164E, DRIVER_AMD_PROPRIETARY, 0, 32},
    {"amd-gcn", "AMD Radeon Graphics", VENDOR_AMD, 0x1638, DRIVER_AMD_PROPRIETARY, 0, 64},
    {"amd-gcn", "AMD Radeon Vega Frontier Edition (RADV VEGA10)", VENDOR_AMD, 0x6863, DRIVER_RADV, 0, 64},
    {"amd-gcn", "AMD Radeon RX 580 Series", VENDOR_AMD, 0x67DF, DRIVER_AMD_PROPRIETARY, 0, 64},
    {"amd-gcn", "AMD Radeon VII", VENDOR_AMD, 0x66AF, DRIVER_AMD_PROPRIETARY, 0, 64},
    {"amd-gcn", "gfx906:sramecc+:xnack-", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-gcn", "gfx90c", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-gcn", "gfx803", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-cdna", "gfx90a:sramecc+:xnack-", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-cdna", "gfx942:sramecc+:xnack-", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-cdna", "gfx908", VENDOR_AMD, 0, 0, 0, 64},
    {"amd-cdna", "AMD Instinct MI210 (RADV ALDEBARAN)", VENDOR_AMD, 0x740F, DRIVER_RADV, 0, 64},
    {"intel-xe-lp", "Intel(R) Iris(R) Xe Graphics (TGL GT2)", VENDOR_INTEL, 0x9A49, DRIVER_INTEL_MESA, 0, 8},
    {"intel-xe-lp", "Intel(R) UHD Graphics 770", VENDOR_INTEL, 0, 0, 0, 1},
    {"intel-xe-lp", "Intel(R) UHD Graphics 770 (ADL-S GT1)", VENDOR_INTEL, 0x4680, DRIVER_INTEL_MESA, 0, 8},
    {"intel-xe-hpg", "Intel(R) Arc(TM) A770 Graphics", VENDOR_INTEL, 0, 0, 0, 1},
    {"intel-xe-hpg", "Intel(R) Arc(tm) A380 Graphics (DG2)", VENDOR_INTEL, 0x56A5, DRIVER_INTEL_MESA, 0, 8},
    {"intel-xe-hpg", "Intel(R) Arc(TM) Graphics", VENDOR_INTEL, 0x7D55, DRIVER_INTEL_WINDOWS, 0, 8},
    {"intel-xe2", "Intel(R) Arc(TM) B580 Graphics", VENDOR_INTEL, 0, 0, 0, 1},
    {"intel-xe2", "Intel(R) Graphics (BMG G21)", VENDOR_INTEL, 0xE20B, DRIVER_INTEL_MESA, 0, 16},
    {"intel-xe2", "Intel(R) Graphics [0xe20b]", VENDOR_INTEL, 0, 0, 0, 1},
    {"intel-xe2", "Intel(R) Arc(TM) 140V GPU (16GB)", VENDOR_INTEL, 0, 0, 0, 1},
    {"intel-xe2", "Intel(R) Graphics (PTL)", VENDOR_INTEL, 0xB080, DRIVER_INTEL_MESA, 0, 16},
    {"generic", "Intel(R) HD Graphics 530", VENDOR_INTEL, 0x1912, DRIVER_INTEL_MESA, 0, 8},
    {"apple", "Apple M2 Pro", VENDOR_APPLE, 0, DRIVER_MOLTENVK, 0, 32},
    {"apple", "Apple M1 (G13G A0)", 0, 0, DRIVER_HONEYKRISP, 0, 32},
    {"apple", "Apple M3", 0x1027F00, 0, 0, 0, 1},
    {"adreno", "Turnip Adreno (TM) 740", VENDOR_QUALCOMM, 0x43050A01, DRIVER_TURNIP, 0, 64},
    {"adreno", "QUALCOMM Adreno(TM)", 0xBF4D3C4B, 0, 0, 0, 1},
    {"mali", "Mali-G610", VENDOR_ARM, 0xA8670000, DRIVER_ARM, 0, 16},
    {"mali", "Mali-G57 r0p1", 0x90910010, 0, 0, 0, 1},
    {"mali", "Immortalis-G715", 0, 0, DRIVER_PANVK, 0, 16},
    {"nvidia-hopper", "NVIDIA H200", VENDOR_NVIDIA, 0, 0, 90, 32},
    {"nvidia-hopper", "NVIDIA H100 80GB HBM3", VENDOR_NVIDIA, 0x2330, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-ada", "NVIDIA GeForce RTX 4090", VENDOR_NVIDIA, 0x2684, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-ada", "NVIDIA L4", VENDOR_NVIDIA, 0x27B8, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-ampere", "NVIDIA GeForce RTX 3090 (NVK GA102)", VENDOR_NVIDIA, 0x2204, DRIVER_NVK, 0, 32},
    {"nvidia-ampere", "NVIDIA A100-SXM4-80GB", VENDOR_NVIDIA, 0, 0, 80, 32},
    {"nvidia-turing", "Tesla T4", VENDOR_NVIDIA, 0x1EB8, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-turing", "NVIDIA GeForce GTX 1660 SUPER", VENDOR_NVIDIA, 0x21C4, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-pascal", "NVIDIA GeForce GTX 1080 Ti", VENDOR_NVIDIA, 0x1B06, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-blackwell", "NVIDIA GeForce RTX 5090", VENDOR_NVIDIA, 0x2B85, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"nvidia-blackwell", "NVIDIA B200", VENDOR_NVIDIA, 0, 0, 100, 32},
    {"nvidia", "NVIDIA Tegra Orin (nvgpu)", VENDOR_NVIDIA, 0, DRIVER_NVIDIA_PROPRIETARY, 0, 32},
    {"generic", "V3D 7.1.7", 0x14E4, 0, 0, 0, 16},
    {"generic", "", 0, 0, 0, 0, 1},
};

static void read_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        const struct described *d = &devices[i];
        struct device_identity identity = {.vendor_id = d->vendor, .device_id = d->device, .driver_id = d->driver};
        snprintf(identity.name, sizeof identity.name, "%s", d->name);
        const struct device_limits limits = {.identity = &identity, .nvidia_sm = d->sm, .subgroup_min = d->least};
        const char *read = device_class_name(device_class_read(&limits));
        if (strcmp(read, d->class) != 0) fail_msg("%s (0x%x) is read as %s", d->name, (unsigned)d->device, read);
    }
    const struct device_limits cpu = {.cpu = true}, unknown = {.f16 = true};
    assert_int_equal(device_class_read(&cpu), CLASS_CPU);
    assert_int_equal(device_class_read(&unknown), CLASS_GENERIC);
}

static void tell_names(void **state)
{
    (void)state;
    for (int i = 0; i < CLASS_COUNT; i++) {
        const char *name = device_class_name((enum device_class)i);
        assert_non_null(name);
        assert_true(strlen(name) < sizeof((wherry_device_info *)0)->device_class);
        assert_non_null(device_class_text((enum device_class)i));
        assert_int_equal(device_class_find(name), i);
    }
    assert_int_equal(device_class_find("amd"), CLASS_COUNT);
    assert_int_equal(device_class_find(""), CLASS_COUNT);
}

/* ---- sizes ---- */

static struct device_limits limits_of(enum device_class class, size_t shared, uint32_t most)
{
    return (struct device_limits){.class = class,
                                  .f16 = true,
                                  .shared_bytes = shared,
                                  .max_local_size = most,
                                  .max_buffer_bytes = UINT64_MAX,
                                  .max_binding_bytes = UINT64_MAX,
                                  .subgroup_min = 32,
                                  .subgroup_max = 64,
                                  .rungs = RUNG_BIT(RUNG_TILED)};
}

static struct call call_of(const char *kernel, uint32_t head)
{
    struct call call = {.kernel = kernel};
    if (strncmp(kernel, "attention", 9) == 0) {
        call_set(&call, CONST_HEADS, 16); /* parts of a power of two, as candidates have them */
        call_set(&call, CONST_HEAD_DIM, head);
        call.launch = LAUNCH_QUERIES;
    } else {
        call_set(&call, CONST_N, 768);
    }
    if (!strcmp(kernel, "gemm")) call_set(&call, CONST_K, 768);
    if (!strcmp(kernel, "layernorm_backward")) {
        call_set(&call, CONST_NORM_DX, 1);
        call_set(&call, CONST_NORM_DW, 1);
    }
    return call;
}

static bool among(const struct choices *list, const struct call *call)
{
    struct choice mine;
    char text[CHOICE_TEXT], other[CHOICE_TEXT];
    assert_true(choice_of(call, NULL, &mine));
    choice_text(&mine, text);
    for (int i = 0; i < list->n; i++) {
        choice_text(&list->of[i], other);
        if (!strcmp(text, other)) return true;
    }
    print_message("%s is not among %d\n", text, list->n);
    return false;
}

static const char *const kernels[] = {"gemm", "attention", "attention_backward", "layernorm_backward"};

/* On devices of 16, 32 and 64 KiB and of work-groups of up to 128 to 1024: what the table says fits them, and where it
 * is a prediction, a tuning has it among its candidates. */
static void sizes_fit(void **state)
{
    static const size_t shared[] = {16384, 32768, 49152, 65536};
    static struct choices list;
    int predicted = 0;
    (void)state;
    for (int class = 0; class < CLASS_COUNT; class ++)
        for (size_t m = 0; m < sizeof shared / sizeof *shared; m++)
            for (uint32_t most = 128; most <= 1024; most *= 2)
                for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
                    for (int f16 = 0; f16 < 2; f16++)
                        for (uint32_t head = 32; head <= 128; head *= 2) {
                            const struct device_limits limits = limits_of((enum device_class) class, shared[m], most);
                            struct call call = call_of(kernels[k], head);
                            const char *why = call_tiles(&call, NULL, &limits, f16, 4096, 512);
                            const struct sizes sizes = call_sizes(&call, NULL, &limits, f16, 4096, 512);
                            assert_true(call_shared_bytes(&call) <= shared[m]);
                            assert_true(call_get(&call, CONST_LOCAL_SIZE, 0) <= most);
                            if (!class_row(kernels[k], &limits)) continue;
                            predicted++;
                            assert_string_equal(why, class_row(kernels[k], &limits)->why);
                            assert_int_equal(strncmp(why, "predicted for ", 14), 0);
                            if (!strcmp(kernels[k], "layernorm_backward")) continue; /* rows of parts: by the bucket */
                            choices_legal(&call, &sizes, &list);
                            assert_true(among(&list, &call));
                        }
    assert_true(predicted > 0);
}

/* What was measured stays: an NVIDIA GPU's sizes are those of a device of which nothing is known. */
static void measured_stay(void **state)
{
    (void)state;
    for (int class = CLASS_NVIDIA; class < CLASS_COUNT; class ++)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            const struct device_limits limits = limits_of((enum device_class) class, 49152, 1024),
                                       unknown = limits_of(CLASS_GENERIC, 49152, 1024);
            struct call call = call_of(kernels[k], 64), same = call_of(kernels[k], 64);
            struct choice a, b;
            char text[CHOICE_TEXT], other[CHOICE_TEXT];
            call_tiles(&call, NULL, &limits, true, 4096, 512);
            call_tiles(&same, NULL, &unknown, true, 4096, 512);
            assert_true(choice_of(&call, NULL, &a) && choice_of(&same, NULL, &b));
            choice_text(&a, text);
            choice_text(&b, other);
            assert_string_equal(text, other);
        }
    const struct device_limits known = limits_of(CLASS_GENERIC, 49152, 1024);
    struct call call = call_of("attention_backward", 64);
    call_tiles(&call, NULL, &known, true, 4096, 512);
    assert_int_equal(call_get(&call, CONST_THREAD_M, 0), 8);
    assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), 128);
}

/* The kernel that spilled on gfx1100: half as many registers of a work-item. */
static void spills_are_mended(void **state)
{
    (void)state;
    const struct device_limits limits = limits_of(CLASS_AMD_RDNA3, 65536, 1024);
    struct call call = call_of("attention_backward", 64);
    call_tiles(&call, NULL, &limits, true, 4096, 512);
    assert_int_equal(call_get(&call, CONST_THREAD_M, 0), 4);
    assert_int_equal(call_get(&call, CONST_LOCAL_SIZE, 0), 256);
    assert_true(2 * call_shared_bytes(&call) <= 65536);
}

static void sub_groups_are_full(void **state)
{
    (void)state;
    const struct device_limits gcn = limits_of(CLASS_AMD_GCN, 65536, 256), rdna = limits_of(CLASS_AMD_RDNA, 65536, 256);
    assert_int_equal(row_size(&gcn, 1), 64);
    assert_int_equal(row_size(&rdna, 1), 32);
    assert_int_equal(row_size(&gcn, 1000), 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_names),    cmocka_unit_test(tell_names),        cmocka_unit_test(sizes_fit),
        cmocka_unit_test(measured_stay), cmocka_unit_test(spills_are_mended), cmocka_unit_test(sub_groups_are_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
