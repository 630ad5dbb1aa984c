/* `wherry analyze --device-spec list`: what data sheets say of the GPUs that it knows by name. */
#include "device_spec.h"
#include "session.h"

static void print_sheets(struct output *out)
{
    const wherry_device_spec *spec;
    struct table table = {.columns = "<name|>GB/s|>f32|>f16|>products|>memory|>ridge"};
    for (size_t n = 0; (spec = wherry_device_spec_at(n)) != NULL; n++) {
        table_cell(&table, "%s", spec->name);
        table_cell(&table, "%.4g", spec->bandwidth / 1e9);
        table_cell(&table, "%.4g", spec->f32_flops / 1e12);
        table_cell(&table, "%.4g", spec->f16_flops / 1e12);
        table_cell(&table, "%.4g", spec->matrix_flops / 1e12);
        if (spec->memory_bytes)
            table_cell(&table, "%.0f GB", (double)spec->memory_bytes / 1e9);
        else
            table_cell(&table, "system's");
        table_cell(&table, "%.1f", wherry_device_spec_ridge(spec, WHERRY_CLASS_CONTRACTION, WHERRY_DTYPE_F16));
    }
    table_print(&table, out);
    output_text(out, "\nPeaks by data sheets, dense, in Tflop/s; f16 without matrix units, products in\n"
                     "f16 with them, where there are some. ridge: flop per byte of products. --json\n"
                     "has the source of each; --device-spec NAME predicts with them.\n");
}

static json_t *sheets_json(void)
{
    json_t *list = need(json_array());
    const wherry_device_spec *spec;
    for (size_t n = 0; (spec = wherry_device_spec_at(n)) != NULL; n++)
        json_array_append_new(
            list, need(json_pack(
                      "{s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:s}", "name", spec->name, "bandwidth", spec->bandwidth,
                      "f32_flops", spec->f32_flops, "f16_flops", spec->f16_flops, "matrix_flops", spec->matrix_flops,
                      "memory_bytes", spec->memory_bytes ? json_integer((json_int_t)spec->memory_bytes) : json_null(),
                      "cache_bytes", spec->cache_bytes ? json_integer((json_int_t)spec->cache_bytes) : json_null(),
                      "source", spec->source)));
    return list;
}

int device_sheets_report(const struct options *options)
{
    struct output out;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (options->json)
        output_json(&out, sheets_json());
    else
        print_sheets(&out);
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}
