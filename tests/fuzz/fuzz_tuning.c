/* Files of chosen sizes and orders, and logs of measurements. An input is lines: those that begin with '=' are in the
 * file as they are, the others get the checksum that makes them whole. */
#include "fuzz.h"

#include "tune/tune.h"

static struct tuning_key key(void)
{
    static const uint8_t uuid[16] = {1, 2, 3};
    return tuning_key("opencl", uuid, "A device", "A driver", 7, false);
}

/* The file's text, to be freed. */
static char *make_file(const struct tuning_key *k, const uint8_t *data, size_t size, size_t *bytes)
{
    char *text = malloc(TUNING_LINE + 32 * size + 32), *input = fuzz_text((struct fuzz_part){data, size});
    char line[TUNING_LINE];
    CHECK(text != NULL);
    size_t at = size && data[0] == '=' ? 0 : tuning_header(k, text);
    for (char *from = input, *end; from < input + size; from = end + 1) {
        end = memchr(from, '\n', (size_t)(input + size - from));
        if (!end) end = input + size;
        *end = 0;
        size_t length = (size_t)(end - from);
        if (*from == '=' || length > TUNING_LINE - 64) {
            memcpy(text + at, from + (*from == '='), length);
            at += length - (*from == '=');
            text[at++] = '\n';
        } else {
            length = tuning_line(k, from, line);
            CHECK(length < sizeof line);
            memcpy(text + at, line, length);
            at += length;
        }
    }
    free(input);
    *bytes = at;
    return text;
}

static bool count_line(char *const fields[], int n, void *user, struct error *e)
{
    (void)e;
    CHECK(n >= 0 && n <= TUNING_FIELDS);
    for (int i = 0; i < n; i++) CHECK(!strpbrk(fields[i], "\t\n"));
    ++*(uint32_t *)user;
    return true;
}

/* What is stored reads back as the same. */
static void check_store(const struct tuning_key *k, const struct tuning *tuning)
{
    struct tuning again;
    struct tuning_file file;
    struct error e = {0};
    char path[TUNING_PATH];
    snprintf(path, sizeof path, "%s", fuzz_path("stored.txt"));
    CHECK(tuning_store(&fuzz_host, path, k, tuning, &e));
    CHECK(tuning_load(&fuzz_host, path, false, k, &again, &file, &e));
    CHECK(file.there && !file.damaged);
    CHECK(again.count == tuning->count && again.n_layouts == tuning->n_layouts);
    for (size_t i = 0; i < tuning->count; i++) {
        CHECK(!strcmp(again.entries[i].work, tuning->entries[i].work));
        CHECK(!strcmp(again.entries[i].use, tuning->entries[i].use));
    }
    for (size_t i = 0; i < tuning->n_layouts; i++)
        CHECK(tuning_layouts(&again, tuning->layouts[i].kind) == &again.layouts[i]);
    tuning_free(&fuzz_host, &again);
}

static void load_tuning(const struct tuning_key *k)
{
    struct tuning tuning;
    struct tuning_file file;
    struct error e = {0};
    uint32_t lines = 0;
    char path[TUNING_PATH];
    snprintf(path, sizeof path, "%s", fuzz_path("tuning.txt"));
    CHECK(tuning_read(&fuzz_host, path, false, k, count_line, &lines, &file, &e));
    CHECK(file.there ? lines == file.good : !lines && file.refused[0]);
    if (tuning_load(&fuzz_host, path, false, k, &tuning, &file, &e)) {
        check_store(k, &tuning);
        tuning_free(&fuzz_host, &tuning);
    } else {
        fuzz_failed(&e);
        tuning_free(&fuzz_host, &tuning);
    }
}

/* What is left of a log can be added to, and the last measurement counts. */
static void load_log(const struct tuning_key *k, const char *text, size_t bytes)
{
    struct tune_log log;
    struct error e = {0};
    struct host host = fuzz_host;
    char path[TUNING_PATH], name[64];
    snprintf(host.cache_dir, sizeof host.cache_dir, "%s", fuzz_folder());
    tuning_path("", "tuning", k, path);
    snprintf(name, sizeof name, "%.60s", path + 1);
    fuzz_write(name, text, bytes);
    if (tune_log_open(&log, &host, k, false, &e)) {
        struct measured m = {.work = "a work", .use = "sizes", .verdict = WHERRY_TUNE_RIGHT, .text = "text"};
        size_t count = log.count + !tune_log_find(&log, "a work", "sizes", false);
        CHECK(tune_log_add(&log, &m, &e) && log.count == count);
        const struct measured *found = tune_log_find(&log, "a work", "sizes", false);
        CHECK(found && !strcmp(found->text, "text"));
        tune_log_step(&log, 1, 2);
        tune_log_close(&log);
        /* Read once more, it is whole. */
        CHECK(tune_log_open(&log, &host, k, false, &e));
        CHECK(log.count == count);
    } else {
        fuzz_failed(&e);
    }
    tune_log_close(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tuning_key k = key();
    long before = fuzz_blocks;
    size_t bytes;
    char *text = make_file(&k, data, size, &bytes);
    fuzz_write("tuning.txt", text, bytes);
    load_tuning(&k);
    load_log(&k, text, bytes);
    free(text);
    CHECK(fuzz_blocks == before);
    return 0;
}
