/* PCRE2, which only tokenizers with patterns need: opened at run time, by the first of them, where the build does not
 * link it (WHERRY_PCRE2). A call by PCRE2's name goes through the table then. */
#ifndef WHERRY_TOKENIZER_PCRE2_FUNCTIONS_H
#define WHERRY_TOKENIZER_PCRE2_FUNCTIONS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>

#include "base/error.h"

/* Once per process, before any other call. False where there is no PCRE2: the text says which names were looked for,
 * and what the system says of each. */
bool pcre2_functions_load(struct error *e);

#ifdef WHERRY_PCRE2_LOADED

#define PCRE2_FUNCTIONS(X)                                                                                             \
    X(pcre2_general_context_create_8)                                                                                  \
    X(pcre2_general_context_free_8)                                                                                    \
    X(pcre2_compile_context_create_8)                                                                                  \
    X(pcre2_compile_context_free_8)                                                                                    \
    X(pcre2_set_newline_8)                                                                                             \
    X(pcre2_compile_8)                                                                                                 \
    X(pcre2_jit_compile_8)                                                                                             \
    X(pcre2_code_free_8)                                                                                               \
    X(pcre2_match_data_create_8)                                                                                       \
    X(pcre2_match_data_free_8)                                                                                         \
    X(pcre2_match_context_create_8)                                                                                    \
    X(pcre2_match_context_free_8)                                                                                      \
    X(pcre2_set_heap_limit_8)                                                                                          \
    X(pcre2_set_match_limit_8)                                                                                         \
    X(pcre2_match_8)                                                                                                   \
    X(pcre2_get_ovector_pointer_8)                                                                                     \
    X(pcre2_get_error_message_8)

#define PCRE2_FUNCTION(name) __typeof__(&name) name;
extern struct pcre2_functions {
    PCRE2_FUNCTIONS(PCRE2_FUNCTION)
} pcre2_functions;
#undef PCRE2_FUNCTION

/* pcre2.h makes these names of those without the width. */
#define pcre2_general_context_create_8 pcre2_functions.pcre2_general_context_create_8
#define pcre2_general_context_free_8 pcre2_functions.pcre2_general_context_free_8
#define pcre2_compile_context_create_8 pcre2_functions.pcre2_compile_context_create_8
#define pcre2_compile_context_free_8 pcre2_functions.pcre2_compile_context_free_8
#define pcre2_set_newline_8 pcre2_functions.pcre2_set_newline_8
#define pcre2_compile_8 pcre2_functions.pcre2_compile_8
#define pcre2_jit_compile_8 pcre2_functions.pcre2_jit_compile_8
#define pcre2_code_free_8 pcre2_functions.pcre2_code_free_8
#define pcre2_match_data_create_8 pcre2_functions.pcre2_match_data_create_8
#define pcre2_match_data_free_8 pcre2_functions.pcre2_match_data_free_8
#define pcre2_match_context_create_8 pcre2_functions.pcre2_match_context_create_8
#define pcre2_match_context_free_8 pcre2_functions.pcre2_match_context_free_8
#define pcre2_set_heap_limit_8 pcre2_functions.pcre2_set_heap_limit_8
#define pcre2_set_match_limit_8 pcre2_functions.pcre2_set_match_limit_8
#define pcre2_match_8 pcre2_functions.pcre2_match_8
#define pcre2_get_ovector_pointer_8 pcre2_functions.pcre2_get_ovector_pointer_8
#define pcre2_get_error_message_8 pcre2_functions.pcre2_get_error_message_8

#endif
#endif
