/* What data sheets say of GPUs: each peak against the facts of its own line that it can be computed from. No device. */
#include "analysis/device_sheets.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A sheet rounds to three digits, and some clocks to tens of MHz. */
static const double slack = 0.02;

static void assert_computed(const char *name, const char *what, double given, double computed)
{
    if (!(fabs(given / computed - 1) <= slack)) fail_msg("%s: %s is %g, its facts say %g", name, what, given, computed);
}

static void test_peaks_follow_from_facts(void **state)
{
    (void)state;
    const struct device_sheet *sheet;
    for (size_t n = 0; (sheet = device_sheet_at(n)) != NULL; n++) {
        const wherry_device_spec *spec = &sheet->spec;
        assert_computed(spec->name, "f32", spec->f32_flops, 2 * sheet->arithmetic.lanes * sheet->arithmetic.clock);
        assert_computed(spec->name, "bandwidth", spec->bandwidth, sheet->memory.bits / 8.0 * sheet->memory.pin_rate);
        /* f16 without matrix units: as f32, twice, or (Volta's successors for data centers) four times that. */
        double packed = spec->f16_flops / spec->f32_flops, near = exp2(round(log2(packed)));
        assert_computed(spec->name, "f16 by f32", packed, near);
        assert_true(near >= 1 && near <= 4);
        assert_true(sheet->unit_flops == 0 || sheet->unit_flops >= spec->f16_flops);
        if (spec->matrix_flops != (sheet->unit_flops > 0 ? sheet->unit_flops : spec->f16_flops))
            fail_msg("%s: products have neither the matrix units' rate nor that of f16", spec->name);
    }
}

/* Another unit (GB for bytes, MHz for Hz) is far outside. */
static void test_units(void **state)
{
    (void)state;
    const struct device_sheet *sheet;
    for (size_t n = 0; (sheet = device_sheet_at(n)) != NULL; n++) {
        const wherry_device_spec *spec = &sheet->spec;
        assert_true(spec->bandwidth > 1e9 && spec->bandwidth < 1e14);
        assert_true(spec->f32_flops > 1e10 && spec->f32_flops < 1e15);
        assert_true(sheet->arithmetic.clock > 2e8 && sheet->arithmetic.clock < 5e9);
        assert_true(sheet->memory.pin_rate > 1e9 && sheet->memory.pin_rate < 5e10);
        assert_true(sheet->memory.bits % 32 == 0 && sheet->arithmetic.lanes % 32 == 0);
        assert_true(!spec->memory_bytes || (spec->memory_bytes > 1e9 && spec->memory_bytes < 1e12));
        assert_true(!spec->cache_bytes || (spec->cache_bytes >= 1 << 20 && spec->cache_bytes < 1 << 30));
        assert_true(spec->cache_bandwidth == 0 && spec->launch_seconds == 0); /* data sheets don't tell */
    }
}

/* Names are what --device-spec takes: one word each, none twice. A source names a document and, where a cache is
 * given, where that is from. */
static void test_names_and_sources(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sheet", "specifications", "whitepaper", "brief", "announcement"};
    const struct device_sheet *sheet, *before;
    for (size_t n = 0; (sheet = device_sheet_at(n)) != NULL; n++) {
        const wherry_device_spec *spec = &sheet->spec;
        size_t document = 0;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) document += strstr(spec->source, kinds[k]) != NULL;
        if (!document) fail_msg("%s: \"%s\" names no document", spec->name, spec->source);
        if (spec->cache_bytes && !strstr(spec->source, "ache") && !strstr(spec->source, "whitepaper") &&
            !strstr(spec->source, "specifications"))
            fail_msg("%s: its source says nothing of the cache", spec->name);
        assert_int_equal(strspn(spec->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(spec->name));
        for (size_t m = 0; m < n; m++) assert_string_not_equal(device_sheet_at(m)->spec.name, spec->name);
        before = n ? device_sheet_at(n - 1) : sheet;
        for (size_t m = 0; m + 1 < n && strcmp(before->vendor, sheet->vendor); m++)
            assert_string_not_equal(device_sheet_at(m)->vendor, sheet->vendor); /* vendors together */
    }
}

static void test_enough_of_them(void **state)
{
    (void)state;
    size_t count = 0, vendors = 0;
    const char *vendor = "";
    for (const struct device_sheet *sheet; (sheet = device_sheet_at(count)) != NULL; count++) {
        if (strcmp(vendor, sheet->vendor)) vendors++;
        vendor = sheet->vendor;
        assert_ptr_equal(wherry_device_spec_at(count), &sheet->spec);
    }
    assert_true(count >= 30);
    assert_true(vendors >= 6);
    assert_null(device_sheet_at(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peaks_follow_from_facts),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_names_and_sources),
        cmocka_unit_test(test_enough_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
