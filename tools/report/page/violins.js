/* A violin for each operator or kernel call: all its configurations by their times, small multiples in a grid. */

const VIOLIN = {
    least: 172, /* a panel's width */
    height: 236,
    left: 42,
    right: 46,
    top: 38,
    bottom: 24
};
const GOLDEN = 0.6180339887;

const class_colour = (name) => `var(${(FILLS[name] || FILLS.other)[0]})`;

/* Ticks of 1, 2, 5 and their like say nothing of a range that has one of them. */
function violin_axis(low, high, from, to) {
    if (state.axis === "linear") {
        const pad = Math.max((high - low) * 0.04, high * 0.015);
        return linear_scale(Math.max(0, low - pad), high + pad, from, to);
    }
    const scale = log_scale(low / 1.02, high * 1.02, from, to);
    if (scale.ticks(30).length < 3) scale.ticks = linear_scale(scale.low, scale.high, from, to).ticks;
    return scale;
}

const time_span = (point) => (is_number(point.low) ? format_span(point.low, point.high) : NONE);

function mark_names(entry, point) {
    const is = (seconds) => seconds !== null && point.seconds === seconds;
    return [
        is(entry.best) && "best", is(entry.worst) && "worst", is(entry.default) && "the default's",
        is(entry.chosen) && VIOLIN_WORDS.chosen_own
    ].filter((name) => name);
}

function point_content(entry, point) {
    const marks = mark_names(entry, point);
    return [
        html("h3", null, class_glyph(entry.class, class_colour(entry.class)), entry.name),
        html("p", { class: "of" },
            [entry.class, entry.pass !== NONE && entry.pass, entry.work && entry.work]
                .filter((part) => part)
                .join(" · ")),
        field_list([
            ["orders", point.orders || NONE],
            [VIOLIN_WORDS.sizes, point.sizes],
            [point.alone ? "time alone" : "time in the step", format_seconds(point.seconds)],
            ["interval", time_span(point)],
            ["of the best", format_ratio(point.seconds / entry.best)],
            point.cut ? ["by its bound", "too slow to be tried"] : null,
            marks.length ? ["time is", marks.join(", ")] : null,
        ].filter((field) => field)),
    ];
}

/* Half of the outline, there and back. */
function violin_path(density, middle, half) {
    const side = (sign) => density.heights.map(
        (height, n) => `${(middle + sign * height * half).toFixed(1)} ${(density.from + n * DENSITY_STEP).toFixed(1)}`);
    return `M${side(-1).join("L")}L${side(1).reverse().join("L")}Z`;
}

/* A mark across the violin; the default's and the chosen one's have a sign, since colour alone is not enough. */
function draw_mark(group, name, y, middle, half, seconds) {
    const node = svg("g", { class: "mark " + name, "data-mark": name, "data-seconds": seconds });
    if (name === "best" || name === "worst") {
        node.append(svg("path", { class: "extreme", d: `M${middle - 9} ${y}h18` }));
    } else {
        node.append(svg("path", { class: "line", d: `M${middle - half} ${y}h${2 * half}` }), svg("path", {
            class: "sign",
            d: name === "default" ? `M${middle - half - 5} ${y}l5 -5l5 5l-5 5z` : `M${middle + half - 4} ${y}l8 -5v10z`
        }));
    }
    group.append(node);
}

/* What an axis of its own has to hold: the violin, and what is drawn beside it. */
function violin_ends(entry) {
    const ranges = list(entry.ranges).flatMap((range) => [range.best, range.worst]);
    const all = [entry.best, entry.worst, ...(ranges.length ? [entry.chosen, ...ranges] : [])].filter(is_positive);
    return [Math.min(...all), Math.max(...all)];
}

