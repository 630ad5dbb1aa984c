/* The safetensors parser: what it must take, what it must refuse and how it says so, and that no bytes can break it. */
#include "model_files.h"

#include "model/safetensors.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Parses a copy that ends where its memory ends, so that AddressSanitizer sees any read after it. */
static bool parse(const void *data, size_t size, struct safetensors *out, unsigned char **copy, struct error *e)
{
    *copy = malloc(size ? size : 1);
    files_check(*copy, "malloc");
    if (size) memcpy(*copy, data, size);
    return safetensors_parse(&files_host, *copy, size, out, e);
}

static void expect_refused(const char *what, const void *data, size_t size, const char *says)
{
    struct safetensors file;
    struct error e = {0};
    unsigned char *copy;
    if (parse(data, size, &file, &copy, &e)) fail_msg("%s: was accepted", what);
    if (e.status != WHERRY_STATUS_BAD_FORMAT) fail_msg("%s: status %d: %s", what, e.status, e.text);
    if (!strstr(e.text, says)) fail_msg("%s: \"%s\" does not say \"%s\"", what, e.text, says);
    free(copy);
}

#define INFO(dtype, shape, begin, end)                                                                                 \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void refuses_bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *what, *header;
        size_t data_bytes;
        const char *says;
    } cases[] = {
        {"not JSON", "{\"a\":", 0, "not valid JSON"},
        {"no object", "[]", 0, "does not begin with '{'"},
        {"a space first", " {}", 0, "does not begin with '{'"},
        {"one byte", "{", 0, "does not begin with '{'"},
        {"something after the object", "{} x", 0, "not valid JSON"},
        {"duplicate names", "{\"a\":" INFO("U8", "[1]", 0, 1) ",\"a\":" INFO("U8", "[1]", 1, 2) "}", 2,
         "not valid JSON"},
        {"duplicate keys", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "not valid JSON"},
        {"NUL in a name", "{\"a\\u0000b\":" INFO("U8", "[1]", 0, 1) "}", 1, "not valid JSON"},
        {"invalid UTF-8", "{\"\xff\":" INFO("U8", "[1]", 0, 1) "}", 1, "not valid JSON"},
        {"not a tensor", "{\"a\":3}", 0, "tensor a is not described by an object"},
        {"metadata of numbers", "{\"__metadata__\":{\"a\":3}}", 0, "__metadata__"},
        {"metadata is a list", "{\"__metadata__\":[]}", 0, "__metadata__"},
        {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "tensor a has no dtype"},
        {"dtype is a number", "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "tensor a has no dtype"},
        {"unknown dtype", "{\"a\":" INFO("X7", "[1]", 0, 1) "}", 1, "unknown dtype X7"},
        {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "tensor a has no shape"},
        {"negative size", "{\"a\":" INFO("U8", "[-1]", 0, 1) "}", 1, "not of whole numbers"},
        {"fractional size", "{\"a\":" INFO("U8", "[1.0]", 0, 1) "}", 1, "not of whole numbers"},
        {"size in a string", "{\"a\":" INFO("U8", "[\"1\"]", 0, 1) "}", 1, "not of whole numbers"},
        {"size over 64 bits", "{\"a\":" INFO("U8", "[99999999999999999999]", 0, 1) "}", 1, "not valid JSON"},
        {"shape overflows", "{\"a\":" INFO("U8", "[4294967296,4294967296,16]", 0, 0) "}", 0, "larger than any file"},
        {"bits overflow", "{\"a\":" INFO("F32", "[1152921504606846976]", 0, 0) "}", 0, "larger than any file"},
        {"overflow hidden by 0", "{\"a\":" INFO("U8", "[0,4294967296,4294967296,16]", 0, 0) "}", 0,
         "larger than any file"},
        {"rank 9", "{\"a\":" INFO("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "more than 8 dimensions"},
        {"half a byte", "{\"a\":" INFO("F4", "[3]", 0, 1) "}", 1, "whole byte"},
        {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "no data_offsets"},
        {"three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "no data_offsets"},
        {"negative offset", "{\"a\":" INFO("U8", "[1]", -1, 0) "}", 1, "no data_offsets"},
        {"fractional offset", "{\"a\":" INFO("U8", "[1]", 0, 1.0) "}", 1, "no data_offsets"},
        {"reversed offsets", "{\"a\":" INFO("U8", "[1]", 1, 0) "}", 1, "lies at bytes 1 to 0 of 1"},
        {"past the end", "{\"a\":" INFO("U8", "[2]", 0, 2) "}", 1, "truncated or damaged"},
        {"far past the end", "{\"a\":" INFO("U8", "[1]", 9223372036854775806, 9223372036854775807) "}", 1,
         "truncated or damaged"},
        {"too few bytes", "{\"a\":" INFO("F32", "[2,3]", 0, 20) "}", 20, "F32 [2, 3] needs 24 bytes but has 20"},
        {"too many bytes", "{\"a\":" INFO("F32", "[]", 0, 8) "}", 8, "needs 4 bytes but has 8"},
        {"overlap", "{\"a\":" INFO("U8", "[8]", 0, 8) ",\"b\":" INFO("U8", "[8]", 4, 12) "}", 12, "tensor b overlaps"},
        {"the same bytes twice", "{\"a\":" INFO("U8", "[8]", 0, 8) ",\"b\":" INFO("U8", "[8]", 0, 8) "}", 8,
         "overlaps the tensor"},
        {"a hole", "{\"a\":" INFO("U8", "[4]", 0, 4) ",\"b\":" INFO("U8", "[4]", 5, 9) "}", 9,
         "tensor b has unused bytes before it"},
        {"a hole at the beginning", "{\"a\":" INFO("U8", "[4]", 1, 5) "}", 5, "tensor a has unused bytes before it"},
        {"bytes at the end", "{\"a\":" INFO("U8", "[4]", 0, 4) "}", 7, "3 bytes follow the last tensor"},
        {"bytes and no tensor", "{}", 1, "1 bytes follow the last tensor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char data[32] = {0};
        size_t size;
        assert_true(cases[i].data_bytes <= sizeof data);
        unsigned char *bytes = safetensors_bytes(cases[i].header, data, cases[i].data_bytes, &size);
        expect_refused(cases[i].what, bytes, size, cases[i].says);
        free(bytes);
    }
}

static void refuses_bad_lengths(void **state)
{
    (void)state;
    size_t size;
    unsigned char *bytes = safetensors_bytes("{}", NULL, 0, &size);
    static const struct {
        uint64_t length;
        const char *says;
    } cases[] = {
        {0, "does not begin with '{'"},   {1, "does not begin with '{'"},      {3, "truncated"},
        {16777216, "truncated"},          {16777217, "16777216 are the most"}, {UINT64_MAX, "are the most"},
        {UINT64_MAX - 7, "are the most"}, {(uint64_t)1 << 63, "are the most"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int b = 0; b < 8; b++) bytes[b] = (unsigned char)(cases[i].length >> 8 * b);
        expect_refused("header length", bytes, size, cases[i].says);
    }
    for (size_t n = 0; n < 8; n++) expect_refused("a short file", bytes, n, "too few");
    free(bytes);
}

/* A header of many entries, `entry` with its number in it; `begin` and `end` around them. To be freed. */
static char *many(const char *begin, const char *entry, size_t count, const char *end)
{
    size_t room = strlen(begin) + strlen(end) + count * (strlen(entry) + 12) + 1, at = strlen(begin);
    char *header = malloc(room);
    files_check(header, "malloc");
    memcpy(header, begin, at);
    for (size_t i = 0; i < count; i++) {
        const char *number = strchr(entry, '#');
        int before = number ? (int)(number - entry) : (int)strlen(entry);
        if (i) header[at++] = ',';
        memcpy(header + at, entry, (size_t)before);
        at += (size_t)before;
        if (number) at += (size_t)snprintf(header + at, room - at, "%zx%s", i, number + 1);
    }
    memcpy(header + at, end, strlen(end) + 1);
    return header;
}

/* Parses in a process of its own, which looks at what it took. `says` NULL: the header is good. */
static void parse_apart(const char *what, const char *header, const char *says)
{
    size_t size;
    unsigned char *bytes = safetensors_bytes(header, NULL, 0, &size);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct safetensors file;
        struct error e = {0};
        struct rusage used;
        bool ok = safetensors_parse(&files_host, bytes, size, &file, &e);
        getrusage(RUSAGE_SELF, &used);
        double seconds = (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec * 1e-6;
        printf("%s: %zu bytes took %.2f s, %ld MB%s%s\n", what, size, seconds, used.ru_maxrss / 1024, ok ? "" : ": ",
               e.text);
        fflush(NULL);
        /* Ten times what they take on a slow machine. */
        bool cheap = seconds < 10 && used.ru_maxrss < 1 << 20;
        _exit(!cheap ? 2 : says ? ok || !strstr(e.text, says) : !ok);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: %s (%s)", what, WEXITSTATUS(status) == 2 ? "took too much" : "not what was expected",
                 says ? says : "to be accepted");
    free(bytes);
}

/* Headers that are small in the file and would be gigabytes or minutes. */
static void bounds_headers(void **state)
{
    (void)state;
    static const char tensor[] = "\"#\":{\"dtype\":\"U8\",\"shape\":[0,0],\"data_offsets\":[0,0]}";
    static const struct {
        const char *what, *begin, *entry, *end;
        size_t count;
        const char *says; /* NULL: is read */
    } cases[] = {
        {"too many metadata", "{\"__metadata__\":{", "\"#\":\"\"", "}}", 600000, "more than 524288 values, the most"},
        {"most metadata", "{\"__metadata__\":{", "\"#\":\"\"", "}}", 524286, NULL},
        {"too long a header", "{\"__metadata__\":{\"\":\"", "0123456789abcde", "\"}}", 1100000,
         "16777216 are the most"},
        {"commas in a text", "{\"__metadata__\":{\"\":\"", "\\\",\\\\", "\"}}", 1000000, NULL},
        {"most objects", "{\"a\":[", "{}", "]}", 262142, "is not described by an object"},
        {"too many objects", "{\"a\":[", "{}", "]}", 262144, "more than 524288 values, the most"},
        {"most tensors", "{", tensor, "}", 32768, NULL},
        {"too many tensors", "{", tensor, "}", 32769, "32768 are the most that are read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *header = many(cases[i].begin, cases[i].entry, cases[i].count, cases[i].end);
        parse_apart(cases[i].what, header, cases[i].says);
        free(header);
    }
    char *deep = many("{\"a\":", "", 4000, "");
    memset(strchr(deep, ','), '[', 3999);
    parse_apart("deep nesting", deep, "more than 8 levels of nesting");
    free(deep);
}

static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":" INFO("F16", "[2,3]", 4, 16) ",\"e\":" INFO(
        "F32", "[0,7]", 4, 4) ",\"a\":" INFO("F32", "[]", 0, 4) ",\"i\":" INFO("I64", "[1]", 16, 24) "}   ";

static void accepts_good_file(void **state)
{
    (void)state;
    unsigned char data[24], *copy;
    for (int i = 0; i < 24; i++) data[i] = (unsigned char)i;
    size_t size;
    unsigned char *bytes = safetensors_bytes(good_header, data, sizeof data, &size);
    struct safetensors file;
    struct error e = {0};
    if (!parse(bytes, size, &file, &copy, &e)) fail_msg("%s", e.text);
    assert_int_equal(file.count, 4);
    const struct safetensors_tensor *b = safetensors_find(&file, "b");
    assert_non_null(b);
    assert_string_equal(b->dtype, "F16");
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->bytes, 12);
    assert_int_equal(copy[b->offset], 4);
    assert_int_equal(safetensors_find(&file, "a")->rank, 0);
    assert_int_equal(safetensors_find(&file, "e")->bytes, 0);
    assert_null(safetensors_find(&file, "__metadata__"));
    assert_null(safetensors_find(&file, "c"));
    safetensors_close(&files_host, &file);
    free(copy);
    free(bytes);
    /* No tensors at all is a valid file too. */
    bytes = safetensors_bytes("{}", NULL, 0, &size);
    assert_true(parse(bytes, size, &file, &copy, &e));
    safetensors_close(&files_host, &file);
    free(copy);
    free(bytes);
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    unsigned char data[24] = {0};
    size_t size;
    unsigned char *bytes = safetensors_bytes(good_header, data, sizeof data, &size);
    for (size_t n = 0; n < size; n++) expect_refused("truncated", bytes, n, "get it again");
    free(bytes);
}

static void names_the_file(void **state)
{
    (void)state;
    char *folder = files_folder();
    struct safetensors file;
    struct error e = {0};
    char *path = files_format("%s/x.safetensors", folder);
    assert_false(safetensors_open(&files_host, path, &file, &e));
    assert_int_equal(e.status, WHERRY_STATUS_IO);
    assert_non_null(strstr(e.text, path));
    files_write(folder, "x.safetensors", "", 0);
    assert_false(safetensors_open(&files_host, path, &file, &e));
    assert_int_equal(e.status, WHERRY_STATUS_BAD_FORMAT);
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "get it again"));
    free(path);
    files_remove(folder);
}

/* ---- mutations ---- */

static uint64_t random_state = 20240607;

static uint32_t random_below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

/* One small damage; `size` never grows beyond `room`. */
static void mutate(unsigned char *bytes, size_t *size, size_t room)
{
    static const char alphabet[] = "0123456789-.e\"[]{},:\\ \0\xff"
                                   "aF";
    size_t at = random_below(*size + 1), n = 1 + random_below(12);
    if (at == *size) at = 0;
    switch (random_below(7)) {
    case 0:
        bytes[at] ^= (unsigned char)(1u << random_below(8));
        break;
    case 1:
        bytes[at] = (unsigned char)random_below(256);
        break;
    case 2:
        bytes[at] = (unsigned char)alphabet[random_below(sizeof alphabet)];
        break;
    case 3: /* a digit becomes another one: shapes and offsets that lie */
        while (at < *size && (bytes[at] < '0' || bytes[at] > '9')) at++;
        if (at < *size) bytes[at] = (unsigned char)('0' + random_below(10));
        break;
    case 4:
        *size = at + 1;
        break;
    case 5: /* bytes doubled */
        if (at + n > *size || *size + n > room) break;
        memmove(bytes + at + n, bytes + at, *size - at);
        *size += n;
        break;
    default: /* bytes lost */
        if (at + n >= *size) break;
        memmove(bytes + at, bytes + at + n, *size - at - n);
        *size -= n;
    }
}

static void survives_mutations(void **state)
{
    (void)state;
    unsigned char data[24] = {0}, *copy;
    size_t size, accepted = 0, refused = 0, touched = 0;
    unsigned char *good = safetensors_bytes(good_header, data, sizeof data, &size), bytes[1024];
    assert_true(size + 64 < sizeof bytes);
    for (int round = 0; round < 40000; round++) {
        size_t n = size;
        memcpy(bytes, good, size);
        for (uint32_t k = 1 + random_below(3); k; k--) {
            mutate(bytes, &n, sizeof bytes);
            if (random_below(2)) { /* else most would fail at the length of the header */
                uint64_t header = n > 8 + sizeof data ? n - 8 - sizeof data : 0;
                for (int b = 0; b < 8 && n >= 8; b++) bytes[b] = (unsigned char)(header >> 8 * b);
            }
        }
        struct safetensors file;
        struct error e = {0};
        if (parse(bytes, n, &file, &copy, &e)) {
            accepted++;
            for (size_t i = 0; i < file.count; i++) {
                for (uint64_t b = 0; b < file.tensors[i].bytes; b++) touched += copy[file.tensors[i].offset + b];
            }
            safetensors_close(&files_host, &file);
        } else {
            refused++;
            assert_int_equal(e.status, WHERRY_STATUS_BAD_FORMAT);
            assert_true(*e.text);
        }
        free(copy);
    }
    /* Both ways are walked, or the loop tests nothing. */
    assert_true(accepted > 1000 && refused > 10000);
    print_message("%zu accepted, %zu refused (%zu)\n", accepted, refused, touched);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_good_file),        cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(refuses_bad_lengths),      cmocka_unit_test(bounds_headers),
        cmocka_unit_test(refuses_every_truncation), cmocka_unit_test(names_the_file),
        cmocka_unit_test(survives_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
