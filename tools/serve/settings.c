/* The command line of wherry-serve. */
#include "settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "complain.h"
#include "names.h"
#include "options.h"

/* ---- the table ---- */

enum kind { FLAG, WORD, COUNT, BYTES, SECONDS, MODEL, KEY, KEY_FILE, DTYPE, POOL };

struct setting {
    const char *name;
    char letter; /* 0: none */
    enum kind kind;
    size_t offset;
    double low, high;
    const char *value, *help;
};

#define AT(member) offsetof(struct settings, member)

static const struct setting table[] = {
    {"model", 'm', MODEL, 0, 0, 0, "[NAME=]DIR",
     "a model's folder, and the name that clients give it (default: the folder's); several times: several models on "
     "the device"},
    {"host", 0, WORD, AT(host), 0, 0, "ADDRESS",
     "to listen on: 127.0.0.1 (default: this machine's programs alone), 0.0.0.0, :: or a name"},
    {"port", 'p', COUNT, AT(port), 0, 65535, "N",
     "to listen on (default 3000); 0: a free one, which is told when it listens"},
    {"socket", 0, WORD, AT(socket), 0, 0, "PATH", "listen on a Unix socket instead; its mode is by the umask"},
    {"device", 'd', WORD, AT(device), 0, 0, "NAME",
     "as wherry devices lists them (default: the first GPU, else cpu, the host's cores)"},
    {"low-priority", 0, FLAG, AT(low_priority), 0, 0, NULL,
     "of the device's queue where the driver has that, so that other programs' work goes first"},
    {"dtype", 't', DTYPE, AT(dtype), 0, 0, "f32|f16|bf16",
     "storage type (default: f16 on a GPU that stores it, else f32)"},
    {"pool", 0, POOL, AT(pool), 0, 0, POOL_CHOICES, "how token vectors become a text's (default: the model's own)"},
    {"prompt", 0, WORD, AT(prompt), 0, 0, "NAME",
     "the model's prompt for requests that name none; \"\" for none (default: the one that its files use)"},
    {"max-tokens", 0, COUNT, AT(max_tokens), 1, 1 << 20, "N", "of one text (default: the model's limit)"},
    {"auto-truncate", 0, FLAG, AT(truncate), 0, 0, NULL,
     "cut texts that are too long where requests do not say (default: refuse)"},
    {"max-batch-tokens", 0, COUNT, AT(batch_tokens), 1, 1 << 24, "N",
     "of texts that run together (default 16384; device cpu 4096, reference 1024)"},
    {"max-batch-requests", 0, COUNT, AT(batch_requests), 1, 1 << 20, "N", "texts that run together (default 4096)"},
    {"max-concurrent-requests", 0, COUNT, AT(concurrent), 1, 1 << 16, "N",
     "requests in work or waiting; more are answered 429 (default 512)"},
    {"max-client-batch-size", 0, COUNT, AT(client_batch), 1, 1 << 20, "N", "texts of one request (default 32)"},
    {"payload-limit", 0, BYTES, AT(payload), 1, 1 << 30, "BYTES",
     "of one request; more is answered 413 (default 2000000)"},
    {"timeout", 0, SECONDS, AT(timeout), 0.05, 86400, "SECONDS",
     "for sending a request, for waiting until it runs, and for taking the answer (default 60)"},
    {"tokenization-workers", 0, COUNT, AT(workers), 1, 256, "N",
     "threads that read requests, tokenize, and write answers (default: one for each core)"},
    {"http-threads", 0, COUNT, AT(http_threads), 1, 64, "N", "threads that move bytes (default 2)"},
    {"threads", 0, COUNT, AT(threads), 1, 256, "N", "of the device cpu (default: one for each core)"},
    {"api-key", 0, KEY, 0, 0, 0, "KEY",
     "that clients must send (Authorization: Bearer KEY); may be given several times. Other users of the machine can "
     "see a command line: better --api-key-file, or the environment's WHERRY_API_KEY"},
    {"api-key-file", 0, KEY_FILE, 0, 0, 0, "FILE", "keys, one a line; read again on SIGHUP"},
    {"memory-budget", 0, BYTES, AT(memory_budget), 1, 1e15, "BYTES",
     "of the device, for each model (default: what it has)"},
    {"kernels", 0, WORD, AT(kernels), 0, 0, KERNEL_CHOICES, "what computes products and attention (default auto)"},
    {"cache", 0, WORD, AT(cache), 0, 0, "FOLDER", "for compiled kernels; \"\": none (default: the user's)"},
    {"roof", 0, FLAG, AT(roof), 0, 0, NULL,
     "measure the device's bandwidth first, some seconds, so that metrics have the share of it that is reached"},
    {"quiet", 'q', FLAG, AT(quiet), 0, 0, NULL, "errors alone"},
    {"verbose", 'v', FLAG, AT(verbose), 0, 0, NULL, "a line for each batch, and what the library and HTTP say"},
    {"help", 'h', FLAG, AT(help), 0, 0, NULL, "this text"},
    {"version", 0, FLAG, AT(version), 0, 0, NULL, "of the program and of the library"},
};
enum { SETTINGS = sizeof table / sizeof *table };

