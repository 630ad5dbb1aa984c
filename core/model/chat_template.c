/* Chat templates of models that are asked about a query and a document: what of Jinja such templates are made of. */
#include "model/chat_template.h"

#include <ctype.h>
#include <string.h>

/* What an expression is. */
enum kind { VALUE_NONE, VALUE_MESSAGES, VALUE_OF_ROLE, VALUE_CONTENTS, VALUE_MESSAGE, VALUE_CONTENT, VALUE_TEXT };
enum { SLOTS = FRAME_PARTS - 1, NAMES_MOST = 8, NAME_SIZE = 48, TEXT_SIZE = 1024 };
static const char *const roles[SLOTS] = {"system", "query", "document"};

struct value {
    enum kind kind;
    int role;
    bool has_text;        /* of VALUE_CONTENT: where no message has the role */
    char text[TEXT_SIZE]; /* of VALUE_TEXT, or that */
};

struct reader {
    const char *at;
    const char *why; /* what can't be read; NULL: nothing */
    struct {
        char name[NAME_SIZE];
        struct value value;
    } names[NAMES_MOST];
    size_t names_count;
    char *parts[FRAME_PARTS]; /* [room] */
    size_t sizes[FRAME_PARTS], room;
    int part;
    size_t literal; /* where in the part the text since the last expression begins */
    struct value instruction;
    bool trims; /* white space before the next text is left out */
};

static bool stop(struct reader *r, const char *why)
{
    if (!r->why) r->why = why;
    return false;
}

/* ---- expressions ---- */

static void skip_space(struct reader *r)
{
    while (isspace((unsigned char)*r->at)) r->at++;
}

static bool takes(struct reader *r, const char *what)
{
    size_t n = strlen(what);
    skip_space(r);
    if (strncmp(r->at, what, n)) return false;
    r->at += n;
    return true;
}

static bool read_name(struct reader *r, char *to)
{
    size_t n = 0;
    skip_space(r);
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
    if (!n || n >= NAME_SIZE || isdigit((unsigned char)*r->at)) return stop(r, "an expression without a name");
    memcpy(to, r->at, n);
    to[n] = 0;
    r->at += n;
    return true;
}

