/* From OpenCL C to functions of this process. Clang does it in three steps: the preprocessor, whose text stands for
 * PTX; after that, with every asm statement made a call, LLVM's intermediate language, in which __local arrays become
 * variables that calls may change; and a shared object. What needs clang is kept in a folder, if there is one. Where
 * ptxas is found, the real assembler judges each kernel, too. */
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
    static const char *const names[] = {"k.cl", "k.i", "k.c.cl", "k.ll", "k.so", "k.ptx", "k.cubin"};
    char file[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        unlink(file);
    }
    rmdir(path);
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

static char *asm_replace(const char *text)
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
    return out.data;
}

/* ---- text that stands for PTX ---- */

static const char target[] = ".version 8.4\n.target sm_90, texmode_independent\n.address_size 64\n";

char *module_text(const char *source, const char *options, char *log, size_t log_size)
{
    char folder[256], path[512], defines[4096];
    struct text_writer given = text_begin(defines, sizeof defines);
    log[0] = 0;
    for (const char *o = options ? options : ""; (o = strstr(o, "-D "));) { /* the rest is not the preprocessor's */
        o += 3;
        if (!text_add(&given, " '-D%.*s'", (int)strcspn(o, " "), o)) return NULL;
    }
    if (!folder_make(folder)) return NULL;
    snprintf(path, sizeof path, "%s/k.cl", folder);
    /* No extensions of clang's: NVIDIA's refuses macros of any number of arguments. */
    bool ok = file_write(path, source) &&
              command(log, log_size, "%s -E -P -pedantic-errors -x cl -cl-std=CL1.2%s %s -o %s/k.i",
                      environment("CLANG", "clang-14"), defines, path, folder);
    snprintf(path, sizeof path, "%s/k.i", folder);
    char *text = ok ? file_read(path) : NULL;
    folder_remove(folder);
    if (!text) return NULL;
    struct text all = {0};
    print(&all, "%s", target);
    append(&all, text, strlen(text));
    free(text);
    return all.data;
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

/* Where this library lies: kernels are linked with it. */
static const char *library_path(void)
{
    static Dl_info info;
    return dladdr((const void *)target, &info) ? info.dli_fname : "";
}

/* Of a kernel's text, and of the emulator that makes it a program. */
static uint64_t hash(const char *text)
{
    struct stat own = {0};
    char stamp[64];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    stat(library_path(), &own);
    snprintf(stamp, sizeof stamp, "%lld %lld", (long long)own.st_size, (long long)own.st_mtime);
    for (const char *c = stamp; *c; c++) h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (; *text; text++) h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* Variables that belong to the work-group may be changed by every call. */
static bool locals_expose(const char *path)
{
    static const char from[] = " = internal global ", to[] = " = hidden   global ";
    char *text = file_read(path);
    if (!text) return false;
    for (char *at = text; (at = strstr(at, from));) memcpy(at, to, sizeof to - 1);
    bool ok = file_write(path, text);
    free(text);
    return ok;
}

static bool compile(const char *body, const char *folder, char *log, size_t log_size)
{
    const char *clang = environment("CLANG", "clang-14");
    char path[512];
    char *replaced = asm_replace(body);
    snprintf(path, sizeof path, "%s/k.c.cl", folder);
    bool ok = file_write(path, replaced);
    free(replaced);
    ok = ok && command(log, log_size,
                       "%s -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins "
                       "-target x86_64-unknown-linux-gnu -O1 -Xclang -disable-llvm-passes -fPIC -w -S -emit-llvm %s "
                       "-o %s/k.ll",
                       clang, path, folder);
    snprintf(path, sizeof path, "%s/k.ll", folder);
    /* Without optimization, which took most of the tests' time: the work is done by the emulator's own functions. */
    return ok && locals_expose(path) &&
           command(log, log_size, "%s -O0 -fPIC -shared -nostdlib -Wl,-z,now -w %s '%s' -o %s/k.so", clang, path,
                   library_path(), folder);
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
    const char *cache = environment("WHERRY_EMULATOR_CACHE", ""), *body = strstr(text, ".address_size 64\n");
    char folder[256], object[512], from[512], source[512];
    *m = (struct module){.hopper = strstr(text, ".target sm_90a")};
    log[0] = 0;
    if (!body || strncmp(text, ".version", 8)) {
        snprintf(log, log_size, "this is not what the emulator gave out");
        return false;
    }
    body += strlen(".address_size 64\n");
    snprintf(object, sizeof object, "%s/%016" PRIx64 ".so", cache, hash(text));
    snprintf(source, sizeof source, "%s/%016" PRIx64 ".ll", cache, hash(text));
    if (*cache && !getenv("PTXAS") && !access(object, R_OK) && (m->intermediate = file_read(source)))
        return load(m, object, log, log_size);
    if (!folder_make(folder)) return false;
    snprintf(from, sizeof from, "%s/k.i", folder);
    bool ok = file_write(from, body) && assemble(folder, body, m->hopper, log, log_size) &&
              compile(body, folder, log, log_size);
    snprintf(from, sizeof from, "%s/k.ll", folder);
    if (ok) m->intermediate = file_read(from);
    ok = ok && m->intermediate;
    if (ok && *cache) { /* renamed last: another process may look for it */
        mkdir(cache, 0777);
        ok = command(log, log_size, "cp %s/k.ll %s && cp %s/k.so %s.%d && mv %s.%d %s", folder, source, folder, object,
                     (int)getpid(), object, (int)getpid(), object);
    }
    snprintf(from, sizeof from, "%s/k.so", folder);
    ok = ok && load(m, *cache ? object : from, log, log_size);
    folder_remove(folder);
    return ok;
}

void module_close(struct module *m)
{
    if (m->library) dlclose(m->library);
    free(m->intermediate);
    *m = (struct module){0};
    instructions_forget();
}

void *module_kernel(const struct module *m, const char *name, uint32_t *required)
{
    char wanted[160];
    unsigned number;
    *required = 0;
    void *function = m->library ? dlsym(m->library, name) : NULL;
    snprintf(wanted, sizeof wanted, "@%s(", name);
    const char *line = function ? strstr(m->intermediate, wanted) : NULL;
    const char *at = line ? strstr(line, "!reqd_work_group_size !") : NULL;
    if (!at || at > strchr(line, '\n')) return function;
    if (sscanf(at, "!reqd_work_group_size !%u", &number) != 1) return function;
    snprintf(wanted, sizeof wanted, "\n!%u = !{i32 ", number);
    at = strstr(line, wanted);
    if (at) *required = (uint32_t)strtoul(at + strlen(wanted), NULL, 10);
    return function;
}
