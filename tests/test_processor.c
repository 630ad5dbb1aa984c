/* The processor's name, from texts as Linux has them on several machines. */
#include "model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../tools/processor.h"

static void expect_name(const char *cpuinfo, const char *want)
{
    char *folder = files_folder(), *path = files_format("%s/cpuinfo", folder), name[128];
    files_write(folder, "cpuinfo", cpuinfo, strlen(cpuinfo));
    assert_int_equal(processor_name(path, name, sizeof name), *want != 0);
    assert_string_equal(name, want);
    free(path);
    files_remove(folder);
}

static void names(void **state)
{
    (void)state;
    char name[128], lengthy[800];
    expect_name(
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 106\nmodel name\t: Some CPU @ 2.80GHz\nstepping\t: 6\n",
        "Some CPU @ 2.80GHz");
    expect_name("processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n"
                "CPU part\t: 0xd0c\nCPU revision\t: 1\n",
                "ARM, implementer 0x41, part 0xd0c");
    expect_name("CPU implementer\t: 0x41\n", "");
    expect_name("processor\t: 0\nhart\t: 0\n", ""); /* another architecture */
    expect_name("model names\t: no\nmodel name without a colon\n", "");
    expect_name("", "");
    memset(lengthy, 'x', sizeof lengthy);
    memcpy(lengthy, "model name: ", 12);
    lengthy[sizeof lengthy - 1] = 0;
    char want[128];
    memset(want, 'x', sizeof want);
    want[sizeof want - 1] = 0;
    expect_name(lengthy, want);
    assert_false(processor_name("/nonexistent/cpuinfo", name, sizeof name));
    assert_string_equal(name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
