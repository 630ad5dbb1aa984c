/* Lines that several formats have. */
#include "report/titles.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "report/fields.h"

void batch_title(const json_t *record, char *text, size_t size)
{
    const json_t *workload = json_object_get(record, "workload"), *length;
    const json_t *lengths = json_object_get(workload, "lengths"), *first = json_array_get(lengths, 0);
    bool even = first != NULL;
    size_t n;
    json_array_foreach(lengths, n, length) even = even && json_equal(length, first);
    if (even)
        snprintf(text, size, "%zu x %.0f", json_array_size(lengths), json_number_value(first));
    else
        snprintf(text, size, "%.0f sequences, %.0f tokens", field_number(workload, "sequences"),
                 field_number(workload, "tokens"));
}

void workload_title(const json_t *record, char *text, size_t size)
{
    const json_t *workload = json_object_get(record, "workload");
    const char *kind = field_text(workload, "kind");
    char batch[80];
    if (strcmp(kind, "roof") == 0) {
        snprintf(text, size, "ceilings");
        return;
    }
    const char *model = field_text(workload, "model.source");
    batch_title(record, batch, sizeof batch);
    double layers = field_number(workload, "model.layers");
    if (strcmp(kind, "layer") == 0)
        snprintf(text, size, "%.*s, %.0f layer%s in training, %s", utf8_cut(model, 60), model, layers,
                 layers == 1 ? "" : "s", batch);
    else
        snprintf(text, size, "%.*s, encoding %s", utf8_cut(model, 60), model, batch);
}

void plan_title(const json_t *record, const json_t *plan, char *text, size_t size)
{
    const char *name = field_text(plan, "plan"), *dtype = field_text(plan, "dtype");
    const char *device = field_text(record_device_of(record, plan), "id");
    snprintf(text, size, "%.*s, %.*s on %.*s", utf8_cut(name, 40), name, utf8_cut(dtype, 8), dtype,
             utf8_cut(device, 40), device);
}
