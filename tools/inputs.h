/* What a command reads is not what it replaces. */
#ifndef WHERRY_TOOLS_INPUTS_H
#define WHERRY_TOOLS_INPUTS_H

#include "options.h"

/* Whether --output is a file that the command reads, whatever name it has there: texts, records, standard input, the
 * model's files, tuned sizes, a device's record. Says so and returns false then: its content would be gone. */
bool inputs_kept(const struct options *options);

#endif
