/* Logs of trainings as charts. */
#include <math.h>
#include <string.h>

#include "report/curves.h"

enum {
    WIDTH = 760,
    HEIGHT = 250,
    LEFT = 66,
    RIGHT = 14,
    TOP = 30,
    BOTTOM = 34,
    POINTS = 700,
    COLOURS = 8,
    LEGEND = 18
};
static const double smoothing = 0.9; /* of the mean that goes along */

static const char *const colours[COLOURS] = {"#2a78d6", "#d9542b", "#2e9e5b", "#8a56c8",
                                             "#c49a1a", "#1f9aa8", "#c8457f", "#6b7280"};
static const char *const titles[CURVE_KINDS] = {
    [CURVE_LOSS] = "loss (thin: of a step; thick: mean that goes along; dots: held out)",
    [CURVE_RATE] = "learning rate",
    [CURVE_NORM] = "gradient norm, before it is limited",
    [CURVE_SPEED] = "tokens per second"};

struct chart {
    const struct curves *curves;
    enum curve_kind kind;
    double steps, low, high; /* of the axes */
    double top;              /* in the picture */
};

static void svg_text(struct output *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            output_format(out, "&#%d;", *text);
        else
            output_write(out, text, 1);
    }
}

/* ---- scales ---- */

static double x_of(const struct chart *c, double step) { return LEFT + step / c->steps * (WIDTH - LEFT - RIGHT); }

static double y_of(const struct chart *c, double value)
{
    double low = c->top + HEIGHT - BOTTOM, high = c->top + TOP;
    return low + (value - c->low) / (c->high - c->low) * (high - low);
}

/* 1, 2 or 5 times a power of ten, so that about `count` fit. */
static double tick_of(double range, int count)
{
    double rough = range / count, size = pow(10, floor(log10(rough)));
    return size * (rough <= size ? 1 : rough <= 2 * size ? 2 : rough <= 5 * size ? 5 : 10);
}

/* Whether there is anything to draw. */
static bool scales_find(struct chart *c)
{
    c->low = INFINITY;
    c->high = -INFINITY;
    for (size_t n = 0; n < c->curves->count; n++) {
        const struct curve_log *log = &c->curves->logs[n];
        for (size_t i = 0; i < log->count; i++) {
            double value = curve_value(&log->steps[i], c->kind);
            if (log->steps[i].step > c->steps) c->steps = log->steps[i].step;
            if (!isfinite(value)) continue;
            c->low = fmin(c->low, value);
            c->high = fmax(c->high, value);
        }
        for (size_t i = 0; c->kind == CURVE_LOSS && i < log->evaluation_count; i++) {
            if (!isfinite(log->evaluations[i].loss)) continue;
            c->low = fmin(c->low, log->evaluations[i].loss);
            c->high = fmax(c->high, log->evaluations[i].loss);
        }
    }
    if (!(c->steps > 0) || c->low > c->high) return false;
    if (c->kind != CURVE_LOSS && c->low > 0) c->low = 0;
    if (!(c->high > c->low)) c->high = c->low + fmax(1e-12, fabs(c->low));
    return true;
}

/* ---- lines ---- */

/* Values of steps that are in the same place are their mean. */
static void draw_line(struct output *out, const struct chart *c, const struct curve_log *log, bool smooth,
                      const char *style)
{
    size_t each = (log->count + POINTS - 1) / POINTS;
    double mean = NAN;
    bool pen = false;
    output_text(out, "<path fill=\"none\" ");
    output_text(out, style);
    output_text(out, " d=\"");
    for (size_t i = 0; i < log->count; i += each) {
        double sum = 0, count = 0, step = 0;
        for (size_t k = i; k < i + each && k < log->count; k++) {
            double value = curve_value(&log->steps[k], c->kind);
            if (!isfinite(value)) continue;
            mean = isnan(mean) ? value : smoothing * mean + (1 - smoothing) * value;
            sum += smooth ? mean : value;
            step += log->steps[k].step;
            count++;
        }
        if (count > 0) output_format(out, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(c, step / count), y_of(c, sum / count));
        pen = count > 0; /* a gap where no number is */
    }
    output_text(out, "\"/>\n");
}

static void draw_evaluations(struct output *out, const struct chart *c, const struct curve_log *log, const char *colour)
{
    bool pen = false;
    output_format(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.2\" stroke-dasharray=\"4 3\" d=\"", colour);
    for (size_t i = 0; i < log->evaluation_count; i++) {
        const struct curve_evaluation *e = &log->evaluations[i];
        if (!isfinite(e->loss)) continue;
        output_format(out, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(c, e->step), y_of(c, e->loss));
        pen = true;
    }
    output_text(out, "\"/>\n");
    for (size_t i = 0; i < log->evaluation_count; i++)
        if (isfinite(log->evaluations[i].loss))
            output_format(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n",
                          x_of(c, log->evaluations[i].step), y_of(c, log->evaluations[i].loss), colour);
}

