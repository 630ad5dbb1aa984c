/* Reads the tensors of a small file that torch.save wrote, and runs nothing. */
#include "model/torch_file.h"

#include <string.h>

#include "base/source.h"

#define DAMAGED ": the file is damaged, get it again"
#define CONVERT ": save the tensors as safetensors (in Python: safetensors.torch.save_file(torch.load(path), new_path))"

/* ---- the zip: entries that are stored as they are ---- */

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, COMMENT_MOST = 65535, ENTRIES_MOST = 64 };

struct zip {
    const unsigned char *bytes;
    size_t size;
    size_t directory, entries; /* where the directory begins */
};

struct piece {
    const unsigned char *at;
    size_t size;
};

static uint32_t little(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static bool damaged(struct error *e, const char *what) { return fail(e, WHERRY_STATUS_BAD_FORMAT, "%s" DAMAGED, what); }

static bool zip_open(const void *bytes, size_t size, struct zip *zip, struct error *e)
{
    *zip = (struct zip){.bytes = bytes, .size = size};
    for (size_t back = END_BYTES; back <= size && back <= END_BYTES + COMMENT_MOST; back++) {
        const unsigned char *end = zip->bytes + size - back;
        if (little(end, 4) != 0x06054b50) continue;
        zip->entries = little(end + 10, 2);
        zip->directory = little(end + 16, 4);
        if (zip->directory > size || zip->entries > ENTRIES_MOST) break;
        return true;
    }
    return damaged(e, "it is no zip of at most 64 entries, as torch.save writes");
}

/* The bytes of an entry of the directory. */
static bool zip_piece(const struct zip *zip, const unsigned char *entry, struct piece *out, struct error *e)
{
    uint32_t flags = little(entry + 8, 2), method = little(entry + 10, 2), size = little(entry + 20, 4),
             whole = little(entry + 24, 4);
    uint64_t at = little(entry + 42, 4);
    if (method || flags & 1 || size != whole)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "an entry of the zip is compressed or encrypted" CONVERT);
    if (at + LOCAL_BYTES > zip->size || little(zip->bytes + at, 4) != 0x04034b50)
        return damaged(e, "an entry of the zip is not where its directory says");
    at += LOCAL_BYTES + (uint64_t)little(zip->bytes + at + 26, 2) + little(zip->bytes + at + 28, 2);
    if (at > zip->size || size > zip->size - at) return damaged(e, "an entry of the zip goes beyond its end");
    *out = (struct piece){zip->bytes + at, size};
    return true;
}

/* The entry with this name below the one folder that torch.save puts all in; at NULL: there is none. */
static bool zip_find(const struct zip *zip, const char *name, size_t length, struct piece *out, struct error *e)
{
    uint64_t at = zip->directory;
    *out = (struct piece){0};
    for (size_t i = 0; i < zip->entries; i++) {
        const unsigned char *entry = zip->bytes + at;
        if (at + ENTRY_BYTES > zip->size || little(entry, 4) != 0x02014b50)
            return damaged(e, "the directory of the zip is cut");
        uint32_t named = little(entry + 28, 2);
        at += ENTRY_BYTES + (uint64_t)named + little(entry + 30, 2) + little(entry + 32, 2);
        if (at > zip->size) return damaged(e, "the directory of the zip is cut");
        const char *path = (const char *)entry + ENTRY_BYTES, *slash = memchr(path, '/', named);
        if (!slash || named - (size_t)(slash + 1 - path) != length || memcmp(slash + 1, name, length)) continue;
        return zip_piece(zip, entry, out, e);
    }
    return true;
}

/* ---- the pickle's machine ---- */

enum { STACK_MOST = 64, MEMO_MOST = 256, VALUES_MOST = 1024, ITEMS_MOST = 1024, PICKLE_MOST = 1 << 16 };

enum value_kind {
    VALUE_MARK,
    VALUE_NUMBER,
    VALUE_TEXT,
    VALUE_NAME,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_STORAGE,
    VALUE_TENSOR
};
enum known_name { NAME_DICT, NAME_TENSOR, NAME_F32, NAME_F16, NAME_BF16 };

