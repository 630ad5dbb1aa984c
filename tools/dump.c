/* Writes programs: `wherry prepare --dump`. */
#include "dump.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/wherry_train_measure.h>

#include "base/text.h"
#include "new_folder.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 96 };

/* ---- the folder ---- */

int dump_begin(struct dump *dump, const char *folder)
{
    *dump = (struct dump){.folder = folder};
    if (!new_folder(folder)) return EXIT_OUTPUT;
    dump->programs = need(json_array());
    return EXIT_FINE;
}

/* ---- files ---- */

static bool path_of(const struct dump *dump, const char *name, char path[PATH_BYTES])
{
    struct text_writer t = text_begin(path, PATH_BYTES);
    text_add(&t, "%s/%s", dump->folder, name);
    return !t.cut || complain(0, "the path of %s/%s is too long", dump->folder, name);
}

static bool write_file(struct dump *dump, const char *name, const void *data, size_t size)
{
    char path[PATH_BYTES];
    struct output out;
    if (!path_of(dump, name, path) || !output_open(&out, path)) return false;
    output_write(&out, data, size);
    return output_close(&out, true);
}

/* Kernels are named like files, and names come from this library: nothing to be escaped. */
static bool write_code(struct dump *dump, const wherry_program *p, char name[NAME_BYTES])
{
    const json_t *program;
    size_t n;
    bool spirv = p->language == WHERRY_LANGUAGE_SPIRV;
    snprintf(name, NAME_BYTES, "%s%s", p->kernel, !spirv ? ".cl" : p->f16 ? "-f16.spv" : "-f32.spv");
    json_array_foreach(dump->programs, n, program)
    {
        if (!strcmp(json_string_value(json_object_get(program, "file")), name)) return true;
    }
    return write_file(dump, name, p->code, p->code_bytes);
}

static bool write_form(struct dump *dump, const wherry_program *p, char name[NAME_BYTES])
{
    char text[PATH_BYTES];
    struct text_writer t = text_begin(text, sizeof text);
    bool spirv = p->language == WHERRY_LANGUAGE_SPIRV;
    snprintf(name, NAME_BYTES, "%s-%016" PRIx64 "%s", p->kernel, p->hash, spirv ? ".constants" : ".options");
    for (size_t n = 0; n < p->constant_count; n++)
        text_add(&t, "%s%" PRIu32 ":%" PRIu32, n ? " " : "", p->constants[n].id, p->constants[n].value);
    text_add(&t, "%s\n", p->options);
    return t.cut ? complain(0, "the options of %s are too long", p->kernel) : write_file(dump, name, text, t.used);
}

static bool is_known(const struct dump *dump, const char *hash)
{
    const json_t *program;
    size_t n;
    json_array_foreach(dump->programs, n, program)
    {
        if (!strcmp(json_string_value(json_object_get(program, "hash")), hash)) return true;
    }
    return false;
}

/* ---- the list ---- */

struct one_session {
    struct dump *dump;
    const struct tool *tool;
};

static bool take_program(const wherry_program *p, void *user)
{
    const struct one_session *of = user;
    struct dump *dump = of->dump;
    char hash[17], file[NAME_BYTES], form[NAME_BYTES];
    snprintf(hash, sizeof hash, "%016" PRIx64, p->hash);
    if (is_known(dump, hash)) return true;
    if (!write_code(dump, p, file) || !write_form(dump, p, form)) {
        dump->code = EXIT_OUTPUT;
        return false;
    }
    bool spirv = p->language == WHERRY_LANGUAGE_SPIRV;
    json_t *program =
        need(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "hash", hash, "kernel", p->kernel,
                       "function", spirv ? "main" : p->kernel, "language", spirv ? "spirv" : "opencl-c", "file", file,
                       spirv ? "constants" : "options", form, "group", p->group, "plan", of->tool->plan.plan,
                       "launches", (json_int_t)p->launches, "local_size", (json_int_t)p->local_size));
    json_object_set_new(program, "dtype", json_string(p->f16 ? "f16" : "f32"));
    json_object_set_new(program, "work", json_string(p->work));
    json_object_set_new(program, "sizes", json_string(p->sizes));
    if (spirv) {
        json_object_set_new(program, "full_subgroups", json_boolean(p->full_subgroups));
        json_object_set_new(program, "subgroup_size", json_integer(p->subgroup_size));
    }
    json_array_append_new(dump->programs, program);
    return true;
}

int dump_session(struct dump *dump, struct tool *tool)
{
    struct one_session of = {dump, tool};
    wherry_status status = wherry_session_programs(tool->session, take_program, &of);
    return status ? tool_error(tool, status, NULL) : dump->code;
}

int dump_trainer(struct dump *dump, struct tool *tool, const wherry_session_desc *session,
                 const wherry_trainer_desc *trainer)
{
    struct one_session of = {dump, tool};
    wherry_status status =
        wherry_trainer_programs(tool->context, tool->device, tool->model, session, trainer, take_program, &of);
    return status ? tool_error(tool, status, NULL) : dump->code;
}

int dump_end(struct dump *dump, const struct tool *tool, bool keep)
{
    char path[PATH_BYTES];
    struct output out;
    int code = EXIT_FINE;
    if (keep && path_of(dump, "programs.json", path)) {
        if (output_open(&out, path)) {
            output_json(&out, need(json_pack("{s:o, s:o, s:O}", "run", run_json(tool->options), "device",
                                             device_json(&tool->device_info), "programs", dump->programs)));
            code = output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
        } else {
            code = EXIT_OUTPUT;
        }
    }
    json_decref(dump->programs);
    return code;
}
