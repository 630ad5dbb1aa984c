/* Curves over the number of bytes: the launch regime and the cache sweep. */

const point_content = (series, point) => bar_content(`copy of ${format_bytes(point.bytes)}`, series.label,
    [["rate", format_bandwidth(point.bytes / point.time.median)], ...time_fields("time", point.time)]);

/* Dots with whiskers for what was measured at sizes; returns the points that explain them. */
function draw_sizes(chart, x, y, series, sizes, value) {
    let bars = "";
    const points = sizes.map((point) => {
        const [cx, cy] = [x(point.bytes), y(value(point, point.time.median))];
        const { p05, p95 } = point.time;
        if (is_positive(p05) && is_positive(p95))
            bars += `M${cx.toFixed(1)} ${y(value(point, p95)).toFixed(1)}V${y(value(point, p05)).toFixed(1)}`;
        return {
            node: svg(
                "circle", { class: "point", cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3.4, "data-bytes": point.bytes }),
            label: `${series.label}: ${format_bytes(point.bytes)} in ${format_seconds(point.time.median)}, ${
                format_bandwidth(point.bytes / point.time.median)}`,
            content: () => point_content(series, point),
            box: [cx - 3, cy - 3, cx + 3, cy + 3],
        };
    });
    const group = svg("g", { style: `--s: ${series.colour}`, "data-series": series.tag },
        svg("path", { class: "whiskers", d: bars }));
    group.append(...points.map((point) => point.node));
    chart.add(group);
    return points;
}

/* A line across the plot at `bytes`. */
const draw_upright = (chart, x, series, bytes) => chart.add(
    svg("path", { class: "upright", style: `--s: ${series.colour}`, d: `M${x(bytes)} ${chart.top}V${chart.bottom}` }));

/* Lines of text in a corner of the plot: [[series, text]...]. */
function draw_notes(chart, x, y, notes) {
    notes.forEach(([series, text], n) => chart.add(svg("text",
                      { class: "of-series halo small", style: `--s: ${series.colour}`, x, y: y + 13 * n }, text)));
}