struct value {
    enum value_kind kind;
    uint64_t number;      /* of a text and a tuple: bytes, items; of a storage: its elements; of a tensor: its index */
    const char *text;     /* of a text, and the key of a storage */
    size_t text_bytes;    /* of that key */
    uint32_t items;       /* a tuple's first */
    enum known_name name; /* of a storage: its type's */
};

struct machine {
    const struct zip *zip;
    const unsigned char *at, *end;
    struct value values[VALUES_MOST];
    uint32_t items[ITEMS_MOST], stack[STACK_MOST], memo[MEMO_MOST];
    uint32_t n_values, n_items, depth, remembered; /* remembered: of the memo, those below it are set or 0 */
    struct torch_tensor made[TORCH_TENSORS_MOST];  /* by its index; named when it is put into a dictionary */
    uint32_t dict_of[TORCH_TENSORS_MOST];          /* value that it was put into; 0: none */
    uint32_t n_made;
    struct error *e;
};

static bool unsupported(struct machine *m, const char *what)
{
    return fail(m->e, WHERRY_STATUS_UNSUPPORTED, "its pickle %s, which is not read" CONVERT, what);
}

/* `bytes` more of the pickle, NULL: there are not as many. */
static const unsigned char *take(struct machine *m, uint64_t bytes)
{
    const unsigned char *at = m->at;
    if (bytes > (uint64_t)(m->end - at)) {
        damaged(m->e, "its pickle is cut");
        return NULL;
    }
    m->at += bytes;
    return at;
}

static bool push(struct machine *m, struct value value)
{
    if (m->n_values == VALUES_MOST || m->depth == STACK_MOST)
        return unsupported(m, "has more values than a few tensors");
    m->values[m->n_values] = value;
    m->stack[m->depth++] = m->n_values++;
    return true;
}

/* The value on top, of this kind; NULL: it is another. */
static struct value *pop(struct machine *m, enum value_kind kind)
{
    struct value *top = m->depth ? &m->values[m->stack[m->depth - 1]] : NULL;
    if (!top || top->kind != kind) {
        damaged(m->e, "its pickle takes a value that is not there");
        return NULL;
    }
    m->depth--;
    return top;
}

static bool push_number(struct machine *m, int bytes)
{
    const unsigned char *at = take(m, (uint64_t)bytes);
    return at && push(m, (struct value){.kind = VALUE_NUMBER, .number = little(at, bytes)});
}

static bool push_text(struct machine *m)
{
    const unsigned char *size = take(m, 4), *at = size ? take(m, little(size, 4)) : NULL;
    return at && push(m, (struct value){.kind = VALUE_TEXT, .text = (const char *)at, .number = little(size, 4)});
}

/* "module\nname\n" */
static bool push_name(struct machine *m)
{
    static const char *const names[] = {[NAME_DICT] = "collections\nOrderedDict\n",
                                        [NAME_TENSOR] = "torch._utils\n_rebuild_tensor_v2\n",
                                        [NAME_F32] = "torch\nFloatStorage\n",
                                        [NAME_F16] = "torch\nHalfStorage\n",
                                        [NAME_BF16] = "torch\nBFloat16Storage\n"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (length > (size_t)(m->end - m->at) || memcmp(m->at, names[i], length)) continue;
        m->at += length;
        return push(m, (struct value){.kind = VALUE_NAME, .name = (enum known_name)i});
    }
    char shown[64];
    size_t n = 0;
    for (int lines = 0; n + 1 < sizeof shown && m->at + n < m->end && lines < 2; n++) {
        unsigned char c = m->at[n];
        lines += c == '\n';
        shown[n] = c == '\n' ? '.' : (char)(c > ' ' && c < 127 ? c : '?');
    }
    shown[n ? n - 1 : 0] = 0;
    return fail(m->e, WHERRY_STATUS_UNSUPPORTED,
                "its pickle calls %s; only tensors are read: do not load this file unless you trust its maker", shown);
}

/* A tuple of the last `count` values, whatever they are. */
static bool push_tuple(struct machine *m, uint32_t count)
{
    if (count > m->depth) return damaged(m->e, "its pickle takes a value that is not there");
    if (count > ITEMS_MOST - m->n_items) return unsupported(m, "has more values than a few tensors");
    struct value tuple = {.kind = VALUE_TUPLE, .number = count, .items = m->n_items};
    m->depth -= count;
    memcpy(&m->items[m->n_items], &m->stack[m->depth], count * sizeof *m->items);
    m->n_items += count;
    return push(m, tuple);
}

