/* Records, tunings or layouts as one HTML page: page.html, tuning.html or layouts.html of tools/report/page, which the
 * build has put together, with the data inside. */
#include "report/page.h"

#include <string.h>

/* The input is only read. */
#define ZLIB_CONST
#include <zlib.h>

extern const unsigned char report_page[], tuning_page[], layouts_page[], curves_page[]; /* end with a 0 */

/* Where the records go, and before them lines and a section. */
static const char marker[] = "<!--records-->", lines_marker[] = "<!--lines-->", section_marker[] = "<!--section-->\n";

/* A record's text on its way through gzip and base64. JSON of figures shrinks to a quarter so, and base64 has no "<",
 * the one character that could end a <script>. */
struct packer {
    z_stream zip;
    struct output *out;
    unsigned char packed[3 * 4096]; /* threes become fours: a full buffer needs no padding */
};

static void write_base64(struct output *out, const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t n = 0; n < size; n += 3) {
        size_t left = size - n;
        unsigned bits = (unsigned)data[n] << 16;
        if (left > 1) bits |= (unsigned)data[n + 1] << 8;
        if (left > 2) bits |= data[n + 2];
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                        left > 2 ? digits[bits & 63] : '='};
        output_write(out, four, sizeof four);
    }
}

/* Compresses what is put in; on Z_FINISH all that is left, too. */
static void pack(struct packer *packer, const char *data, size_t size, int flush)
{
    z_stream *zip = &packer->zip;
    zip->next_in = (const Bytef *)data;
    zip->avail_in = (uInt)size; /* never a whole record: jansson comes with pieces */
    for (bool full = true; full;) {
        deflate(zip, flush); /* can't fail: its state is sound, and there is room */
        full = zip->avail_out == 0;
        if (!full && flush != Z_FINISH) break;
        write_base64(packer->out, packer->packed, sizeof packer->packed - zip->avail_out);
        zip->next_out = packer->packed;
        zip->avail_out = sizeof packer->packed;
    }
}

static int pack_piece(const char *data, size_t size, void *packer)
{
    pack(packer, data, size, Z_NO_FLUSH);
    return 0;
}

static void write_packed(struct output *out, json_t *record)
{
    struct packer packer = {.out = out};
    packer.zip.next_out = packer.packed;
    packer.zip.avail_out = sizeof packer.packed;
    enum {
        GZIP = 16 + MAX_WBITS
    }; /* zlib's way to ask for gzip's header; without a time, so that pages can be compared */
    if (deflateInit2(&packer.zip, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        need(NULL);
    /* 17 digits: the page's numbers are the file's. */
    if (json_dump_callback(record, pack_piece, &packer, JSON_COMPACT | JSON_REAL_PRECISION(17))) need(NULL);
    pack(&packer, NULL, 0, Z_FINISH);
    deflateEnd(&packer.zip);
}

/* A paragraph for each, in which nothing is markup. */
static void write_lines(struct output *out, const char *lines)
{
    for (const char *at = lines; *at; at++) {
        if (at == lines || at[-1] == '\n') output_text(out, "<p class=\"versus\">");
        if (*at == '\n')
            output_text(out, "</p>\n");
        else if (strchr("<>&\"", *at))
            output_format(out, "&#%d;", *at);
        else
            output_write(out, at, 1);
    }
}

void page_write(struct output *out, json_t *records, enum page_kind kind, const char *lines)
{
    page_write_with(out, records, kind, lines, (struct page_section){NULL, NULL});
}

void page_write_with(struct output *out, json_t *records, enum page_kind kind, const char *lines,
                     struct page_section section)
{
    const char *page = (const char *)(kind == PAGE_TUNINGS   ? tuning_page
                                      : kind == PAGE_LAYOUTS ? layouts_page
                                      : kind == PAGE_CURVES  ? curves_page
                                                             : report_page);
    const char *below = strstr(page, lines_marker);
    if (below) {
        output_write(out, page, (size_t)(below - page));
        write_lines(out, lines);
        page = below + sizeof lines_marker - 1;
    }
    const char *after = strstr(page, section_marker);
    if (after) {
        output_write(out, page, (size_t)(after - page));
        if (section.write) section.write(out, section.of);
        page = after + sizeof section_marker - 1;
    }
    const char *rest = strstr(page, marker);
    output_write(out, page, (size_t)(rest - page));
    size_t n;
    json_t *record;
    json_array_foreach(records, n, record)
    {
        output_text(out, "<script type=\"application/gzip\" class=\"record\">");
        write_packed(out, record);
        output_text(out, "</script>\n");
    }
    output_text(out, rest + sizeof marker - 1);
}
