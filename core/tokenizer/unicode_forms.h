/* Texts in Unicode's normalization forms and in lower case. */
#ifndef WHERRY_TOKENIZER_UNICODE_FORMS_H
#define WHERRY_TOKENIZER_UNICODE_FORMS_H

#include "tokenizer/text.h"

enum unicode_form { UNICODE_NFD, UNICODE_NFKD, UNICODE_NFC, UNICODE_NFKC };

bool unicode_form(enum unicode_form form, const struct view *from, struct text *to, struct error *e);
bool unicode_lower_text(const struct view *from, struct text *to, struct error *e);

#endif
