/* Checks of kernels that were passed, measurements of rungs: a file each, named by its key. */
#include "runtime/rung_kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/platform.h"
#include "base/text.h"
#include "runtime/buffers.h"
#include "runtime/tuned.h"

enum {
    KEPT_BYTES = sizeof((struct rung_key *)0)->text + RUNG_RESULT + 32,
    KEPT_PATH = sizeof((struct host *)0)->cache_dir + 64
};

static uint64_t call_hash(uint64_t hash, const struct call *call)
{
    const uint32_t launch = (uint32_t)call->launch;
    hash = hash_bytes(hash_text(hash, call->kernel), &launch, sizeof launch);
    for (int i = 0; i < call->n_constants; i++) {
        const uint32_t constant[] = {call->constants[i].id, call->constants[i].value};
        hash = hash_bytes(hash, constant, sizeof constant);
    }
    return hash;
}

bool rung_key_make(const struct wherry_session *s, int group, struct rung_key *out)
{
    const struct tuning_key of = device_tuning_key(s->device);
    struct text_writer t = text_begin(out->text, sizeof out->text);
    const uint32_t memory[] = {session_type(s), session_one_buffer(s), s->device_limits.quirks};
    uint64_t hash = hash_bytes(HASH_START, memory, sizeof memory);
    int call = group_first_call(s, group);
    text_add(&t, "wherry-check 2\nlibrary %s\ndevice %s\ndriver %s\nkernels %016" PRIx64 "\nkernel %s\n",
             wherry_version_string(), of.device, of.driver, of.kernels, s->calls[call].kernel);
    for (; call < s->n_calls && s->call_groups[call] == group; call++) hash = call_hash(hash, &s->calls[call]);
    text_add(&t, "calls %016" PRIx64 "\n", hash);
    return !t.cut;
}

bool rung_speed_key_make(const struct wherry_session *s, enum rung rung, struct rung_key *out)
{
    const struct tuning_key of = device_tuning_key(s->device);
    struct text_writer t = text_begin(out->text, sizeof out->text);
    text_add(&t, "wherry-speed 1\nlibrary %s\ndevice %s\ndriver %s\nkernels %016" PRIx64 "\nrung %s%s\n%s rows%s\n",
             wherry_version_string(), of.device, of.driver, of.kernels, rung_name(rung),
             session_type(s) == STORAGE_BF16 ? " bf16" : "", s->limits.tokens <= SMALL_BATCH_ROWS ? "few" : "many",
             s->boundary < s->n_calls ? ", training" : "");
    return !t.cut;
}

static void kept_path(const struct host *host, const struct rung_key *key, char path[KEPT_PATH])
{
    snprintf(path, KEPT_PATH, "%s/check-%016" PRIx64 ".txt", host->cache_dir, hash_text(HASH_START, key->text));
}

/* The whole file: the key, the result, a checksum of both. */
static size_t kept_text(const struct rung_key *key, const char *result, char text[KEPT_BYTES])
{
    struct text_writer t = text_begin(text, KEPT_BYTES);
    text_add(&t, "%s%s\n", key->text, result);
    text_add(&t, "%016" PRIx64 "\n", hash_text(HASH_START, text));
    return t.used;
}

/* The word after the key. */
static bool kept_result(const struct rung_key *key, const char *text, size_t size, char result[RUNG_RESULT])
{
    size_t from = strlen(key->text), length = 0;
    if (size < from || memcmp(text, key->text, from)) return false;
    while (from + length < size && text[from + length] != '\n') length++;
    if (!length || length >= RUNG_RESULT) return false;
    memcpy(result, text + from, length);
    result[length] = 0;
    return true;
}

bool rung_kept(const struct host *host, const struct rung_key *key, char result[RUNG_RESULT])
{
    char path[KEPT_PATH], want[KEPT_BYTES], *have = NULL;
    struct error why;
    bool exists = false;
    size_t size = 0;
    if (!host->cache_dir[0]) return false;
    kept_path(host, key, path);
    if (!cache_read(host, path, KEPT_BYTES, &exists, &have, &size, &why)) {
        host_log(host, WHERRY_LOG_WARNING, "kernels are checked again: %s", why.text);
        return false;
    }
    if (!exists) return false;
    bool same =
        kept_result(key, have, size, result) && size == kept_text(key, result, want) && !memcmp(have, want, size);
    host_free(host, have);
    if (!same) host_log(host, WHERRY_LOG_WARNING, "kernels are checked again: %s is damaged", path);
    return same;
}

void rung_keep(const struct host *host, const struct rung_key *key, const char *result)
{
    char path[KEPT_PATH], text[KEPT_BYTES];
    struct error why;
    if (!host->cache_dir[0]) return;
    kept_path(host, key, path);
    if (!cache_write(path, text, kept_text(key, result, text), &why))
        host_log(host, WHERRY_LOG_WARNING, "kernels will be checked again: %s", why.text);
}

/* ---- in a context ---- */

/* Device ids are a context's. */
static uint64_t check_id(const struct wherry_session *s, const struct rung_key *key)
{
    return hash_text(hash_text(HASH_START, s->device->info.id), key->text);
}

bool rung_recall(const struct wherry_session *s, const struct rung_key *key, struct rung_check *out)
{
    const uint64_t id = check_id(s, key);
    bool found = false;
    mutex_enter(&s->context->lock);
    for (int i = 0; i < CONTEXT_RUNG_CHECKS && !found; i++)
        if ((found = s->context->checks[i].id == id)) *out = s->context->checks[i];
    mutex_leave(&s->context->lock);
    return found;
}

void rung_remember(struct wherry_session *s, const struct rung_key *key, const char *reason)
{
    struct wherry_context *context = s->context;
    struct rung_check check = {.id = check_id(s, key), .failed = reason != NULL};
    if (reason) snprintf(check.reason, sizeof check.reason, "%s", reason);
    mutex_enter(&context->lock);
    context->checks[context->next_check++ % CONTEXT_RUNG_CHECKS] = check;
    mutex_leave(&context->lock);
}