/* ---- values ---- */

static bool refuse(const struct setting *s, const char *text)
{
    complain(0, "--%s \"%s\": %s is needed", s->name, text, s->value);
    return false;
}

static bool add_key(struct settings *out, const char *key, size_t size)
{
    if (!size) return complain(0, "an API key is empty"), false;
    for (size_t n = 0; n < size; n++)
        if (key[n] <= ' ' || key[n] > '~')
            return complain(0, "an API key has a character that no header can have"), false;
    if (out->keys_count == KEYS_MOST) return complain(0, "more than %d API keys", KEYS_MOST), false;
    char *copy = need(malloc(size + 1));
    memcpy(copy, key, size);
    copy[size] = 0;
    out->keys[out->keys_count++] = copy;
    return true;
}

static bool add_keys(struct settings *out, const char *path)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    if (!file) return complain(0, "can't read %s: %s", path, strerror(errno)), false;
    bool fine = true;
    uint32_t before = out->keys_count;
    while (fine && fgets(line, sizeof line, file)) {
        size_t size = strcspn(line, "\r\n");
        if (!line[size] && size == sizeof line - 1)
            fine = (complain(0, "%s: a line has more than %d bytes", path, (int)sizeof line - 2), false);
        else if (size)
            fine = add_key(out, line, size);
    }
    if (fine && ferror(file)) fine = (complain(0, "can't read %s: %s", path, strerror(errno)), false);
    fclose(file);
    if (fine && out->keys_count == before) fine = (complain(0, "%s has no keys", path), false);
    return fine;
}

/* NAME=DIR, or DIR, whose last part is the name then. */
static bool add_model(struct settings *out, const char *text)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/'), *folder = text, *name = text;
    size_t size;
    if (out->models_count == MODELS_MOST) return complain(0, "more than %d models", MODELS_MOST), false;
    if (equals && (!slash || slash > equals)) {
        size = (size_t)(equals - text);
        folder = equals + 1;
    } else {
        size_t end = strlen(text);
        while (end > 1 && text[end - 1] == '/') end--;
        size = end;
        while (size && text[size - 1] != '/') size--;
        name = text + size;
        size = end - size;
    }
    if (!size || !*folder) return complain(0, "--model \"%s\": [NAME=]DIR is needed", text), false;
    char *copy = need(malloc(size + 1));
    memcpy(copy, name, size);
    copy[size] = 0;
    for (uint32_t m = 0; m < out->models_count; m++)
        if (!strcmp(out->models[m].name, copy)) {
            complain(0, "two models have the name \"%s\": give them others, as in --model NAME=DIR", copy);
            free(copy);
            return false;
        }
    out->models[out->models_count++] = (struct model_setting){copy, folder};
    return true;
}

static bool number(const struct setting *s, const char *text, double *out)
{
    const char *end;
    *out = number_read(text, &end);
    bool fine = end != text && !*end && *out >= s->low && *out <= s->high;
    if (fine && s->kind != SECONDS) fine = *out == floor(*out);
    if (!fine) complain(0, "--%s \"%s\": a number from %g to %.12g is needed", s->name, text, s->low, s->high);
    return fine;
}

static int place_in(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (int place = 1;; place++, choices++) {
        size_t size = strcspn(choices, "|");
        if (size == length && !strncmp(choices, text, size)) return place;
        choices += size;
        if (!*choices) return 0;
    }
}

static bool take(const struct setting *s, const char *text, struct settings *out)
{
    void *at = (char *)out + s->offset;
    double value = 0;
    int place = 0;
    switch (s->kind) {
    case FLAG:
        *(bool *)at = true;
        return true;
    case WORD:
        *(const char **)at = text;
        return true;
    case COUNT:
        if (!number(s, text, &value)) return false;
        *(uint32_t *)at = (uint32_t)value;
        return true;
    case BYTES:
        if (!number(s, text, &value)) return false;
        if (s->offset == AT(payload))
            out->payload = (size_t)value;
        else
            *(uint64_t *)at = (uint64_t)value;
        return true;
    case SECONDS:
        return number(s, text, (double *)at);
    case MODEL:
        return add_model(out, text);
    case KEY:
        return add_key(out, text, strlen(text));
    case KEY_FILE:
        return add_keys(out, text);
    case DTYPE:
        if (!(place = place_in(s->value, text))) return refuse(s, text);
        out->dtype = (wherry_dtype)place;
        return true;
    case POOL:
        if (!(place = place_in(s->value, text))) return refuse(s, text);
        out->pool = pool_choice(place);
        return true;
    }
    return false;
}

