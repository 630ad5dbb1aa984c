/* write_page <page.html> <record.json>...: the page of these records, tunings or layouts, for tests/page. A file may
 * also hold an array of them. */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "report/page.h"

int main(int argc, char **argv)
{
    json_t *records = need(json_array());
    for (int n = 2; n < argc; n++) {
        json_error_t error;
        json_t *file = json_load_file(argv[n], 0, &error);
        if (!file) return complain(EXIT_FAILURE, "%s: line %d: %s", argv[n], error.line, error.text);
        if (json_is_array(file))
            json_array_extend(records, file);
        else
            json_array_append(records, file);
        json_decref(file);
    }
    struct output out;
    if (argc < 3 || !output_open(&out, argv[1])) return EXIT_FAILURE;
    /* As tuning_is and layouts_is, without the files that judge records. */
    const json_t *first = json_array_get(records, 0), *schema = json_object_get(first, "schema");
    const bool layouts = schema && !strcmp(json_string_value(schema), "layouts-1");
    const bool tunings = !schema && json_object_get(first, "works");
    page_write(&out, records, layouts ? PAGE_LAYOUTS : tunings ? PAGE_TUNINGS : PAGE_RECORDS, "");
    json_decref(records);
    return output_close(&out, true) ? EXIT_SUCCESS : EXIT_FAILURE;
}