/* How many values lie above the last mark, which is taken away once they are: UINT32_MAX: there is none. */
static uint32_t above_mark(struct machine *m)
{
    for (uint32_t n = 0; n < m->depth; n++)
        if (m->values[m->stack[m->depth - 1 - n]].kind == VALUE_MARK) return n;
    damaged(m->e, "its pickle takes a value that is not there");
    return UINT32_MAX;
}

static bool push_tuple_to_mark(struct machine *m)
{
    uint32_t count = above_mark(m);
    if (count == UINT32_MAX || !push_tuple(m, count)) return false;
    m->stack[m->depth - 2] = m->stack[m->depth - 1];
    m->depth--;
    return true;
}

/* Item `i` of a tuple, of this kind; NULL: it is another, or there is none. */
static const struct value *item(struct machine *m, const struct value *tuple, uint64_t i, enum value_kind kind)
{
    const struct value *value = i < tuple->number ? &m->values[m->items[tuple->items + i]] : NULL;
    if (value && value->kind == kind) return value;
    unsupported(m, "has something else than tensors of numbers");
    return NULL;
}

/* ("storage", type, key, place, elements) */
static bool push_storage(struct machine *m)
{
    const struct value *tuple = pop(m, VALUE_TUPLE), *word = tuple ? item(m, tuple, 0, VALUE_TEXT) : NULL,
                       *type = word ? item(m, tuple, 1, VALUE_NAME) : NULL,
                       *key = type ? item(m, tuple, 2, VALUE_TEXT) : NULL,
                       *elements = key ? item(m, tuple, 4, VALUE_NUMBER) : NULL;
    if (!elements) return false;
    if (word->number != 7 || memcmp(word->text, "storage", 7) || type->name < NAME_F32)
        return unsupported(m, "keeps something else than a tensor's storage");
    return push(m, (struct value){.kind = VALUE_STORAGE,
                                  .name = type->name,
                                  .text = key->text,
                                  .text_bytes = (size_t)key->number,
                                  .number = elements->number});
}

/* The bytes of a storage, which has as many as its elements take. */
static bool storage_bytes(struct machine *m, const struct value *storage, struct piece *out)
{
    char name[32] = "data/";
    if (storage->text_bytes > sizeof name - 5) return damaged(m->e, "a tensor's storage has a long name");
    memcpy(name + 5, storage->text, storage->text_bytes);
    TRY(zip_find(m->zip, name, 5 + storage->text_bytes, out, m->e));
    if (out->at && out->size == storage->number * (storage->name == NAME_F32 ? 4 : 2)) return true;
    return damaged(m->e, "a tensor's storage is missing, or of another size than its pickle says");
}

/* (storage, first element, shape, strides, ...) */
static bool push_tensor(struct machine *m, const struct value *tuple)
{
    const struct value *storage = item(m, tuple, 0, VALUE_STORAGE),
                       *first = storage ? item(m, tuple, 1, VALUE_NUMBER) : NULL,
                       *shape = first ? item(m, tuple, 2, VALUE_TUPLE) : NULL,
                       *strides = shape ? item(m, tuple, 3, VALUE_TUPLE) : NULL;
    struct piece bytes;
    if (!strides) return false;
    if (m->n_made == TORCH_TENSORS_MOST) return unsupported(m, "has more than 8 tensors");
    if (shape->number < 1 || shape->number > TORCH_RANK_MOST || strides->number != shape->number)
        return unsupported(m, "has a tensor that is neither a matrix nor a vector");
    struct torch_tensor t = {.rank = (int)shape->number};
    uint64_t elements = 1;
    for (int i = t.rank - 1; i >= 0; i--) {
        const struct value *size = item(m, shape, (uint64_t)i, VALUE_NUMBER),
                           *stride = size ? item(m, strides, (uint64_t)i, VALUE_NUMBER) : NULL;
        if (!stride) return false;
        if (stride->number != elements && size->number != 1)
            return unsupported(m, "has a tensor that does not lie row after row");
        t.shape[i] = size->number;
        elements *= size->number; /* two factors of 32 bits */
    }
    if (!elements || elements > storage->number || first->number > storage->number - elements)
        return damaged(m->e, "a tensor goes beyond its storage");
    TRY(storage_bytes(m, storage, &bytes));
    t.part.type = storage->name == NAME_F32   ? WEIGHT_TYPE_F32
                  : storage->name == NAME_F16 ? WEIGHT_TYPE_F16
                                              : WEIGHT_TYPE_BF16;
    t.part.memory = bytes.at + first->number * (storage->name == NAME_F32 ? 4 : 2);
    t.part.elements = elements;
    m->made[m->n_made] = t;
    return push(m, (struct value){.kind = VALUE_TENSOR, .number = m->n_made++});
}

