/* Lines that several formats have. */
#include "report/titles.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

/* "8 x 512", "3 sequences, 45 tokens". */
static void batch_title(const struct record *record, char *text, size_t size)
{
    const double *lengths = record->workload.lengths;
    size_t count = record->workload.length_count;
    bool even = count > 0;
    for (size_t n = 0; n < count; n++) even = even && lengths[n] == lengths[0];
    if (even)
        snprintf(text, size, "%zu x %.0f", count, lengths[0]);
    else
        snprintf(text, size, "%.0f sequences, %.0f tokens", record->workload.sequences, record->workload.tokens);
}

/* "20 tokens", "5, 20 and 250 tokens in turn", "8 lengths in turn, 1 to 512 tokens". */
static void requests_title(const struct record *record, char *text, size_t size)
{
    const double *lengths = record->workload.lengths;
    size_t count = record->workload.length_count;
    struct text_writer t = text_begin(text, size);
    double least = count ? lengths[0] : 0, most = least;
    for (size_t n = 0; n < count; n++) {
        least = lengths[n] < least ? lengths[n] : least;
        most = lengths[n] > most ? lengths[n] : most;
    }
    if (count > 4) text_add(&t, "%zu lengths in turn, %.0f to %.0f", count, least, most);
    for (size_t n = 0; n < count && count <= 4; n++)
        text_add(&t, "%s%.0f", !n ? "" : n + 1 < count ? ", " : " and ", lengths[n]);
    text_add(&t, " tokens%s", count > 1 && count <= 4 ? " in turn" : "");
}

void workload_title(const struct record *record, char *text, size_t size)
{
    const char *kind = record->workload.kind, *model = record->workload.model;
    double layers = record->workload.model_layers;
    char batch[80];
    if (strcmp(kind, "roof") == 0) {
        snprintf(text, size, "ceilings");
        return;
    }
    if (strcmp(kind, "latency") == 0) {
        requests_title(record, batch, sizeof batch);
        snprintf(text, size, "%.*s, requests of %s", utf8_cut(model, 60), model, batch);
        return;
    }
    batch_title(record, batch, sizeof batch);
    if (strcmp(kind, "layer") == 0)
        snprintf(text, size, "%.*s, %.0f layer%s in training, %s", utf8_cut(model, 60), model, layers,
                 layers == 1 ? "" : "s", batch);
    else if (strcmp(kind, "train") == 0)
        snprintf(text, size, "%.*s, %.0f layers, training (%.*s), %s", utf8_cut(model, 60), model, layers,
                 utf8_cut(record->workload.task, 20), record->workload.task, batch);
    else
        snprintf(text, size, "%.*s, encoding %s", utf8_cut(model, 60), model, batch);
}

void plan_title(const struct record *record, const struct record_plan *plan, char *text, size_t size)
{
    const struct record_device *device = record_device_of(record, plan->dev);
    snprintf(text, size, "%.*s, %.*s on %.*s", utf8_cut(plan->name, 40), plan->name, utf8_cut(plan->dtype, 8),
             plan->dtype, utf8_cut(device->id, 40), device->id);
}
