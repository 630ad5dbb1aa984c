/* From OpenCL C to functions of this process. Clang does it in two steps: the preprocessor, whose text stands for PTX;
 * and after that, with every asm statement made a call, an object, which ld makes a shared one. Half of clang's time is
 * its start, so both are kept in a folder, if there is one. Where ptxas is found, the real assembler judges each
 * kernel, too. */
#include "emulator.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

/* ---- texts, files, commands ---- */

struct text {
    char *data;
    size_t size, room;
};

static void append(struct text *t, const char *data, size_t size)
{
    if (t->size + size + 1 > t->room) {
        t->room = (t->size + size + 1) * 2;
        t->data = realloc(t->data, t->room);
        if (!t->data) abort();
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
}

static void print(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(struct text *t, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    append(t, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static char *file_read(const char *path)
{
    struct text t = {0};
    char block[4096];
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    append(&t, "", 0);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) append(&t, block, n);
    fclose(f);
    return t.data;
}

static bool file_write(const char *path, const char *data)
{
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    size_t size = strlen(data);
    bool ok = fwrite(data, 1, size, f) == size;
    return !fclose(f) && ok;
}

/* A command of the shell; what it says goes to the log. */
static bool command(char *log, size_t log_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool command(char *log, size_t log_size, const char *format, ...)
{
    char line[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line - 8, format, list);
    va_end(list);
    strcat(line, " 2>&1");
    FILE *pipe = popen(line, "r");
    if (!pipe) return false;
    struct text_writer t = text_behind(log, log_size);
    for (char block[256]; fgets(block, sizeof block, pipe);) text_add(&t, "%s", block);
    return !pclose(pipe);
}

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* A folder of its own for one build. */
static bool folder_make(char path[256])
{
    snprintf(path, 256, "%s/emulator-XXXXXX", environment("TMPDIR", "/tmp"));
    return mkdtemp(path);
}

static void folder_remove(const char *path)
{
    static const char *const names[] = {"k.cl", "k.i", "k.c.cl", "k.o", "k.so", "k.ptx", "k.cubin"};
    char file[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        unlink(file);
    }
    rmdir(path);
}

/* ---- what is kept ---- */

/* Where this library lies: kernels are linked with it. */
static const char *library_path(void)
{
    static Dl_info info;
    return dladdr((const void *)module_text, &info) ? info.dli_fname : "";
}

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* Where the cache has what is made of these texts by this emulator; an empty path without a cache. */
static void cache_path(char path[512], const char *text, const char *more, const char *extension)
{
    const char *cache = environment("WHERRY_EMULATOR_CACHE", "");
    struct stat own = {0};
    char stamp[64];
    stat(library_path(), &own);
    snprintf(stamp, sizeof stamp, "%lld %lld", (long long)own.st_size, (long long)own.st_mtime);
    uint64_t h = hash(hash(hash(UINT64_C(0xcbf29ce484222325), stamp), text), more);
    path[0] = 0;
    if (!*cache) return;
    mkdir(cache, 0777);
    snprintf(path, 512, "%s/%016" PRIx64 "%s", cache, h, extension);
}

/* Keeps a file there, if there is a cache: renamed, because another process may look for it. */
static bool cache_keep(const char *from, const char *path, char *log, size_t log_size)
{
    return !*path ||
           command(log, log_size, "cp %s %s.%d && mv %s.%d %s", from, path, (int)getpid(), path, (int)getpid(), path);
}

/* ---- asm statements ---- */

/* After the string or character literal, or the bracket with all inside, that begins at c. */
static const char *after(const char *c)
{
    if (*c == '"' || *c == '\'') {
        char quote = *c++;
        while (*c && *c != quote) c += *c == '\\' && c[1] ? 2 : 1;
        return *c ? c + 1 : c;
    }
    if (!strchr("([{", *c)) return c + 1;
    for (c++; *c && !strchr(")]}", *c);) c = after(c);
    return *c ? c + 1 : c;
}

struct operand {
    char constraint[8];
    const char *expression;
    size_t length;
    bool output;
};

/* "constraint"(expression), ... up to the next colon or the end; returns where it stopped. */
static const char *operands_read(const char *c, const char *end, bool output, struct operand *operands, int *n)
{
    while (c < end && *c != ':') {
        if (*c != '"') {
            c++;
            continue;
        }
        const char *close = after(c), *open = close + strspn(close, " \t\n");
        struct operand *o = &operands[(*n)++];
        *o = (struct operand){.output = output};
        snprintf(o->constraint, sizeof o->constraint, "%.*s", (int)(close - c - 2), c + 1);
        c = after(open);
        o->expression = open;
        o->length = (size_t)(c - open);
    }
    return c;
}

/* `c` is after the word asm, at its bracket or at "volatile". Writes a block that passes the operands as words of 64
 * bits, and returns what is after the statement. */
static const char *statement_write(struct text *out, const char *c)
{
    enum { MOST = 160 };
    static _Thread_local struct operand operands[MOST];
    int n = 0;
    c = strchr(c, '(');
    const char *end = after(c) - 1, *at = c + 1;
    struct text string = {0};
    append(&string, "", 0);
    while (at < end && *at != ':') { /* the instructions, in one or several literals */
        const char *next = *at == '"' ? after(at) : at + 1;
        append(&string, at, (size_t)(next - at));
        at = next;
    }
    if (at < end) at = operands_read(at + 1, end, true, operands, &n);
    if (at < end) operands_read(at + 1, end, false, operands, &n);
    print(out, "{ ulong e_[%d] = {", n ? n : 1);
    for (int i = 0; i < n; i++) {
        const struct operand *o = &operands[i];
        char kind = o->constraint[strspn(o->constraint, "=+")];
        if (o->output && o->constraint[0] == '=') {
            append(out, "0, ", 3);
            continue;
        }
        print(out, kind == 'f' ? "(ulong)as_uint(" : kind == 'l' ? "(ulong)(" : "(ulong)(uint)(");
        append(out, o->expression, o->length);
        append(out, "), ", 3);
    }
    if (!n) append(out, "0", 1);
    append(out, "}; emulate(", 11);
    append(out, string.data, string.size);
    append(out, ", e_); ", 7);
    free(string.data);
    for (int i = 0; i < n; i++) {
        const struct operand *o = &operands[i];
        if (!o->output) continue;
        append(out, o->expression, o->length);
        print(out,
              strchr(o->constraint, 'f')   ? " = as_float((uint)e_[%d]); "
              : strchr(o->constraint, 'l') ? " = e_[%d]; "
                                           : " = (uint)e_[%d]; ",
              i);
    }
    append(out, "}", 1);
    end++;
    return end + strspn(end, " \t;"); /* the next line may be the preprocessor's */
}

static struct text asm_replace(const char *text)
{
    struct text out = {0};
    print(&out, "void emulate(__constant const char *text, ulong *operands);\n");
    for (const char *c = text; *c;) {
        bool begins = c == text || !(isalnum((unsigned char)c[-1]) || c[-1] == '_');
        if (begins && !strncmp(c, "asm", 3) && (c[3] == '(' || c[3] == ' ')) {
            c = statement_write(&out, c + 3);
            continue;
        }
        const char *next = *c == '"' ? after(c) : c + 1;
        append(&out, c, (size_t)(next - c));
        c = next;
    }
    return out;
}

/* ---- text that stands for PTX ---- */

static const char target[] = ".version 8.4\n.target sm_90, texmode_independent\n.address_size 64\n";

/* Takes the text. */
static char *text_headed(char *text)
{
    struct text all = {0};
    print(&all, "%s", target);
    append(&all, text, strlen(text));
    free(text);
    return all.data;
}

char *module_text(const char *source, const char *options, char *log, size_t log_size)
{
    char folder[256], path[512], kept[512], defines[4096];
    struct text_writer given = text_begin(defines, sizeof defines);
    log[0] = 0;
    for (const char *o = options ? options : ""; (o = strstr(o, "-D "));) { /* the rest is not the preprocessor's */
        o += 3;
        if (!text_add(&given, " '-D%.*s'", (int)strcspn(o, " "), o)) return NULL;
    }
    cache_path(kept, source, defines, ".i");
    char *text = *kept ? file_read(kept) : NULL;
    if (text) return text_headed(text);
    if (!folder_make(folder)) return NULL;
    snprintf(path, sizeof path, "%s/k.cl", folder);
    /* No extensions of clang's: NVIDIA's refuses macros of any number of arguments. */
    bool ok = file_write(path, source) &&
              command(log, log_size, "%s -E -P -pedantic-errors -x cl -cl-std=CL1.2%s %s -o %s/k.i",
                      environment("CLANG", "clang-14"), defines, path, folder);
    snprintf(path, sizeof path, "%s/k.i", folder);
    if (ok && cache_keep(path, kept, log, log_size)) text = file_read(path);
    folder_remove(folder);
    return text ? text_headed(text) : NULL;
}

/* ---- the real assembler ---- */

/* ptxas holds static arrays to what CUDA allows them; NVIDIA's OpenCL allows all that there is. */
static bool only_large(const char *log)
{
    const char *error = strstr(log, "error"), *bytes = strstr(log, " bytes smem");
    if (!error || strstr(error + 1, "error") || !strstr(log, "uses too much shared data") || !bytes) return false;
    while (bytes > log && isdigit((unsigned char)bytes[-1])) bytes--;
    return strtoul(bytes, NULL, 10) <= SHARED_MOST;
}

/* Of kernels with inline assembly. What ptxas says of the kernel becomes the log: registers and spills, as NVIDIA's
 * driver tells them. It refuses more shared memory than there is. */
static bool assemble(const char *folder, const char *body, bool hopper, char *log, size_t log_size)
{
    const char *ptxas = getenv("PTXAS"), *name = hopper ? "sm_90a" : "sm_90";
    const char *size = strstr(body, "reqd_work_group_size(");
    unsigned items = size ? (unsigned)strtoul(strchr(size, '(') + 1, NULL, 10) : 0;
    char path[512];
    if (!ptxas || !*ptxas || !strstr(body, "asm")) return true;
    if (!command(log, log_size,
                 "%s -x cl -cl-std=CL1.2 -target nvptx64-unknown-unknown -Xclang -finclude-default-header -Xclang "
                 "-cl-ext=+all -march=sm_80 -O2 -w -include %s -S %s/k.i -o %s/k.ptx",
                 environment("CLANG", "clang-14"), NVPTX_HEADER, folder, folder))
        return false;
    snprintf(path, sizeof path, "%s/k.ptx", folder);
    char *ptx = file_read(path), *at = ptx ? strstr(ptx, ".target") : NULL;
    struct text patched = {0};
    if (at) {
        print(&patched, ".version 8.4\n.target %s, texmode_independent\n", name);
        /* As NVIDIA's compiler does it: without the size of the work-group, registers are not moved between warpgroups.
         */
        const char *rest = strchr(at, '\n'), *entry = strstr(rest, ".entry"),
                   *begin = entry ? strstr(entry, "\n{") : rest;
        append(&patched, rest, (size_t)(begin - rest));
        if (items) print(&patched, "\n.reqntid %u, 1, 1", items);
        append(&patched, begin, strlen(begin));
    }
    bool ok = at && file_write(path, patched.data) &&
              (command(log, log_size, "%s -arch=%s -v %s -o %s/k.cubin", ptxas, name, path, folder) || only_large(log));
    free(patched.data);
    free(ptx);
    if (ok) fprintf(stderr, "emulator: ptxas %s: %s\n", name, log);
    return ok;
}

/* ---- shared objects ---- */

/* Each kernel's required work-group size as a variable, so that clang computes it. */
static bool sizes_write(struct text *out, const char *body)
{
    static const char attribute[] = "reqd_work_group_size(";
    for (const char *at = body; (at = strstr(at, attribute));) {
        at += sizeof attribute - 1;
        const char *name = after(at - 1);
        name += strspn(name, ") \t\n");
        if (strncmp(name, "void", 4)) return false;
        name += 4 + strspn(name + 4, " \t\n");
        print(out, "\n__constant uint required_%.*s = %.*s;", (int)strcspn(name, "( \t\n"), name, (int)strcspn(at, ","),
              at);
    }
    return true;
}

static bool compile(const char *body, const char *folder, char *log, size_t log_size)
{
    const char *clang = environment("CLANG", "clang-14");
    char path[512];
    struct text replaced = asm_replace(body);
    bool ok = sizes_write(&replaced, body);
    if (!ok) snprintf(log, log_size, "a kernel's work-group size is not before its name");
    snprintf(path, sizeof path, "%s/k.c.cl", folder);
    ok = ok && file_write(path, replaced.data);
    free(replaced.data);
    /* Without optimization, which took most of the tests' time, since the work is done by the emulator's own functions;
     * it would also have to be told that every call may change __local arrays. */
    return ok && command(log, log_size,
                         "%s -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins "
                         "-target x86_64-unknown-linux-gnu -O0 -fPIC -w -c %s -o %s/k.o && "
                         "ld -shared -z now %s/k.o '%s' -o %s/k.so",
                         clang, path, folder, folder, library_path(), folder);
}

/* The writable bytes of the object that no file fills: its __local arrays. */
static int find_shared(struct dl_phdr_info *info, size_t size, void *user)
{
    struct module *m = user;
    struct link_map *map;
    (void)size;
    if (dlinfo(m->library, RTLD_DI_LINKMAP, &map) || map->l_addr != info->dlpi_addr) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || p->p_memsz == p->p_filesz) continue;
        m->shared = (unsigned char *)(info->dlpi_addr + p->p_vaddr + p->p_filesz);
        m->shared_bytes = p->p_memsz - p->p_filesz;
    }
    return 1;
}

static bool load(struct module *m, const char *path, char *log, size_t log_size)
{
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) {
        snprintf(log, log_size, "%s", dlerror());
        return false;
    }
    dl_iterate_phdr(find_shared, m);
    if (m->shared_bytes <= SHARED_MOST + 1024) return true;
    snprintf(log, log_size, "%zu bytes of shared memory: there are %d", m->shared_bytes, SHARED_MOST);
    return false;
}

bool module_load(struct module *m, const char *text, char *log, size_t log_size)
{
    const char *body = strstr(text, ".address_size 64\n");
    char folder[256], object[512], from[512];
    *m = (struct module){.hopper = strstr(text, ".target sm_90a")};
    log[0] = 0;
    if (!body || strncmp(text, ".version", 8)) {
        snprintf(log, log_size, "this is not what the emulator gave out");
        return false;
    }
    body += strlen(".address_size 64\n");
    cache_path(object, body, "", ".so"); /* of either target: what only sm_90a has is judged when it runs */
    if (*object && !getenv("PTXAS") && !access(object, R_OK)) return load(m, object, log, log_size);
    if (!folder_make(folder)) return false;
    snprintf(from, sizeof from, "%s/k.i", folder);
    bool ok = file_write(from, body) && assemble(folder, body, m->hopper, log, log_size) &&
              compile(body, folder, log, log_size);
    snprintf(from, sizeof from, "%s/k.so", folder);
    ok = ok && cache_keep(from, object, log, log_size) && load(m, *object ? object : from, log, log_size);
    folder_remove(folder);
    return ok;
}

void module_close(struct module *m)
{
    if (m->library) dlclose(m->library);
    *m = (struct module){0};
    instructions_forget();
}

void *module_kernel(const struct module *m, const char *name, uint32_t *required)
{
    char variable[160];
    snprintf(variable, sizeof variable, "required_%s", name);
    const uint32_t *number = m->library ? dlsym(m->library, variable) : NULL;
    *required = number ? *number : 0;
    return m->library ? dlsym(m->library, name) : NULL;
}