static bool reduce(struct machine *m)
{
    const struct value *arguments = pop(m, VALUE_TUPLE), *name = arguments ? pop(m, VALUE_NAME) : NULL;
    if (!name) return false;
    if (name->name == NAME_DICT && !arguments->number) return push(m, (struct value){.kind = VALUE_DICT});
    if (name->name == NAME_TENSOR) return push_tensor(m, arguments);
    return unsupported(m, "makes something else than tensors and an empty dictionary");
}

/* Keys and values, in turn, above a dictionary; with `mark`, above a mark above that. */
static bool set_items(struct machine *m, uint32_t count, bool mark)
{
    uint32_t below = count + mark + 1;
    if (count == UINT32_MAX || m->depth < below || count % 2) return damaged(m->e, "its pickle fills no dictionary");
    uint32_t dict = m->stack[m->depth - below];
    if (m->values[dict].kind != VALUE_DICT) return damaged(m->e, "its pickle fills no dictionary");
    for (uint32_t i = 0; i < count; i += 2) {
        const struct value *key = &m->values[m->stack[m->depth - count + i]],
                           *value = &m->values[m->stack[m->depth - count + i + 1]];
        if (value->kind != VALUE_TENSOR) continue; /* what it says of the module */
        if (key->kind != VALUE_TEXT) return unsupported(m, "names a tensor by something else than a text");
        m->made[value->number].name = key->text;
        m->made[value->number].name_bytes = (size_t)key->number;
        m->dict_of[value->number] = dict;
    }
    m->depth -= count + mark;
    return true;
}

static bool memo_put(struct machine *m, uint64_t at)
{
    if (!m->depth || at >= MEMO_MOST) return unsupported(m, "remembers more values than a few tensors have");
    while (m->remembered <= at) m->memo[m->remembered++] = VALUES_MOST;
    m->memo[at] = m->stack[m->depth - 1];
    return true;
}

static bool memo_get(struct machine *m, uint64_t at)
{
    if (at >= m->remembered || m->memo[at] == VALUES_MOST || m->depth == STACK_MOST)
        return damaged(m->e, "its pickle asks for a value that it did not remember");
    m->stack[m->depth++] = m->memo[at];
    return true;
}

/* One instruction. */
static bool step(struct machine *m, unsigned char code)
{
    const unsigned char *at;
    switch (code) {
    case 0x80: /* PROTO */
        if (!(at = take(m, 1))) return false;
        return *at >= 2 && *at <= 4 ? true : unsupported(m, "is of another protocol than 2 to 4");
    case 'c': /* GLOBAL */
        return push_name(m);
    case 'q': /* BINPUT */
        return (at = take(m, 1)) && memo_put(m, *at);
    case 'r': /* LONG_BINPUT */
        return (at = take(m, 4)) && memo_put(m, little(at, 4));
    case 'h': /* BINGET */
        return (at = take(m, 1)) && memo_get(m, *at);
    case 'j': /* LONG_BINGET */
        return (at = take(m, 4)) && memo_get(m, little(at, 4));
    case '(': /* MARK */
        return push(m, (struct value){.kind = VALUE_MARK});
    case 'X': /* BINUNICODE */
        return push_text(m);
    case 'K': /* BININT1 */
        return push_number(m, 1);
    case 'M': /* BININT2 */
        return push_number(m, 2);
    case 'J': /* BININT */
        return push_number(m, 4);
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push(m, (struct value){.kind = VALUE_NUMBER, .number = code == 0x88});
    case ')': /* EMPTY_TUPLE */
        return push_tuple(m, 0);
    case 0x85: /* TUPLE1, TUPLE2, TUPLE3 */
    case 0x86:
    case 0x87:
        return push_tuple(m, code - 0x84u);
    case 't': /* TUPLE */
        return push_tuple_to_mark(m);
    case '}': /* EMPTY_DICT */
        return push(m, (struct value){.kind = VALUE_DICT});
    case 'Q': /* BINPERSID */
        return push_storage(m);
    case 'R': /* REDUCE */
        return reduce(m);
    case 's': /* SETITEM */
        return set_items(m, 2, false);
    case 'u': /* SETITEMS */
        return set_items(m, above_mark(m), true);
    case 'b': /* BUILD: what is said of a dictionary beside its entries */
        return pop(m, VALUE_DICT) != NULL;
    default:
        return fail(m->e, WHERRY_STATUS_UNSUPPORTED, "its pickle has the instruction 0x%02x, which is not read" CONVERT,
                    code);
    }
}

