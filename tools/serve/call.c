/* One request on its way. */
#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "complain.h"

struct call *call_create(void)
{
    struct call *call = need(calloc(1, sizeof *call));
    call->socket = -1;
    call->type = "application/json";
    call->status = 200;
    call->normalize = call->add_special = call->skip_special = true;
    return call;
}

void call_free(struct call *call)
{
    if (!call) return;
    for (uint32_t i = 0; i < call->count; i++) {
        free(call->items[i].ids);
        free(call->items[i].types);
        free(call->items[i].values);
    }
    free(call->items);
    json_decref(call->json);
    bytes_free(&call->body);
    bytes_free(&call->answer);
    free(call);
}

static const char *const type_names[] = {"Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"};

void call_fail(struct call *call, unsigned status, enum error_type type, enum failure failure, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (atomic_exchange(&call->failed, true)) return;
    va_start(arguments, format);
    utf8_format(text, sizeof text, format, arguments);
    va_end(arguments);
    struct bytes *out = &call->answer;
    out->used = 0;
    bytes_text(out, call->dialect == DIALECT_TEI ? "{\"error\":" : "{\"message\":");
    bytes_name(out, text);
    if (call->dialect == DIALECT_TEI)
        bytes_format(out, ",\"error_type\":\"%s\"}", type_names[type]);
    else
        bytes_format(out, ",\"code\":%u,\"type\":\"%s\"}", status, type_names[type]);
    call->status = status;
    call->failure = failure;
    call->type = "application/json";
}

void call_items(struct call *call, uint32_t count)
{
    call->items = need(calloc(count ? count : 1, sizeof *call->items));
    call->count = count;
    for (uint32_t i = 0; i < count; i++) call->items[i].call = call;
}

void call_item_done(struct item *item)
{
    struct call *call = item->call;
    if (atomic_fetch_sub(&call->remaining, 1) == 1) call->done(call, call->user);
}