/* Draws a panel and returns the points that explain themselves. */
function draw_violin(chart, entry, box, shared) {
    const { x: left, y: top, width } = box;
    const unit = shared ? entry.best : 1;
    const [from, to] = [top + VIOLIN.height - VIOLIN.bottom, top + VIOLIN.top];
    const axis = shared ? violin_axis(1, shared, from, to) : violin_axis(...violin_ends(entry), from, to);
    const at = (seconds) => axis(seconds / unit);
    const [plot_left, plot_right] = [left + VIOLIN.left, left + width - VIOLIN.right];
    const middle = (plot_left + plot_right) / 2;
    const half = (plot_right - plot_left) / 2 - 5;
    const title = entry.name + (entry.kernel && entry.orders_chosen !== NONE ? ", " + entry.orders_chosen : "");
    const about = `${format_count(entry.points.length)} ${entry.points.length === 1 ? "time" : "times"}, worst ` +
        format_ratio(entry.worst / entry.best) + (entry.kernel ? `, ${entry.kernel}` : "");
    const group = svg("g", {
        class: "panel",
        style: `--s: ${class_colour(entry.class)}`,
        "data-entry": entry.name,
        "data-pass": entry.pass
    });
    group.append(
        svg("path",
            { class: "class-sign", d: mark_path(entry.class, 3.8), transform: `translate(${left + 8} ${top + 10})` }),
        svg("text", { class: "strong", x: left + 17, y: top + 14 }, clip(title, width - 24), svg("title", null, title)),
        svg("text", { class: "small", x: left + 17, y: top + 27 }, clip(about, width - 12)));
    for (const value of axis.ticks(30)) {
        const y = axis(value).toFixed(1);
        group.append(svg("path", { class: "grid", d: `M${plot_left} ${y}H${plot_right}` }),
            svg("text", { class: "small", x: plot_left - 4, y: Number(y) + 3.5, "text-anchor": "end" },
                tick_text(value, shared ? "×" : "s")));
    }
    const heights = entry.points.map((point) => at(point.seconds));
    const fair = entry.points.filter((point) => !point.searched);
    const density = density_of((fair.length ? fair : entry.points).map((point) => at(point.seconds)));
    group.append(svg("path", { class: "violin", d: violin_path(density, middle, half) }));
    const radius = entry.points.length > 400 ? 1.2 : entry.points.length > 100 ? 1.6 : 2.1;
    /* Off the middle by a sequence that fills evenly, and is the same in every drawing. */
    const off = (n) => (2 * ((n * GOLDEN) % 1) - 1) * 0.86;
    const points = entry.points.map((point, n) => {
        const y = heights[n];
        const x = middle + off(n) * density_at(density, y) * half;
        const node = svg("circle", { class: "config", cx: x.toFixed(1), cy: y.toFixed(1), r: radius });
        group.append(node);
        return {
            node,
            key: `${entry.name}/${n}`,
            group: entry,
            label: `${entry.name}: ${format_seconds(point.seconds)}, ${point.orders}, ${point.sizes}`,
            content: () => point_content(entry, point),
            box: [x - 1, y - 1, x + 1, y + 1],
        };
    });
    for (const name of ["best", "worst", "default", "chosen"])
        if (is_positive(entry[name])) draw_mark(group, name, at(entry[name]), middle, half, entry[name]);
    const offsets = [0, 5];
    (shared ? [] : list(entry.ranges)).forEach((range, n) => group.append(svg("path", {
        class: "published",
        "data-range": range.name,
        d: `M${plot_left + 4 + offsets[n % 2]} ${at(range.best)}V${at(range.worst)}`
    }, svg("title", null, `${range.name}: ${format_seconds(range.best)} to ${format_seconds(range.worst)}`))));
    const beside = (seconds, text) =>
        svg("text", { class: "small ink", x: plot_right + 3, y: at(seconds) + 3.5 }, text ?? format_seconds(seconds));
    group.append(beside(entry.best));
    if (at(entry.best) - at(entry.worst) > 11) group.append(beside(entry.worst));
    const below = top + VIOLIN.height - 4;
    const half_text = (sign, name, x, label) => is_number(entry[name]) &&
        group.append(svg("text", { class: "small " + name, x, y: below }, `${sign} ${format_seconds(entry[name])}`,
            svg("title", null, label)));
    half_text("◇", "default", left + 17, VIOLIN_WORDS.default_title);
    half_text("◀", "chosen", left + 17 + (width - 22) / 2, VIOLIN_WORDS.chosen_title);
    chart.add(group);
    return points;
}

