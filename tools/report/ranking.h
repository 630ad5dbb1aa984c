/* Devices by what they do with the same work, beside what their measured roofs alone predict of it. */
#ifndef WHERRY_TOOLS_REPORT_RANKING_H
#define WHERRY_TOOLS_REPORT_RANKING_H

#include "output.h"
#include "report/load.h"

/* A device and a workload that some record has. NAN: not measured, or unknown. */
struct ranked {
    const char *device, *api, *driver, *type; /* the device's name, its API, what its values are stored in ("f16") */
    double seconds;                           /* of a step, for the host: of its fastest plan */
    double rate;                              /* tokens per second */
    double per_gigabyte; /* tokens for each gigabyte that its memory could have moved, by its roof */
    double roof;         /* share: `predicted` over the time of the kernels */
    double per_joule;    /* tokens; of the power that was noted beside the record */
    double predicted;    /* seconds, by wherry_predict from its roof and the graph's counts alone */
};

struct ranking {
    char title[160];     /* of the workload */
    struct ranked *rows; /* the fastest first, then those that did not run it by what is predicted */
    size_t count;
};

/* One for each workload, in the order of the records; to be freed by rankings_free. */
struct ranking *rankings_of(const struct report *report, size_t *count);
void rankings_free(struct ranking *rankings, size_t count);

void ranking_text(struct output *out, const struct report *report);
void ranking_markdown(struct output *out, const struct report *report);
/* A section of the page. */
void ranking_html(struct output *out, const struct report *report);

#endif
