/* One loop: keys, then a step of the engine, then a frame if something is new. Nothing in it waits for the device, so
 * that typing never does (ui.h). */
#include "ui.h"

#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "screen.h"

enum { QUERY_BYTES = 512, STEP_MS = 4, PLACE_BYTES = 512, TEXT_BYTES = 1000 };

struct ui {
    struct screen screen;
    const char *folder;
    struct engine *engine; /* NULL: it is being opened */
    char query[QUERY_BYTES];
    size_t bytes, chosen;
    bool changed, left, taken; /* the query; somebody wants to leave; somebody took a passage */
    char doing[96];            /* while it is opened */
};

/* ---- frames ---- */

static void draw_found(struct ui *ui)
{
    const struct found *found;
    const struct index *index = engine_index(ui->engine);
    size_t count = engine_found(ui->engine, &found), lines = 3, most = (ui->screen.rows - 3) / lines;
    size_t first = most && ui->chosen >= most ? ui->chosen + 1 - most : 0;
    for (size_t i = first; i < count && i - first < most; i++) {
        char text[TEXT_BYTES], place[PLACE_BYTES];
        index_place(index, &found[i], place, sizeof place);
        index_text(index, &found[i], text, sizeof text);
        bool chosen = i == ui->chosen;
        screen_row(&ui->screen, chosen ? STYLE_CHOSEN : STYLE_STRONG, "%s %.3f  %s", chosen ? ">" : " ",
                   (double)found[i].score, place);
        const char *rest = text;
        for (size_t line = 1, columns; line < lines; line++) {
            screen_row(&ui->screen, chosen ? STYLE_PLAIN : STYLE_FAINT, "    %s", rest);
            rest += fitting(rest, ui->screen.columns > 4 ? ui->screen.columns - 4 : 0, &columns);
        }
    }
}

static void draw(struct ui *ui)
{
    char query[QUERY_BYTES];
    size_t columns;
    snprintf(query, sizeof query, "%s", ui->query);
    harmless(query, strlen(query));
    screen_begin(&ui->screen);
    if (ui->engine) {
        struct engine_state s = engine_state(ui->engine);
        screen_row(&ui->screen, STYLE_TITLE, " search %s   %zu passages of %zu files   %s", ui->folder, s.passages,
                   s.files, s.device);
        screen_row(&ui->screen, STYLE_PLAIN, "> %s", query);
        char time[48] = "";
        if (s.answered && ui->bytes) snprintf(time, sizeof time, "answered in %.1f ms", 1e3 * s.seconds);
        if (s.files_done < s.files)
            screen_row(&ui->screen, STYLE_FAINT, "  reading: %zu of %zu files   %s", s.files_done, s.files, time);
        else
            screen_row(&ui->screen, STYLE_FAINT, "  %s",
                       *time ? time : "type to search; arrows and Enter choose; Esc leaves");
        draw_found(ui);
    } else {
        screen_row(&ui->screen, STYLE_TITLE, " search %s", ui->folder);
        screen_row(&ui->screen, STYLE_PLAIN, "> %s", query);
        screen_row(&ui->screen, STYLE_FAINT, "  %s", ui->doing);
    }
    fitting(query, QUERY_BYTES, &columns);
    screen_end(&ui->screen, 1, columns + 2);
}

/* ---- keys ---- */

/* The last character, however many bytes it has. */
static void erase(struct ui *ui)
{
    while (ui->bytes && ((unsigned char)ui->query[--ui->bytes] & 0xc0) == 0x80) continue;
    ui->query[ui->bytes] = 0;
}

static void press(struct ui *ui, enum key key, const char *text)
{
    const struct found *found;
    size_t count = ui->engine ? engine_found(ui->engine, &found) : 0, bytes;
    ui->left = key == KEY_QUIT;
    ui->taken = key == KEY_ENTER && ui->chosen < count;
    if (key == KEY_UP && ui->chosen) ui->chosen--;
    if (key == KEY_DOWN && ui->chosen + 1 < count) ui->chosen++;
    if (key != KEY_TEXT && key != KEY_ERASE && key != KEY_CLEAR) return;
    ui->changed = true;
    ui->chosen = 0;
    if (key == KEY_CLEAR) ui->query[ui->bytes = 0] = 0;
    if (key == KEY_ERASE) erase(ui);
    if (key == KEY_TEXT && ui->bytes + (bytes = strlen(text)) < sizeof ui->query) {
        memcpy(ui->query + ui->bytes, text, bytes + 1);
        ui->bytes += bytes;
    }
}

/* All keys that are there, or that come soon. */
static bool take_keys(struct ui *ui, int milliseconds)
{
    char text[8];
    enum key key = screen_key(text, milliseconds);
    bool any = key != KEY_NONE;
    for (; key != KEY_NONE && !ui->left && !ui->taken; key = screen_key(text, 0)) press(ui, key, text);
    return any;
}

/* While the engine is opened, which may compile kernels for a while, one can type and leave. */
static bool while_opening(const char *what, size_t done, size_t total, void *user)
{
    struct ui *ui = user;
    snprintf(ui->doing, sizeof ui->doing, "preparing: %.40s, %zu of %zu", what, done, total);
    take_keys(ui, 0);
    draw(ui);
    return !ui->left;
}

/* ---- the loop ---- */

/* False: the engine failed. */
static bool loop(struct ui *ui)
{
    struct engine_state last = {.files = 0};
    bool draw_now = true;
    while (!ui->left && !ui->taken) {
        struct engine_state s = engine_state(ui->engine);
        draw_now = draw_now || s.passages != last.passages || s.answered != last.answered || s.busy != last.busy;
        last = s;
        if (draw_now) draw(ui);
        draw_now = take_keys(ui, s.busy ? STEP_MS : -1);
        if (ui->changed && !engine_ask(ui->engine, ui->query)) return false;
        ui->changed = false;
        if (!engine_step(ui->engine)) return false;
    }
    return true;
}

int ui_run(const char *folder, const char *model, const char *device)
{
    struct ui ui = {.folder = folder, .doing = "opening the device"};
    const struct found *found;
    if (!screen_open(&ui.screen)) {
        fputs("search: this is no terminal: use --query TEXT\n", stderr);
        return 2;
    }
    draw(&ui);
    ui.engine = engine_open(folder, model, device, while_opening, &ui);
    ui.changed = ui.engine && ui.bytes;
    bool ok = ui.engine && loop(&ui);
    screen_close(&ui.screen);
    int code = ok || ui.left ? 130 : 1;
    if (ok && ui.taken && engine_found(ui.engine, &found) > ui.chosen) {
        char place[PLACE_BYTES];
        index_place(engine_index(ui.engine), &found[ui.chosen], place, sizeof place);
        printf("%s/%s\n", folder, place);
        code = 0;
    }
    if (ui.engine && !engine_save(ui.engine) && ok) code = 1;
    engine_close(ui.engine);
    return code;
}
