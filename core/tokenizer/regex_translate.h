/* Oniguruma's patterns as PCRE2's. */
#ifndef WHERRY_TOKENIZER_REGEX_TRANSLATE_H
#define WHERRY_TOKENIZER_REGEX_TRANSLATE_H

#include "base/host.h"

/* *out: a pattern of the same meaning under PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE with line ends "\n"; to be freed.
 */
bool regex_translate(const struct host *host, const char *pattern, size_t bytes, char **out, size_t *out_bytes,
                     struct error *e);

#endif
