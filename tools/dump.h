/* Programs written to a folder, as a compiler that is not here would be given them. */
#ifndef WHERRY_TOOLS_DUMP_H
#define WHERRY_TOOLS_DUMP_H

#include "session.h"

struct dump {
    const char *folder;
    json_t *programs; /* what programs.json will have */
    int code;         /* of what could not be written */
};

/* Makes the folder, which must be new or empty. An exit code; it has complained when that is not EXIT_FINE. */
int dump_begin(struct dump *dump, const char *folder);
/* Writes the programs of the tool's session that are not there yet. Of each its code, once for all that share it
 * (NAME.cl, NAME-f16.spv), and beside it what it is compiled with (NAME-HASH.options for OpenCL's compiler,
 * NAME-HASH.constants: "ID:VALUE ..." as spirv-opt --set-spec-const-default-value takes them). */
int dump_session(struct dump *dump, struct tool *tool);
/* Writes programs.json, the list of them, where `keep`; frees the rest. */
/* The same of a trainer: of a plan alone, which is the tool's by name. */
int dump_trainer(struct dump *dump, struct tool *tool, const wherry_session_desc *session,
                 const wherry_trainer_desc *trainer);
int dump_end(struct dump *dump, const struct tool *tool, bool keep);

#endif
