/* Lines that several formats have. */
#ifndef WHERRY_TOOLS_REPORT_TITLES_H
#define WHERRY_TOOLS_REPORT_TITLES_H

#include <jansson.h>
#include <stddef.h>

/* "flash, f16 on vulkan:0" */
void plan_title(const json_t *record, const json_t *plan, char *text, size_t size);
/* "bert-large, 1 layer in training, 8 x 512, f16"; "ceilings" of a record without plans. */
void workload_title(const json_t *record, char *text, size_t size);
/* "8 x 512", "3 sequences, 45 tokens". */
void batch_title(const json_t *record, char *text, size_t size);

#endif
