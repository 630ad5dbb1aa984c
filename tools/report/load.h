/* Reads files of records and tunings. */
#ifndef WHERRY_TOOLS_REPORT_LOAD_H
#define WHERRY_TOOLS_REPORT_LOAD_H

#include "report/curves.h"
#include "report/model.h"

/* What is shown together: records, or tunings, or measured layouts, never two of these. All zero: nothing. */
struct report {
    json_t *values;         /* an array */
    struct record *records; /* of each value; of the others none */
    size_t count;
    bool tunings, layouts;
    struct curves curves; /* logs of trainings, which go with records, or alone */
    const char *first;    /* the file that said so */
    bool merged;          /* a folder was among what was loaded: devices are ranked (report/ranking.h) */
    struct origin {
        char *file;
        double watts; /* mean power of the device while it was measured; NAN: unknown */
    } * origins;      /* of each record */
};

/* Adds the values of a file ("-": standard input), one or an array of them, each with all that its schema asks for:
 * records, or where that is said tunings (report/tuning.h) or measured layouts (report/layouts.h), if the first is one.
 * False, having complained, where it can't be read or is something else than what is there. */
bool report_load(struct report *report, const char *path, bool or_others);
/* Adds the records among the *.json of a folder, in the order of their names. Tunings and measured layouts there are
 * left alone, other JSON is named as passed over, and so is a record that is there already, from whatever file. False,
 * having complained, where the folder or one of its files can't be read, where a record is not what its schema asks
 * for, or where there is none. */
bool report_load_folder(struct report *report, const char *path);
/* Of what was loaded; it is nothing then. */
void report_close(struct report *report);

#endif
