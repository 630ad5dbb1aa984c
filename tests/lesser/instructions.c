/* Runs an instruction of the set that is named, avx2 or avx512: whether an emulated processor has it, and an emulator
 * refuses those that it should not have. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "avx2")) {
        __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" : : : "xmm0");
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "avx512")) {
        __asm__ volatile("vpaddd %%zmm0, %%zmm0, %%zmm0" : : : "xmm0");
        return 0;
    }
    fprintf(stderr, "instructions avx2|avx512\n");
    return 2;
}