const violin_sign = (name) => name === "published" ? svg("svg", { class: "swatch", viewBox: "-10 -6 21 12", "aria-hidden": "true" }, svg("path", { class: "published", d: "M0 -6V6" })) : svg("svg", { class: "swatch", viewBox: "-10 -6 21 12", "aria-hidden": "true" },
    name === "dot" ? svg("circle", { class: "config", cx: 0, cy: 0, r: 2.6, style: "--s: var(--soft)" }) : (() => {
        const group = svg("g");
        draw_mark(group, name, 0, 0, 6, 0);
        return group;
    })());

const violin_legend = () => html("ul", { class: "legend" },
    [["dot", "a configuration"], ["best", "best and worst"], ["default", "the default"], ["chosen", VIOLIN_WORDS.chosen],
        ...VIOLIN_WORDS.further].map(
        ([name, text]) => html("li", null, violin_sign(name), text)),
    class_names().map((name) => html("li", null, class_glyph(name, class_colour(name)), name)));

const class_names = () => unique(shown_entries().map((entry) => entry.class));

/* What the panels leave out, and what they are of. */
function violin_notes(entries) {
    const drawn = entries.filter((entry) => entry.points.length);
    const without = entries.filter((entry) => !entry.points.length).map((entry) => entry.name);
    const in_step = drawn.filter((entry) => !entry.alone).map((entry) => entry.name);
    const count = (field) => entries.reduce((sum, entry) => sum + entry[field], 0);
    return [
        `${format_count(drawn.length)} ${VIOLIN_WORDS.entries()}, ${
            format_count(drawn.reduce((sum, entry) => sum + entry.points.length, 0))} times.`,
        count("wrong") > 0 && `${format_count(count("wrong"))} configurations gave wrong numbers and have no time.`,
        count("failed") > 0 && `${format_count(count("failed"))} could not run.`,
        in_step.length > 0 && `Times within the step, since no sizes were measured alone: ${in_step.join(", ")}.`,
        without.length > 0 && `Nothing was measured of ${without.join(", ")}.`,
    ].filter((text) => text)
        .join(" ");
}

charts.set("violins", {
    reads: [...ENTRY_STATE, "axis", "range"],
    tools: () => [segments("axis", "Axis", [["log", "logarithmic"], ["linear", "linear"]]),
        segments("range", "Range", [["own", "each its own"], ["shared", "all, × best"]])],
    draw(figure, width) {
        const entries = shown_entries();
        const drawn = entries.filter((entry) => entry.points.length);
        if (!drawn.length) {
            figure.append(html(
                "p", { class: "note" }, "No times by these filters. " + (entries.length ? violin_notes(entries) : "")));
            return;
        }
        const columns = Math.max(1, Math.min(drawn.length, Math.floor(width / VIOLIN.least)));
        const panel = Math.min(width / columns, 300);
        const step = VIOLIN.height + 10;
        figure.append(violin_legend());
        const chart = make_chart(figure, width, Math.ceil(drawn.length / columns) * step,
            { left: 0, right: 0, top: 0, bottom: 0 },
            "Distribution of the times of all configurations of each " +
                VIOLIN_WORDS.entries());
        const shared = state.range === "shared" ? largest(drawn.map((entry) => entry.worst / entry.best)) : 0;
        const points =
            drawn.flatMap((entry, n) => draw_violin(chart, entry,
                              { x: (n % columns) * panel, y: Math.floor(n / columns) * step, width: panel }, shared));
        interactive(chart, points, { reach: 9, rows: true });
        figure.append(html("p", { class: "charted" }, violin_notes(entries)));
    },
});