static bool read_string(struct reader *r, char *to)
{
    size_t n = 0;
    skip_space(r);
    char quote = *r->at;
    if (quote != '"' && quote != '\'') return stop(r, "an expression where a string has to be");
    for (r->at++; *r->at != quote; r->at++) {
        char c = *r->at;
        if (!c || n + 1 >= TEXT_SIZE) return stop(r, "a string without an end, or a long one");
        if (c == '\\') {
            c = *++r->at;
            if (!c || !strchr("nt\\\"'", c)) return stop(r, "an escape in a string");
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        to[n++] = c;
    }
    to[n] = 0;
    r->at++;
    return true;
}

/* selectattr("role", "eq", "query") */
static bool select_role(struct reader *r, struct value *v)
{
    char text[TEXT_SIZE];
    if (!takes(r, "(") || !read_string(r, text) || strcmp(text, "role") || !takes(r, ",") || !read_string(r, text) ||
        (strcmp(text, "eq") && strcmp(text, "equalto") && strcmp(text, "==")) || !takes(r, ",") ||
        !read_string(r, text) || !takes(r, ")") || v->kind != VALUE_MESSAGES)
        return stop(r, "a selectattr of something else than a role");
    v->kind = VALUE_OF_ROLE;
    for (v->role = 0; v->role < SLOTS; v->role++)
        if (!strcmp(text, roles[v->role])) return true;
    return stop(r, "a role beside system, query and document");
}

static bool filter(struct reader *r, struct value *v)
{
    char name[NAME_SIZE], text[TEXT_SIZE];
    if (!read_name(r, name)) return false;
    if (!strcmp(name, "selectattr")) return select_role(r, v);
    if (!strcmp(name, "map") && v->kind == VALUE_OF_ROLE) {
        v->kind = VALUE_CONTENTS;
        return (takes(r, "(") && takes(r, "attribute") && takes(r, "=") && read_string(r, text) &&
                !strcmp(text, "content") && takes(r, ")")) ||
               stop(r, "a map of something else than the content");
    }
    if (!strcmp(name, "first") && (v->kind == VALUE_OF_ROLE || v->kind == VALUE_CONTENTS)) {
        v->kind = v->kind == VALUE_OF_ROLE ? VALUE_MESSAGE : VALUE_CONTENT;
        return true;
    }
    if (!strcmp(name, "default") && v->kind == VALUE_CONTENT) {
        v->has_text = takes(r, "(") && read_string(r, v->text);
        if (v->has_text && takes(r, ",")) v->has_text = takes(r, "true");
        return (v->has_text && takes(r, ")")) || stop(r, "a default that is no string");
    }
    return stop(r, "a filter beside selectattr, map, first and default");
}

static bool read_filters(struct reader *r, struct value *v)
{
    while (takes(r, "|"))
        if (!filter(r, v)) return false;
    return true;
}

static bool read_named(struct reader *r, struct value *v)
{
    char name[NAME_SIZE];
    if (!read_name(r, name)) return false;
    if (!strcmp(name, "messages")) {
        v->kind = VALUE_MESSAGES;
        return true;
    }
    for (size_t i = 0; i < r->names_count; i++) {
        if (strcmp(name, r->names[i].name)) continue;
        *v = r->names[i].value;
        return true;
    }
    return stop(r, "a name that was not set");
}

/* A list in brackets, no deeper: (messages | ...).content */
static bool read_expression(struct reader *r, struct value *v)
{
    *v = (struct value){.kind = VALUE_NONE};
    skip_space(r);
    if (*r->at == '"' || *r->at == '\'') {
        v->kind = VALUE_TEXT;
        return read_string(r, v->text);
    }
    bool within = takes(r, "(");
    if (!read_named(r, v) || !read_filters(r, v)) return false;
    if (within && !takes(r, ")")) return stop(r, "brackets without an end");
    if (v->kind == VALUE_MESSAGE && (takes(r, ".content") || takes(r, "['content']") || takes(r, "[\"content\"]")))
        v->kind = VALUE_CONTENT;
    return !within || read_filters(r, v);
}

/* ---- text ---- */

static bool put(struct reader *r, char c)
{
    if (r->sizes[r->part] + 1 >= r->room) return stop(r, "a longer text than the template itself");
    r->parts[r->part][r->sizes[r->part]++] = c;
    return true;
}

/* Without an instruction what was read before the query is the part after it. */
static void skip_instruction(struct reader *r)
{
    char *part = r->parts[0];
    r->parts[0] = r->parts[1], r->parts[1] = part;
    r->sizes[1] = r->sizes[0], r->sizes[0] = 0;
    r->part = 1;
}

/* What a place stands for goes into the next part; strings are text. */
static bool put_value(struct reader *r, const struct value *v)
{
    if (v->kind == VALUE_TEXT) {
        for (const char *c = v->text; *c; c++)
            if (!put(r, *c)) return false;
        r->literal = r->sizes[r->part];
        return true;
    }
    if (v->kind != VALUE_CONTENT) return stop(r, "an expression that is no message's content");
    if (v->role == 1 && !r->part) skip_instruction(r);
    if (v->role != r->part) return stop(r, "another order than instruction, query and document, each once");
    if (v->role && v->has_text) return stop(r, "a default for the query or the document");
    if (!v->role) r->instruction = *v;
    r->part++;
    r->literal = 0;
    return true;
}

static void trim_before(struct reader *r)
{
    char *text = r->parts[r->part];
    size_t *n = &r->sizes[r->part];
    while (*n > r->literal && isspace((unsigned char)text[*n - 1])) --*n;
}

/* As lstrip_blocks: white space of a line before a block. */
static void trim_line(struct reader *r)
{
    const char *text = r->parts[r->part];
    size_t n = r->sizes[r->part];
    while (n > r->literal && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
    if (n > r->literal ? text[n - 1] == '\n' : !n && !r->part) r->sizes[r->part] = n;
}

/* As trim_blocks: the end of the line after a block. */
static bool end_block(struct reader *r, const char *end, bool block)
{
    skip_space(r);
    r->trims = *r->at == '-';
    if (*r->at == '-') r->at++;
    if (strncmp(r->at, end, 2)) return stop(r, "more in an expression than is read");
    r->at += 2;
    if (block && *r->at == '\n') r->at++;
    return true;
}

static void begin_block(struct reader *r, bool block)
{
    r->at += 2;
    if (*r->at == '-') {
        r->at++;
        trim_before(r);
    } else if (block) {
        trim_line(r);
    }
}

static bool read_set(struct reader *r)
{
    begin_block(r, true);
    if (!takes(r, "set ") || r->names_count == NAMES_MOST) return stop(r, "a statement beside set");
    if (!read_name(r, r->names[r->names_count].name) || !takes(r, "=") ||
        !read_expression(r, &r->names[r->names_count].value))
        return stop(r, "a set of something else than an expression");
    r->names_count++;
    return end_block(r, "%}", true);
}

static bool read_output(struct reader *r)
{
    struct value v;
    begin_block(r, false);
    return read_expression(r, &v) && end_block(r, "}}", false) && put_value(r, &v);
}

static bool read_comment(struct reader *r)
{
    begin_block(r, true);
    const char *end = strstr(r->at, "#}");
    if (!end) return stop(r, "a comment without an end");
    r->at = end[-1] == '-' ? end - 1 : end;
    return end_block(r, "#}", true);
}

static bool read_all(struct reader *r, const char *end)
{
    while (r->at < end) {
        if (r->trims && isspace((unsigned char)*r->at)) {
            r->at++;
            continue;
        }
        r->trims = false;
        bool ok = !strncmp(r->at, "{{", 2)   ? read_output(r)
                  : !strncmp(r->at, "{%", 2) ? read_set(r)
                  : !strncmp(r->at, "{#", 2) ? read_comment(r)
                                             : put(r, *r->at++);
        if (!ok) return stop(r, "something else");
    }
    return r->part == SLOTS || stop(r, "no place for a query, and after it one for a document");
}

/* ---- all of it ---- */

static bool take(const struct host *host, struct reader *r, struct pair_frame *out, struct error *e)
{
    for (int i = 0; i < FRAME_PARTS; i++) {
        r->parts[i][r->sizes[i]] = 0;
        out->parts[i] = r->parts[i];
        r->parts[i] = NULL;
    }
    if (r->instruction.kind != VALUE_CONTENT) return true;
    return (out->instruction = host_strdup(host, r->instruction.text, e)) != NULL;
}

bool chat_template_read(const struct host *host, const char *text, struct pair_frame *out, const char **why,
                        struct error *e)
{
    size_t bytes = strlen(text);
    struct reader *r = host_alloc(host, 1, sizeof *r, e);
    bool ok = r != NULL;
    memset(out, 0, sizeof *out);
    *why = NULL;
    if (!ok) return false;
    r->at = text;
    r->room = bytes + TEXT_SIZE;
    for (int i = 0; i < FRAME_PARTS; i++) ok = (r->parts[i] = host_alloc(host, r->room, 1, e)) && ok;
    /* The last end of a line is the file's. */
    if (ok) ok = read_all(r, text + bytes - (bytes && text[bytes - 1] == '\n')) && take(host, r, out, e);
    *why = r->why;
    for (int i = 0; i < FRAME_PARTS; i++) host_free(host, r->parts[i]);
    host_free(host, r);
    if (!ok) pair_frame_free(host, out);
    return ok;
}

static bool has_quoted(const char *text, const char *word)
{
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if (at > text && (at[-1] == '"' || at[-1] == '\'') && at[strlen(word)] == at[-1]) return true;
    return false;
}

bool chat_template_has_roles(const char *text) { return has_quoted(text, "query") && has_quoted(text, "document"); }
