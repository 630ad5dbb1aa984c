/* What tokens are called: their characters, and of those that spell bytes, the text that these are. */
#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer_parts.h"

struct naming {
    const struct host *host;
    wherry_token_callback callback;
    void *user;
    char *text, *bytes; /* [room]: what is given, as UTF-8; the bytes that a token spells */
    size_t room;
    bool byte_level;
    struct error *e;
    bool stopped;
};

/* No character becomes more than four bytes, and no byte more than the three of U+FFFD. */
static bool make_room(struct naming *n, size_t length)
{
    size_t room = 4 * length;
    if (room <= n->room) return true;
    char *text = host_grow(n->host, n->text, n->room, 2 * room, 1, n->e);
    if (text) n->text = text;
    char *bytes = text ? host_grow(n->host, n->bytes, n->room, 2 * room, 1, n->e) : NULL;
    if (bytes) n->bytes = bytes;
    if (bytes) n->room = 2 * room;
    return bytes;
}

/* Half a character becomes U+FFFD, as it does where texts are read. */
static size_t write_text(const char *bytes, size_t count, char *to)
{
    size_t written = 0;
    uint32_t c;
    for (size_t i = 0; i < count;) {
        i += utf8_decode(bytes + i, count - i, &c, NULL);
        written += utf8_write(c, to + written);
    }
    return written;
}

static bool name_token(const uint32_t *text, size_t length, int32_t id, void *user)
{
    struct naming *n = user;
    size_t bytes = 0;
    TRY(make_room(n, length));
    if (n->byte_level && byte_level_spells(text, length, n->bytes))
        bytes = write_text(n->bytes, length, n->text);
    else
        for (size_t i = 0; i < length; i++) bytes += utf8_write(text[i], n->text + bytes);
    n->stopped = !n->callback(id, n->text, bytes, n->user);
    return !n->stopped;
}

static bool is_byte_level(const struct tokenizer *t)
{
    for (size_t i = 0; i < t->pre_tokenizers.count; i++)
        if (t->pre_tokenizers.list[i].kind == &pre_tokenizer_byte_level) return true;
    for (size_t i = 0; i < t->normalizers.count; i++)
        if (t->normalizers.list[i].kind == &normalizer_byte_level) return true;
    return false;
}

bool tokenizer_tokens(const struct host *host, const struct tokenizer *t, wherry_token_callback callback, void *user,
                      struct error *e)
{
    struct naming n = {.host = host, .callback = callback, .user = user, .byte_level = is_byte_level(t), .e = e};
    bool ok = t->model.kind->each(t->model.data, host, name_token, &n, e) || n.stopped;
    host_free(host, n.text);
    host_free(host, n.bytes);
    return ok;
}
