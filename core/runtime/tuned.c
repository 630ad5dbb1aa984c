/* What a session takes of an earlier tuning. */
#include <string.h>

#include "runtime/session.h"

struct tuning_key session_tuning_key(const struct wherry_session *s)
{
    const wherry_device_info *info = &s->device->info;
    const struct backend *backend = s->device->backend;
    return tuning_key(backend->name, info->uuid, info->name, info->driver, backend->kernels(),
                      s->context->host.unoptimized);
}

bool session_tuning(struct wherry_session *s, const char *path, struct error *e)
{
    const struct host *host = &s->context->host;
    struct tuning_file file;
    char usual[TUNING_PATH];
    if (!s->device->backend->kernels() || (path && !*path) || (!path && !host->cache_dir[0])) return true;
    const struct tuning_key key = session_tuning_key(s);
    tuning_path(host->cache_dir, "tuned", &key, usual);
    if (!path) path = usual;
    TRY(tuning_load(host, path, &key, &s->tuning, &file, e));
    if (file.refused[0]) return session_note(s, e, "tuned sizes in %.200s are not used: %.280s", path, file.refused);
    if (file.damaged)
        return session_note(s, e, "of the tuned sizes in %.200s %u are not used: their lines are damaged", path,
                            file.damaged);
    if (path != usual && !file.there)
        return session_note(s, e, "tuned sizes in %.200s are not used: there is no such file", path);
    return true;
}
