/* Lines that several formats have. */
#ifndef WHERRY_TOOLS_REPORT_TITLES_H
#define WHERRY_TOOLS_REPORT_TITLES_H

#include "report/model.h"

/* "flash, f16 on vulkan:0" */
void plan_title(const struct record *record, const struct record_plan *plan, char *text, size_t size);
/* "bert-large, 1 layer in training, 8 x 512, f16"; "ceilings" of a record without plans. */
void workload_title(const struct record *record, char *text, size_t size);

#endif