/* Up to STOP; the tensors of the dictionary that is left then. */
static bool run(struct machine *m, struct torch_file *out)
{
    const unsigned char *code;
    while ((code = take(m, 1)) && *code != '.') TRY(step(m, *code));
    if (!code) return false;
    uint32_t dict = m->depth == 1 ? m->stack[0] : VALUES_MOST;
    if (dict == VALUES_MOST || m->values[dict].kind != VALUE_DICT)
        return unsupported(m, "makes something else than a dictionary of tensors");
    for (uint32_t i = 0; i < m->n_made; i++)
        if (m->made[i].name && m->dict_of[i] == dict) out->tensors[out->count++] = m->made[i];
    return out->count || unsupported(m, "has no tensors by name");
}

/* ---- both ---- */

static bool parse(const void *bytes, size_t size, struct machine *m, struct torch_file *out, struct error *e)
{
    struct zip zip;
    struct piece pickle, order;
    TRY(zip_open(bytes, size, &zip, e));
    TRY(zip_find(&zip, "data.pkl", 8, &pickle, e) && zip_find(&zip, "byteorder", 9, &order, e));
    if (!pickle.at) return damaged(e, "it has no data.pkl");
    if (pickle.size > PICKLE_MOST) return fail(e, WHERRY_STATUS_UNSUPPORTED, "its pickle is long" CONVERT);
    if (order.at && (order.size != 6 || memcmp(order.at, "little", 6)))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "its numbers are not little-endian" CONVERT);
    m->zip = &zip;
    m->at = pickle.at;
    m->end = pickle.at + pickle.size;
    m->e = e;
    return run(m, out);
}

bool torch_file_parse(const void *bytes, size_t size, struct torch_file *out, struct error *e)
{
    struct machine machine;
    struct torch_file file = {0};
    memset(&machine, 0, sizeof machine);
    TRY(parse(bytes, size, &machine, &file, e));
    *out = file;
    return true;
}

/* One that is a block of the application's is parsed where it lies. */
static bool open_block(const struct host *host, const char *path, struct torch_file *out, bool *block, struct error *e)
{
    struct source_file file;
    TRY(source_open(host, path, &file, e));
    *block = file.data && file.bytes <= TORCH_FILE_MOST;
    bool ok = !*block || torch_file_parse(file.data, (size_t)file.bytes, out, e) || fail_in(e, path);
    source_close(host, &file);
    return ok;
}

bool torch_file_open(const struct host *host, const char *path, struct torch_file *out, struct error *e)
{
    char *bytes;
    size_t size;
    bool block = false;
    if (host->files) TRY(open_block(host, path, out, &block, e));
    if (block) return true;
    TRY(source_read_all(host, path, TORCH_FILE_MOST, &bytes, &size, e));
    if (!torch_file_parse(bytes, size, out, e)) {
        fail_in(e, path);
        host_free(host, bytes);
        return false;
    }
    out->bytes = bytes;
    return true;
}

void torch_file_close(const struct host *host, struct torch_file *file)
{
    host_free(host, file->bytes);
    memset(file, 0, sizeof *file);
}

const struct torch_tensor *torch_file_find(const struct torch_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (file->tensors[i].name_bytes == strlen(name) && !memcmp(file->tensors[i].name, name, strlen(name)))
            return &file->tensors[i];
    return NULL;
}
