/* What a session takes of an earlier tuning. */
#ifndef WHERRY_RUNTIME_TUNED_H
#define WHERRY_RUNTIME_TUNED_H

#include "runtime/session.h"

struct tuning_key device_tuning_key(const struct wherry_device *device);
/* What the choice of orders depends on, as text: equal texts, the same choice. `kernels`: as in wherry_session_desc,
 * one that there is. */
bool session_kind(const struct wherry_session *s, const struct graph_options *options, const char *kernels,
                  char text[LAYOUTS_TEXT], struct error *e);
/* Takes what was tuned on this device: `path` as in wherry_session_desc. A file that can't be used becomes a note. */
bool session_tuning(struct wherry_session *s, const char *path, struct error *e);

#endif
