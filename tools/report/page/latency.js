/* Requests under load: how long the slowest of so many take. */

const DASHES = [null, "6 3", "2 3", "8 3 2 3"];
const PERCENTILES = [["p50", 2], ["p90", 10], ["p99", 100], ["p999", 1000]];

/* The largest value of a bucket, in seconds; the schema says how they are numbered. */
function bucket_end(bucket, parts) {
    const octave = Math.floor(bucket / parts);
    return 1e-9 * (octave ? (parts + (bucket % parts) + 1) * 2 ** (octave - 1) - 1 : bucket);
}

const shown_loads = () => shown_series().flatMap((series) => series.loads.map((load) => ({ series, load })));

const load_name = (load) => `${format_count(load.clients)} client${load.clients === 1 ? "" : "s"}`;
const has_session_each = (series) => object(object(series.record.data.workload).requests).sessions === "per-client";
const waited_share = (load) => (is_positive(load.mean) && is_positive(load.requests)
        ? load.waited_seconds / (load.mean * load.requests)
        : null);

/* [[N, seconds]...]: one request in N takes longer. */
function load_curve(load) {
    const histogram = object(load.histogram);
    const points = [];
    let left = load.requests;
    for (const [bucket, count] of list(histogram.buckets)) {
        left -= count;
        if (left > 0) points.push([load.requests / left, bucket_end(bucket, histogram.parts)]);
    }
    if (is_positive(load.max)) points.push([Math.max(load.requests, 1), load.max]);
    return points.filter(([, seconds]) => is_positive(seconds));
}

function load_content(series, load) {
    return bar_content(load_name(load), series.label, [
        ...PERCENTILES.map(([name, n]) => [`one in ${n} takes longer than`, format_seconds(load[name])]),
        ["min, max", `${format_seconds(load.min)}, ${format_seconds(load.max)}`],
        ["mean", format_seconds(load.mean)],
        "rule",
        ["requests", `${format_count(load.requests)} in ${format_seconds(load.seconds)}`],
        ["requests per second", format_number(load.rate)],
        ["waiting for the session", has_session_each(series) ? "each has its own" : format_percent(waited_share(load))],
    ]);
}

/* Dots at the percentiles that are known, and at the longest request. */
function draw_load(chart, x, y, series, load, dash) {
    const curve = load_curve(load);
    const dots = PERCENTILES.map(([name, n]) => [n, load[name]]).filter(([, seconds]) => is_positive(seconds));
    dots.push([Math.max(load.requests, 1), load.max]);
    const points = dots.filter(([n, seconds]) => n >= x.low && is_positive(seconds)).map(([n, seconds]) => {
        const [cx, cy] = [x(n), y(seconds)];
        return {
            node: svg("circle", { class: "point", cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3.4 }),
            label: `${series.label}, ${load_name(load)}: one request in ${format_count(n)} takes longer than ${
                format_seconds(seconds)}`,
            content: () => load_content(series, load),
            box: [cx - 3, cy - 3, cx + 3, cy + 3],
        };
    });
    const path = path_of(curve.filter(([n]) => n >= x.low).map(([n, seconds]) => [x(n), y(seconds)]));
    chart.add(svg("g", { style: `--s: ${series.colour}`, "data-series": series.tag, "data-clients": load.clients },
        svg("path", { class: "curve", d: path, "stroke-dasharray": dash }), points.map((point) => point.node)));
    return points;
}

function idle_text(series) {
    const pauses = unique(series.idle.map((one) => one.idle_seconds));
    return pauses.map((pause) => `${series.tag}: ${
                              series.idle.filter((one) => one.idle_seconds === pause)
                                  .map((one) => format_seconds(one.seconds))
                                  .join(", ")} after ${format_seconds(pause)}`);
}

function loads_table() {
    const column = (name, field, text) => ({ name, value: (row) => row.load[field], text });
    const rows = shown_loads();
    return make_table({
        caption: `Times of whole requests. ${NONE}: too few requests for this percentile`,
        rows: [
            ...rows,
            ...shown_series().flatMap((series) => series.idle.map((one) => ({
                series,
                idle: one.idle_seconds,
                load: { clients: 1, requests: 1, min: one.seconds, max: one.seconds, mean: one.seconds }
            })))
        ],
        columns: [
            { name: "device", value: (row) => row.series.tag + "  " + row.series.label },
            column("clients", "clients", format_count),
            { name: "sessions", value: (row) => (has_session_each(row.series) ? "each" : "shared"), left: true },
            { name: "after a pause of", value: (row) => row.idle, text: format_seconds },
            column("requests", "requests", format_count),
            column("per second", "rate", format_number),
            column("min", "min", format_seconds),
            column("p50", "p50", format_seconds),
            column("p90", "p90", format_seconds),
            column("p99", "p99", format_seconds),
            column("p99.9", "p999", format_seconds),
            column("max", "max", format_seconds),
            column("mean", "mean", format_seconds),
            { name: "waiting", value: (row) => waited_share(row.load), text: format_percent },
        ],
    });
}

charts.set("latency", {
    reads: ["hidden"],
    tools: () => [],
    draw(figure, width) {
        const rows = shown_loads().map((row) => ({...row, dash: DASHES[row.series.loads.indexOf(row.load) % 4] }));
        const y_range = log_range(rows.flatMap(({ load }) => [load.min, load.max]), 0.1, 0.4);
        if (!y_range) {
            figure.append(html("p", { class: "note" }, "No requests under load were measured on these devices."));
        } else {
            const most = Math.max(10, largest(rows.map(({ load }) => load.requests)));
            const chart = make_chart(figure, width, chart_height(width), { left: 62, right: 78, top: 22, bottom: 38 },
                "Latency: the time that one request in N exceeds");
            const x = log_scale(1.5, most * 1.1, chart.left, chart.right);
            const y = log_scale(...y_range, chart.bottom, chart.top);
            draw_axes(chart, x, y, { x: "one request in N takes longer", y: "time of a request", x_unit: "", y_unit: "s" });
            const points = rows.flatMap(({ series, load, dash }) => draw_load(chart, x, y, series, load, dash));
            for (const { series, load } of rows)
                if (is_positive(load.max))
                    chart.add(svg("text", {
                        class: "of-series halo small",
                        style: `--s: ${series.colour}`,
                        x: Math.min(x(Math.max(load.requests, 1.5)) + 6, chart.right + 4),
                        y: y(load.max) + 4
                    },
                        `${series.tag} ${load.clients} cl.`));
            interactive(chart, points);
        }
        const pauses = shown_series().flatMap(idle_text);
        if (pauses.length)
            figure.append(html("p", { class: "charted" }, `First request after a pause: ${pauses.join("; ")}.`));
    },
    tables: () => [{ title: "Table: latencies", make: loads_table }],
});

/* Sections that nothing in the records is for. */
const IDLE_SECTIONS = only_loads
    ? ["overview", "roofline", "strip", "time", "movement", "launch", "cache", "diff"]
    : any_loads ? []
                : ["latency"];
for (const name of IDLE_SECTIONS) {
    charts.delete(name);
    document.getElementById(name).hidden = true;
    find(`nav [href="#${name}"]`).hidden = true;
}