static void draw_log(struct output *out, const struct chart *c, size_t n)
{
    const struct curve_log *log = &c->curves->logs[n];
    const char *colour = colours[n % COLOURS];
    char style[96];
    bool thin = c->kind == CURVE_LOSS || c->kind == CURVE_NORM;
    snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"%s\"%s", colour, thin ? "0.8" : "1.6",
             thin ? " stroke-opacity=\"0.4\"" : "");
    draw_line(out, c, log, false, style);
    if (!thin) return;
    snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"1.8\"", colour);
    draw_line(out, c, log, true, style);
    if (c->kind == CURVE_LOSS) draw_evaluations(out, c, log, colour);
}

/* ---- charts ---- */

static void draw_axes(struct output *out, const struct chart *c)
{
    double tick = tick_of(c->high - c->low, 4), step = fmax(1, tick_of(c->steps, 8));
    output_format(out, "<text x=\"%d\" y=\"%.1f\" class=\"strong\" font-weight=\"600\">%s</text>\n", LEFT, c->top + 16,
                  titles[c->kind]);
    for (double n = ceil(c->low / tick); n * tick <= c->high * (1 + 1e-9) + 1e-300; n++) {
        double y = y_of(c, n * tick);
        output_format(out,
                      "<path class=\"grid\" stroke=\"currentColor\" stroke-opacity=\"0.15\" d=\"M%d %.1fH%d\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                      LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, n * tick);
    }
    for (double at = 0; at <= c->steps * (1 + 1e-9); at += step)
        output_format(out,
                      "<path class=\"axis\" stroke=\"currentColor\" stroke-opacity=\"0.4\" d=\"M%.1f %.1fv5\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
                      x_of(c, at), c->top + HEIGHT - BOTTOM, x_of(c, at), c->top + HEIGHT - BOTTOM + 18, at);
    output_format(out,
                  "<path class=\"axis\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.4\" "
                  "d=\"M%d %.1fH%d\"/>\n",
                  LEFT, c->top + HEIGHT - BOTTOM, WIDTH - RIGHT);
}

/* Returns whether there was anything to draw. */
static bool draw_chart(struct output *out, const struct curves *curves, enum curve_kind kind, double top)
{
    struct chart c = {.curves = curves, .kind = kind, .top = top};
    if (!scales_find(&c)) return false;
    draw_axes(out, &c);
    for (size_t n = 0; n < curves->count; n++) draw_log(out, &c, n);
    return true;
}

static void draw_legend(struct output *out, const struct curves *curves, double top)
{
    for (size_t n = 0; n < curves->count; n++) {
        double y = top + LEGEND * (double)(n + 1);
        output_format(out, "<path stroke=\"%s\" stroke-width=\"3\" d=\"M%d %.1fh20\"/><text x=\"%d\" y=\"%.1f\">",
                      colours[n % COLOURS], LEFT, y - 4, LEFT + 28, y);
        svg_text(out, curves->logs[n].name);
        output_text(out, "</text>\n");
    }
}

static bool has_chart(const struct curves *curves, enum curve_kind kind)
{
    struct chart c = {.curves = curves, .kind = kind};
    return scales_find(&c);
}

static void draw_all(struct output *out, const struct curves *curves)
{
    double top = LEGEND * (double)curves->count + 12;
    draw_legend(out, curves, 0);
    for (int kind = 0; kind < CURVE_KINDS; kind++)
        if (draw_chart(out, curves, (enum curve_kind)kind, top)) top += HEIGHT;
}

/* `alone`: with all that a picture without a page needs. */
static void write_svg(struct output *out, const struct curves *curves, bool alone)
{
    double height = LEGEND * (double)curves->count + 12;
    for (int kind = 0; kind < CURVE_KINDS; kind++)
        if (has_chart(curves, (enum curve_kind)kind)) height += HEIGHT;
    output_format(
        out, "<svg%s viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"Loss, rate and speed of trainings\"%s>\n",
        alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", WIDTH, height,
        alone ? " color=\"#333\" fill=\"#333\" font-family=\"system-ui, sans-serif\" font-size=\"11.5\"" : "");
    if (alone) output_text(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    draw_all(out, curves);
    output_text(out, "</svg>\n");
}

void curves_svg(struct output *out, const struct curves *curves) { write_svg(out, curves, true); }

void curves_html(struct output *out, const struct curves *curves)
{
    if (!curves->count) return;
    output_text(out,
                "  <section id=\"curves\">\n    <h2>Trainings</h2>\n    <p class=\"how\">Of each log the loss, the "
                "learning rate, the norm of the gradient and the speed, step by step.</p>\n"
                "    <div class=\"figure\">\n");
    write_svg(out, curves, false);
    output_text(out, "    </div>\n  </section>\n");
}
