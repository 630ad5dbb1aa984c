/* write_page <page.html> <record.json>...: the page of these records, or tunings, for tests/page. A file may also hold
 * an array of them. */
#include <stdlib.h>

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
    /* As tuning_is, without the files that judge records. */
    page_write(&out, records, json_object_get(json_array_get(records, 0), "works") != NULL, "");
    json_decref(records);
    return output_close(&out, true) ? EXIT_SUCCESS : EXIT_FAILURE;
}
