/* The fields of a record, each once: its name, what it has to be, and where the structures of report/model.h have it.
 */
#ifndef WHERRY_TOOLS_REPORT_TABLES_H
#define WHERRY_TOOLS_REPORT_TABLES_H

#include "report/rules.h"

/* Of struct record, record_device, ... Lists in them are tables of their own; so are record_mode's derived numbers. */
extern const struct fields record_fields, device_fields, ceiling_fields, point_fields, plan_fields, class_fields,
    step_fields, op_fields, kernel_fields, derived_fields, warning_fields, load_fields, idle_fields;

#endif
