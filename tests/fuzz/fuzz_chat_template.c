/* Chat templates of models that are asked about pairs. */
#include "fuzz.h"

#include "model/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part part = {data, size};
    struct pair_frame frame;
    struct error e = {0};
    const char *why;
    long before = fuzz_blocks;
    char *text = fuzz_text(part);
    bool ok = chat_template_read(&fuzz_host, text, &frame, &why, &e);
    CHECK(ok == !why && !e.status);
    for (int i = 0; i < FRAME_PARTS; i++) CHECK(ok == (frame.parts[i] != NULL));
    if (ok) chat_template_has_roles(text);
    pair_frame_free(&fuzz_host, &frame);
    free(text);
    CHECK(fuzz_blocks == before);
    return 0;
}
