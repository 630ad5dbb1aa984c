/* Regular expressions of tokenizer files, matched by PCRE2. */
#include "tokenizer/regex.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/pcre2_functions.h"
#include "tokenizer/regex_translate.h"

enum {
    STEPS_FREE = 1 << 14,   /* of a match, as PCRE2 counts them, which cost nothing of: */
    STEPS_LEAST = 10000000, /* for a text, */
    STEPS_BYTE = 256,       /* and for each of its bytes */
    HEAP_KIB = 1 << 16,     /* for one match, where it is not compiled to machine code */
    SHOWN = 300
};

/* Owns itself: PCRE2 asks for its memory and gives it back through `host`. */
struct regex {
    struct host host;
    pcre2_general_context *general;
    pcre2_code *code;
    char *pattern; /* as the file has it */
};

struct regex_memory {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static void *pcre_alloc(size_t size, void *user)
{
    const struct host *host = user;
    return host->alloc(size ? size : 1, host->user);
}

static void pcre_free(void *pointer, void *user) { host_free(user, pointer); }

static bool fail_memory(struct error *e)
{
    return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "out of host memory: a pattern needs some");
}

/* ---- compiled ---- */

static bool compile(struct regex *regex, const char *pattern, size_t bytes, struct error *e)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(regex->general);
    if (!context) return fail_memory(e);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern, bytes, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "the pattern \"%.*s\" is not one that can be matched here: %s",
                    utf8_cut(regex->pattern, SHOWN), regex->pattern, why);
    }
    /* Where there is no such compiler, PCRE2 matches without. */
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return true;
}

bool regex_open(const struct host *host, const char *pattern, size_t bytes, struct regex **out, struct error *e)
{
    char *translated = NULL;
    size_t translated_bytes = 0;
    struct regex *regex = host_alloc(host, 1, sizeof *regex, e);
    *out = NULL;
    if (!regex) return false;
    if (!pcre2_functions_load(e)) {
        host_free(host, regex);
        return false;
    }
    regex->host = *host;
    regex->general = pcre2_general_context_create(pcre_alloc, pcre_free, &regex->host);
    bool ok = regex->general || fail_memory(e);
    ok = ok && (regex->pattern = host_alloc(host, bytes + 1, 1, e));
    if (ok) memcpy(regex->pattern, pattern, bytes);
    ok = ok && regex_translate(host, pattern, bytes, &translated, &translated_bytes, e) &&
         compile(regex, translated, translated_bytes, e);
    host_free(host, translated);
    if (ok)
        *out = regex;
    else
        regex_close(host, regex);
    return ok;
}

void regex_close(const struct host *host, struct regex *regex)
{
    if (!regex) return;
    pcre2_code_free(regex->code);
    pcre2_general_context_free(regex->general);
    host_free(host, regex->pattern);
    host_free(host, regex);
}

/* ---- a search ---- */

static size_t write_utf8(uint32_t c, char *to)
{
    if (c < 0x80) {
        *to = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(c | (n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0));
    return n;
}

bool regex_begin(const struct regex *regex, const struct host *host, const struct view *text, struct regex_search *s,
                 struct error *e)
{
    *s = (struct regex_search){.regex = regex, .text = text, .host = host, .options = PCRE2_NO_UTF_CHECK};
    s->memory = host_alloc(host, 1, sizeof *s->memory, e);
    s->bytes = s->memory ? host_alloc_unset(host, text->length, 4, e) : NULL;
    if (!s->bytes) return false;
    for (size_t i = 0; i < text->length; i++) s->size += write_utf8(text->characters[i], s->bytes + s->size);
    s->steps = STEPS_LEAST + (uint64_t)STEPS_BYTE * s->size;
    s->memory->data = pcre2_match_data_create(1, regex->general);
    s->memory->context = pcre2_match_context_create(regex->general);
    if (!s->memory->data || !s->memory->context) return fail_memory(e);
    pcre2_set_heap_limit(s->memory->context, HEAP_KIB);
    return true;
}

void regex_end(struct regex_search *s)
{
    if (s->memory) {
        pcre2_match_data_free(s->memory->data);
        pcre2_match_context_free(s->memory->context);
    }
    if (s->host) {
        host_free(s->host, s->bytes);
        host_free(s->host, s->memory);
    }
    *s = (struct regex_search){0};
}

static bool fail_match(const struct regex_search *s, int code, struct error *e)
{
    const char *pattern = s->regex->pattern;
    char why[128] = "";
    if (code == PCRE2_ERROR_NOMEMORY) return fail_memory(e);
    if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_DEPTHLIMIT)
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "the pattern \"%.*s\" takes too many steps on this text (%zu bytes): its time is not linear in it",
                    utf8_cut(pattern, SHOWN), pattern, s->size);
    pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "the pattern \"%.*s\" can't be matched: %s", utf8_cut(pattern, SHOWN),
                pattern, why);
}

/* PCRE2 knows no limit for all matches of a text. So each may take a few steps; one that needs more is tried again with
 * more of those that the text has. */
static int match(struct regex_search *s)
{
    uint64_t limit = STEPS_FREE;
    for (;;) {
        pcre2_set_match_limit(s->memory->context, (uint32_t)limit);
        int code = pcre2_match(s->regex->code, (PCRE2_SPTR)s->bytes, s->size, s->at, s->options, s->memory->data,
                               s->memory->context);
        if (code == PCRE2_ERROR_JIT_STACKLIMIT && !(s->options & PCRE2_NO_JIT)) {
            s->options |= PCRE2_NO_JIT;
            continue;
        }
        if (code != PCRE2_ERROR_MATCHLIMIT) return code;
        limit *= 8;
        if (limit > s->steps || limit > UINT32_MAX) return code;
        s->steps -= limit;
    }
}

/* The character that begins at a byte which is not before the one that is known. */
static size_t character_at(struct regex_search *s, size_t byte)
{
    for (; s->known < byte; s->known++) s->known_character += (s->bytes[s->known] & 0xC0) != 0x80;
    return s->known_character;
}

bool regex_next(struct regex_search *s, bool *more, size_t *first, size_t *end, struct error *e)
{
    *more = false;
    while (s->at <= s->size) {
        int code = match(s);
        if (code == PCRE2_ERROR_NOMATCH) return true;
        if (code < 0) return fail_match(s, code, e);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(s->memory->data);
        size_t begin = found[0], stop = found[1];
        if (begin == stop && s->matched && s->last_end == stop) { /* no empty match behind another match */
            do s->at++;
            while (s->at < s->size && (s->bytes[s->at] & 0xC0) == 0x80);
            continue;
        }
        s->matched = *more = true;
        s->at = s->last_end = stop;
        *first = character_at(s, begin);
        *end = character_at(s, stop);
        return true;
    }
    return true;
}
