/* Runs every fuzz target over its seeds, where there is no libFuzzer: seeds FOLDER */
#include "mutate.h"

#include <dirent.h>

/* tests/fuzz/CMakeLists.txt lists them: SEEDS(fuzz_model) ... */
#define SEEDS(name) int name(const uint8_t *data, size_t size);
FUZZ_TARGETS
#undef SEEDS

/* Nothing is mutated here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    (void)data, (void)max_size;
    return size;
}

static void run_file(int (*target)(const uint8_t *data, size_t size), const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && !fseek(file, 0, SEEK_END));
    long size = ftell(file);
    uint8_t *data = malloc((size_t)size + !size);
    CHECK(size >= 0 && data && !fseek(file, 0, SEEK_SET));
    CHECK(fread(data, 1, (size_t)size, file) == (size_t)size && !fclose(file));
    CHECK(target(data, (size_t)size) == 0);
    free(data);
}

/* How many there are in "folder/NAME" of the target fuzz_NAME. */
static int run_all(const char *folder, const char *name, int (*target)(const uint8_t *data, size_t size))
{
    char path[1024];
    int count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, strchr(name, '_') + 1);
    DIR *seeds = opendir(path);
    CHECK(seeds != NULL);
    for (const struct dirent *one; (one = readdir(seeds)) != NULL;) {
        if (one->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/%s", folder, strchr(name, '_') + 1, one->d_name);
        printf("%s %s\n", name, one->d_name);
        fflush(stdout);
        run_file(target, path);
        count++;
    }
    closedir(seeds);
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
#define SEEDS(name) CHECK(run_all(argv[1], #name, name) > 0);
    FUZZ_TARGETS
    return 0;
}