function path_of(points) {
    return points.map(([a, b], n) => `${n ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
}

const chart_height = (width) => Math.round(Math.min(400, Math.max(290, width * 0.6)));

/* ---- launch ---- */

const fit_of = (series) => (series.launch_seconds && series.launch_bandwidth
        ? { a: series.launch_seconds.value, b: series.launch_bandwidth.value }
        : null);

const launch_items = () => (state.launch_ops
        ? filtered_items().filter((item) => item.time && is_positive(item.d)).map((item) => ({
              item,
              bytes: item.d / item.ops.length / Math.max(1, item.launches / item.ops.length || 1),
              seconds: item.time.median / item.ops.length / Math.max(1, item.launches / item.ops.length || 1)
          }))
        : []).slice(0, POINTS_AT_ONCE);

function launch_table() {
    const rows = shown_series().flatMap((series) => {
        const fit = fit_of(series);
        return series.launch.map((point) => ({ series, ...point, fitted: fit ? fit.a + point.bytes / fit.b : null }));
    });
    return make_table({
        caption: "Copies of V bytes against the fit T = a + V/b. " +
            shown_series()
                .map((series) => [series, fit_of(series)])
                .filter(([, fit]) => fit)
                .map(([series, fit]) => `${series.tag}: a = ${format_seconds(fit.a)}, b = ${format_bandwidth(fit.b)}`)
                .join("; "),
        rows,
        columns: [
            { name: "V", value: (row) => row.bytes, text: format_bytes },
            { name: "device", value: (row) => row.series.tag, left: true },
            { name: "T", value: (row) => row.time.median, text: format_seconds },
            {
                name: "p05 to p95",
                value: (row) => row.time.p05,
                text: (value, row) => format_span(row.time.p05, row.time.p95)
            },
            { name: "a + V/b", value: (row) => row.fitted, text: format_seconds },
            { name: "rate", value: (row) => row.bytes / row.time.median, text: format_bandwidth },
        ],
    });
}

charts.set("launch", {
    reads: [...ITEM_STATE, "launch_ops"],
    tools: () => [toggle("launch_ops", "operators, by kernel")],
    draw(figure, width) {
        const some = shown_series();
        const placed = launch_items();
        const fits = some.map((series) => ({ series, fit: fit_of(series) })).filter(({ fit }) => fit);
        const x_range = log_range(
            [
                ...some.flatMap((series) => series.launch.map((point) => point.bytes)),
                ...placed.map((one) => one.bytes), ...fits.map(({ fit }) => fit.a * fit.b)
            ],
            0.15);
        const y_range = log_range(
            [
                ...some.flatMap((series) => series.launch.map((point) => point.time.median)),
                ...placed.map((one) => one.seconds), ...fits.map(({ fit }) => fit.a)
            ],
            0.2);
        if (!x_range || !y_range) {
            figure.append(html("p", { class: "note" }, "No launches were measured on these devices."));
            return;
        }
        const notes = fits.length > 8 ? []
                                      : fits.map(({ series, fit }) => [series,
                                                     `${series.tag}  a = ${format_seconds(fit.a)}, ` +
                                                         (width < 480 ? "" : `b = ${format_bandwidth(fit.b)}, `) +
                                                         `a·b = ${format_bytes(fit.a * fit.b)}`]);
        y_range[1] *= (y_range[1] / y_range[0]) ** ((13 * notes.length + 10) / chart_height(width)); /* room for them */
        const chart = make_chart(figure, width, chart_height(width), { left: 56, right: 12, top: 22, bottom: 38 },
            "Launch regime: time against bytes of a kernel");
        const x = log_scale(...x_range, chart.left, chart.right);
        const y = log_scale(...y_range, chart.bottom, chart.top);
        draw_axes(chart, x, y, { x: "bytes V of a kernel", y: "time T", x_unit: "B", y_unit: "s" });
        fits.forEach(({ series, fit }) => {
            const edge = fit.a * fit.b;
            const curve = [];
            for (let at = 0; at <= 60; at++) {
                const bytes = x.low * (x.high / x.low) ** (at / 60);
                const seconds = fit.a + bytes / fit.b;
                if (seconds <= y.high && seconds >= y.low) curve.push([x(bytes), y(seconds)]);
            }
            if (fits.length <= 4)
                chart.add(svg("rect", {
                    class: "zone",
                    style: `--s: ${series.colour}`,
                    x: chart.left,
                    y: chart.top,
                    width: Math.max(0, x(edge) - chart.left),
                    height: chart.bottom - chart.top
                }));
            chart.add(svg(
                "path", { class: "curve", style: `--s: ${series.colour}`, "data-fit": series.tag, d: path_of(curve) }));
            draw_upright(chart, x, series, edge);
        });
        const points =
            some.flatMap((series) => draw_sizes(chart, x, y, series, series.launch, (point, seconds) => seconds));
        for (const one of placed) {
            const { item } = one;
            const [cx, cy] = [x(one.bytes), y(one.seconds)];
            const node = svg("path", {
                class: "point" + (item.derived.over_peak ? " over" : ""),
                style: `--s: ${item.series.colour}`,
                d: mark_path(item.class, 4.4),
                transform: `translate(${cx.toFixed(1)} ${cy.toFixed(1)})`,
                "data-op": item.name
            });
            chart.add(node);
            points.push({
                node,
                key: item.key,
                label: describe_item(item),
                content: () => item_content(item),
                box: [cx - 4, cy - 4, cx + 4, cy + 4]
            });
        }
        draw_notes(chart, chart.left + 8, chart.top + 14, notes);
        interactive(chart, points);
        const missing = some.filter((series) => !fit_of(series)).map((series) => series.tag);
        if (missing.length) figure.append(html("p", { class: "charted" }, `No fit of ${missing.join(", ")}.`));
    },
    tables: () => [{ title: "Table: launches", make: launch_table }],
});

/* ---- cache ---- */

function sweep_table() {
    return make_table({
        caption: "A copy within a working set",
        rows: shown_series().flatMap((series) => series.sweep.map((point) => ({ series, ...point }))),
        columns: [
            { name: "working set", value: (row) => row.bytes, text: format_bytes },
            { name: "device", value: (row) => row.series.tag, left: true },
            { name: "rate", value: (row) => row.bytes / row.time.median, text: format_bandwidth },
            { name: "time", value: (row) => row.time.median, text: format_seconds },
            {
                name: "p05 to p95",
                value: (row) => row.time.p05,
                text: (value, row) => format_span(row.time.p05, row.time.p95)
            },
            { name: "runs", value: (row) => row.time.n, text: format_count },
            { name: "the cache's edge", value: (row) => row.series.cache_bytes, text: format_bytes },
        ],
    });
}

charts.set("cache", {
    reads: ["hidden"],
    tools: () => [],
    draw(figure, width) {
        const some = shown_series().filter((series) => series.sweep.length);
        const rate = (point, seconds) => point.bytes / seconds;
        const rates = some.flatMap((series) => series.sweep.map((point) => rate(point, point.time.median)));
        const x_range = log_range(
            some.flatMap((series) => [...series.sweep.map((point) => point.bytes), series.cache_bytes]), 0.12);
        if (!x_range) {
            figure.append(html("p", { class: "note" }, "No working sets were swept on these devices."));
            return;
        }
        const chart = make_chart(figure, width, chart_height(width), { left: 56, right: 12, top: 22, bottom: 38 },
            "Cache: rate of a copy against its working set");
        const x = log_scale(...x_range, chart.left, chart.right);
        /* Devices of one kind on a linear scale; a CPU beside a GPU would be flat there. */
        const low = Math.min(...rates);
        const y = largest(rates) / low > 25 ? log_scale(...log_range(rates, 0.2), chart.bottom, chart.top)
                                            : linear_scale(0, largest(rates) * 1.12, chart.bottom, chart.top);
        draw_axes(chart, x, y, { x: "bytes of the working set", y: "bytes per second", x_unit: "B", y_unit: "" });
        const points = [];
        const edged = some.filter((series) => series.cache_bytes);
        for (const series of edged) draw_upright(chart, x, series, series.cache_bytes);
        for (const series of some) {
            const sizes = [...series.sweep].sort((a, b) => a.bytes - b.bytes);
            chart.add(svg("path", {
                class: "curve",
                style: `--s: ${series.colour}`,
                d: path_of(sizes.map((point) => [x(point.bytes), y(rate(point, point.time.median))]))
            }));
            points.push(...draw_sizes(chart, x, y, series, sizes, rate));
        }
        if (edged.length && edged.length <= 8) {
            const first = Math.min(...edged.map((series) => x(series.cache_bytes)));
            draw_notes(chart, Math.max(chart.left + 6, first - 92), chart.bottom - 13 * edged.length + 6,
                edged.map((series) => [series, `${series.tag}  ${format_bytes(series.cache_bytes)}`]));
        }
        interactive(chart, points);
        const without = some.filter((series) => !series.cache_bytes).map((series) => series.tag);
        if (without.length)
            figure.append(html("p", { class: "charted" }, `No edge was found on ${without.join(", ")}.`));
    },
    tables: () => [{ title: "Table: working sets", make: sweep_table }],
});