/* ---- the line ---- */

static const char *setting_name(size_t n, const void *user)
{
    (void)user;
    return n < SETTINGS ? table[n].name : NULL;
}

static const struct setting *find(const char *word, size_t length)
{
    for (size_t n = 0; n < SETTINGS; n++) {
        if (word[1] != '-' && word[1] == table[n].letter) return &table[n];
        if (word[1] == '-' && strlen(table[n].name) == length && !strncmp(table[n].name, word + 2, length))
            return &table[n];
    }
    return NULL;
}

static bool unknown(const char *word)
{
    const char *near = word[0] == '-' && word[1] == '-' ? nearest_name(word + 2, setting_name, NULL) : NULL;
    if (near)
        complain(0, "there is no option %s; did you mean --%s?", word, near);
    else
        complain(0, "there is no option %s; see wherry-serve --help", word);
    return false;
}

static bool read_line(int argc, char **argv, struct settings *out)
{
    for (int n = 1; n < argc; n++) {
        const char *word = argv[n], *value = NULL;
        if (word[0] != '-' || !word[1]) return unknown(word);
        size_t length = word[1] == '-' ? strcspn(word + 2, "=") : 0;
        const struct setting *s = find(word, length);
        if (!s) return unknown(word);
        if (word[1] == '-' && word[2 + length]) value = word + 3 + length;
        if (word[1] != '-' && word[2]) value = word + 2;
        if (s->kind == FLAG && value) return complain(0, "--%s takes no value", s->name), false;
        if (s->kind != FLAG && !value) {
            if (n + 1 == argc) return complain(0, "--%s needs a value: %s", s->name, s->value), false;
            value = argv[++n];
        }
        if (!take(s, value, out)) return false;
    }
    return true;
}

int settings_read(int argc, char **argv, struct settings *out)
{
    *out = (struct settings){.host = "127.0.0.1",
                             .port = 3000,
                             .concurrent = 512,
                             .client_batch = 32,
                             .payload = 2000000,
                             .timeout = 60,
                             .http_threads = 2,
                             .batch_requests = 4096};
    const char *key = getenv("WHERRY_API_KEY");
    if (key && *key && !add_key(out, key, strlen(key))) return EXIT_USAGE;
    if (!read_line(argc, argv, out)) return EXIT_USAGE;
    if (out->help || out->version) return EXIT_FINE;
    if (!out->models_count) return complain(EXIT_USAGE, "a model is missing: --model DIR; see wherry-serve --help");
    if (out->pool == WHERRY_POOL_NONE)
        return complain(EXIT_USAGE, "--pool none: /embed has a vector for each text; /embed_all has those of tokens");
    return EXIT_FINE;
}

void settings_free(struct settings *settings)
{
    for (uint32_t m = 0; m < settings->models_count; m++) free(settings->models[m].name);
    for (uint32_t k = 0; k < settings->keys_count; k++) free(settings->keys[k]);
    *settings = (struct settings){.models_count = 0};
}

static void print_wrapped(const char *text)
{
    enum { WIDTH = 72 };
    while (*text) {
        size_t keep = strlen(text);
        if (keep > WIDTH)
            for (keep = WIDTH; keep && text[keep] != ' '; keep--) continue;
        printf("        %.*s\n", (int)keep, text);
        text += keep;
        while (*text == ' ') text++;
    }
}

void settings_help(void)
{
    printf("Usage: wherry-serve --model DIR [options]     (or: wherry serve ...)\n\n"
           "Answers requests over HTTP with a model's vectors, scores and labels: the routes of\n"
           "text-embeddings-inference, OpenAI's /v1/embeddings, Cohere's and Jina's /v1/rerank.\n"
           "SIGTERM stops it when what runs is answered; SIGHUP reads models and keys again.\n\nOptions:\n");
    for (size_t n = 0; n < SETTINGS; n++) {
        char letter[8] = "";
        if (table[n].letter) snprintf(letter, sizeof letter, "-%c, ", table[n].letter);
        printf("  %s--%s%s%s\n", letter, table[n].name, table[n].value ? " " : "",
               table[n].value ? table[n].value : "");
        print_wrapped(table[n].help);
    }
    printf("\nExample:\n  wherry serve --model all-MiniLM-L6-v2 --port 8080\n"
           "  curl 127.0.0.1:8080/embed -d '{\"inputs\": \"A boat carries people.\"}'\n");
}
