/* Tokenizer files, and texts for the tokenizer that they give. */
#include "mutate.h"

#include "tokens.h"

static const char *const names[] = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"};
enum { NAMES = sizeof names / sizeof *names, TEXT = NAMES, PAIR, PARTS };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_part(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part parts[PARTS];
    fuzz_split(data, size, parts, PARTS);
    fuzz_write_parts(parts, names, NAMES);
    tokens_check_folder(parts[TEXT], (const char *)parts[PAIR].data, parts[PAIR].size);
    return 0;
}
