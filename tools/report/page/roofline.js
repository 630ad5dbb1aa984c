/* The roofline: operators under the ceilings of their device, both axes logarithmic. */

const POINTS_AT_ONCE = 4000;
const AXES = {
    q: { name: "flop per byte that has to move (Q)", field: "intensity" },
    model: { name: "flop per byte that the kernel is written to move (D)", field: "intensity_model" },
    requested: { name: "flop per byte asked of the caches", field: "intensity_requested" },
};
const COMPUTE_NAMES = {
    "compute.f32": "f32",
    "compute.f16": "f16",
    "compute.matrix": "matrix"
};

/* Lines of a series: {kind, slope or level, name, low, high, theory}. */
function roof_lines(series) {
    const lines = [];
    const add = (group, line) => {
        if (state.roofs.has(group)) lines.push({ series, ...line });
    };
    const bounds = (ceiling) => {
        const span = list(object(ceiling.time).ci95);
        const whole = ceiling.value * object(ceiling.time).median;
        return is_positive(span[0]) && is_positive(span[1]) && is_positive(whole) ? [whole / span[1], whole / span[0]]
                                                                                  : null;
    };
    const top = series.top || series.theory_flops;
    const aside = state.axis === "requested" ? "dram" : "cache";
    if (series.dram)
        add("dram",
            { slope: series.dram.value, top, name: "DRAM", band: bounds(series.dram), aside: aside === "dram" });
    if (series.cached)
        add("cache",
            { slope: series.cached.value, top, name: "cache", band: bounds(series.cached), aside: aside === "cache" });
    const fastest = largest([series.dram, series.cached].map((ceiling) => ceiling && ceiling.value));
    for (const ceiling of series.compute)
        add("compute", { level: ceiling.value, from: fastest, name: COMPUTE_NAMES[ceiling.id], band: bounds(ceiling) });
    if (series.theory_bandwidth)
        add("theory",
            { slope: series.theory_bandwidth, top: series.theory_flops || top, name: "DRAM, theory", theory: true });
    if (series.theory_flops)
        add("theory",
            { level: series.theory_flops, from: series.theory_bandwidth || fastest, name: "theory", theory: true });
    return lines;
}

function draw_roof_line(chart, x, y, line) {
    const shape = (rate) => {
        if (line.slope) {
            const from = Math.max(x.low, y.low / rate);
            const to = Math.min(x.high, y.high / rate, line.top ? line.top / rate : Infinity);
            return to > from ? [[from, rate * from], [to, rate * to]] : null;
        }
        const from = Math.max(x.low, is_positive(line.from) ? rate / line.from : x.low);
        return from < x.high && rate < y.high && rate > y.low ? [[from, rate], [x.high, rate]] : null;
    };
    const ends = shape(line.slope || line.level);
    if (!ends) return null;
    const at = ([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`;
    const band = line.band && [shape(line.band[0]), shape(line.band[1])];
    if (band && band[0] && band[1]) {
        const [low, high] = band;
        chart.add(svg("path", {
            class: "band",
            style: `--s: ${line.series.colour}`,
            d: `M${at(low[0])}L${at(low[1])}L${at(high[1])}L${at(high[0])}Z`
        }));
    }
    chart.add(svg("path", {
        class: "roof" + (line.theory ? " theory" : "") + (line.aside ? " aside" : ""),
        style: `--s: ${line.series.colour}`,
        "data-roof": line.name,
        "data-series": line.series.tag,
        d: `M${at(ends[0])}L${at(ends[1])}`,
    },
        svg("title", null,
            `${line.series.label}: ${line.name} ${si(line.slope || line.level, line.slope ? "B/s" : "flop/s")}`)));
    return ends.map(([a, b]) => [x(a), y(b)]);
}

/* Lines with the same name so near to each other that one label has to do for them. */
function cluster_lines(drawn, height_of, near) {
    const clusters = [];
    for (const one of [...drawn].sort((a, b) => height_of(a) - height_of(b))) {
        const same = clusters.find((cluster) => cluster[0].line.name === one.line.name &&
                Math.abs(height_of(cluster[cluster.length - 1]) - height_of(one)) < near);
        if (same)
            same.push(one);
        else
            clusters.push([one]);
    }
    return clusters;
}

/* "A B DRAM 4.21 to 4.25 TB/s", each letter in its device's colour. */
function roof_label(cluster, short) {
    const { line } = cluster[0];
    const unit = short ? "" : line.slope ? "B/s" : "flop/s";
    const rates = cluster.map((one) => one.line.slope || one.line.level);
    const [low, high] = [Math.min(...rates), Math.max(...rates)].map((rate) => si(rate, unit).split(SPACE));
    const least = low[1] === high[1] ? low[0] : low.join(SPACE);
    const shown = (low.join() === high.join() ? "" : least + " to ") + high.join(SPACE);
    const all = unique(cluster.map((one) => one.line.series)).sort((a, b) => a.index - b.index);
    const tags = all.slice(0, 8).map(
        (series) => svg("tspan", { class: "of-series", style: `--s: ${series.colour}` }, series.tag + " "));
    const words = line.name + " " + shown;
    return { parts: [...tags, words], length: 2 * tags.length + words.length };
}

/* Names along slopes, those of levels at the right; what finds no room has its name in the table. */
function label_roofs(chart, y, drawn) {
    const short = chart.width < 620;
    const clusters = cluster_lines(
        drawn.filter(({ line }) => line.slope && !(short && line.theory)), ({ line }) => y(line.slope), 10);
    if (clusters.length <= 16) {
        /* All slopes are parallel: along them and across, labels are boxes that must not meet. */
        const placed = [];
        for (const cluster of clusters) {
            const [[x0, y0], [x1, y1]] = cluster[0].ends;
            const length = Math.hypot(x1 - x0, y1 - y0);
            const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
            const label = roof_label(cluster, short);
            const words = label.length * 5.9;
            const start = x0 * dx + y0 * dy;
            const across = y0 * dx - x0 * dy;
            const free = (from) => placed.every(
                (box) => Math.abs(box.across - across) > 13.5 || from > box.to + 8 || from + words < box.from - 8);
            let along = 18;
            while (along + words < length - 6 && !free(start + along)) along += 10;
            if (along + words >= length - 6) continue;
            placed.push({ across, from: start + along, to: start + along + words });
            const [px, py] = [x0 + dx * along + dy * 5, y0 + dy * along - dx * 5];
            chart.add(svg("text", {
                class: "halo small",
                transform: `translate(${px.toFixed(1)} ${py.toFixed(1)}) ` +
                    `rotate(${((Math.atan2(dy, dx) * 180) / Math.PI).toFixed(1)})`
            },
                label.parts));
        }
    }
    const levels = cluster_lines(drawn.filter(({ line }) => line.level), ({ line }) => y(line.level), 10).reverse();
    let above = Infinity;
    for (const cluster of levels.length <= 16 ? levels : []) {
        above = Math.min(cluster[0].ends[1][1] - 4, above - 12.5);
        chart.add(svg("text", { class: "halo small", "text-anchor": "end", x: chart.right - 2, y: above.toFixed(1) },
            roof_label(cluster, short).parts));
    }
}

/* Where the active point would be if only Q moved, and where it is by D. */
function draw_wasted(layer, x, y, point) {
    layer.replaceChildren();
    if (!point) return;
    const { derived } = point.item;
    const clamp = (value) => x(Math.min(x.high, Math.max(x.low, value)));
    const places = [["Q", derived.intensity], ["D", derived.intensity_model]]
                       .concat(state.axis === "requested" ? [["requested", derived.intensity_requested]] : [])
                       .filter(([, value]) => is_positive(value));
    if (places.length < 2) return;
    const height = y(derived.flops_per_second);
    const at = places.map(([, value]) => clamp(value));
    layer.append(svg("path", { class: "wasted", d: `M${Math.min(...at)} ${height}H${Math.max(...at)}` }));
    const same = Math.abs(at[0] - at[1]) < 12;
    places.forEach(([name], n) => layer.append(svg("circle", { class: "wasted-end", cx: at[n], cy: height, r: 2.6 }),
                       svg("text", { class: "strong halo", x: at[n], y: height - 18, "text-anchor": "middle" },
                           same && n < 2 ? (n ? "" : "Q = D") : name)));
}

function roofline_points() {
    const { field } = AXES[state.axis];
    const items = filtered_items();
    const placed = items
                       .filter((item) => item.derived && is_positive(item.derived[field]) &&
                               is_positive(item.derived.flops_per_second))
                       .sort((a, b) => b.share - a.share || b.time.median - a.time.median);
    return { items, placed, drawn: placed.slice(0, POINTS_AT_ONCE) };
}

function draw_points(chart, x, y, items, field) {
    const narrow = chart.width < 620 ? 0.75 : 1;
    const points = [];
    for (const series of unique(items.map((item) => item.series))) {
        const group = svg("g", { style: `--s: ${series.colour}`, "data-series": series.tag });
        let bars = "";
        const marks = [];
        for (const item of items) {
            if (item.series !== series) continue;
            const cx = x(item.derived[field]);
            const cy = y(item.derived.flops_per_second);
            const r = Math.max(3.2, Math.min(15, 26 * Math.sqrt(item.share))) * narrow;
            const { p05, p95 } = item.time;
            if (is_positive(p05) && is_positive(p95))
                bars += `M${cx.toFixed(1)} ${y(item.flops / p95).toFixed(1)}V${y(item.flops / p05).toFixed(1)}`;
            const node = svg("path", {
                class: "point" + (item.derived.over_peak ? " over" : "") + (series.ring ? " ring" : ""),
                d: mark_path(item.class, r),
                transform: `translate(${cx.toFixed(1)} ${cy.toFixed(1)})`,
                "data-op": item.name,
            });
            marks.push(node);
            points.push({
                node,
                item,
                key: item.key,
                label: describe_item(item),
                content: () => item_content(item),
                box: [cx - r * 0.8, cy - r * 0.8, cx + r * 0.8, cy + r * 0.8]
            });
        }
        group.append(svg("path", { class: "whiskers", d: bars }), ...marks);
        chart.add(group);
    }
    return points.sort((a, b) => b.item.share - a.item.share);
}

function describe_points({ items, placed, drawn }) {
    const without = items.filter((item) => !item.time).length;
    const flopless = items.filter((item) => item.time && item.flops === 0).length;
    const others = items.length - placed.length - without - flopless;
    return [
        `${format_count(drawn.length)} of ${format_count(items.length)} operators`,
        placed.length > drawn.length &&
            `only the ${format_count(drawn.length)} with the largest share are drawn, choose fewer`,
        without && `${without} without a time with ${state.cache} caches`,
        flopless && `${flopless} without any flop: see the bandwidths below`, others && `${others} without a rate`
    ].filter((text) => text)
               .join("; ") +
        ".";
}

charts.set("roofline", {
    reads: [...ITEM_STATE, "axis", "roofs"],
    tools: () => [segments("axis", "Bytes", [["q", "Q"], ["model", "D (model)"], ["requested", "requested (cache)"]]),
        chips("roofs", "Lines",
            [["dram", "DRAM"], ["cache", "cache"], ["compute", "arithmetic"], ["theory", "theoretical"]])],
    draw(figure, width) {
        const found = roofline_points();
        const { field, name } = AXES[state.axis];
        const lines = shown_series().flatMap(roof_lines);
        const ridges = lines.filter((line) => line.slope && line.top).map((line) => line.top / line.slope);
        const fields = state.axis === "requested" ? [field] : ["intensity", "intensity_model"];
        const x_range = log_range(
            [
                ...found.drawn.flatMap((item) => fields.map((one) => item.derived[one])), ...ridges,
                ...(ridges.length && !found.drawn.length ? ridges.map((ridge) => ridge / 1000) : [])
            ],
            0.25);
        const rates = found.drawn.flatMap((item) => [item.derived.flops_per_second, item.flops / item.time.p95]);
        const levels = lines.filter((line) => line.level).map((line) => line.level);
        const y_range = log_range(
            [...rates, ...levels, ...(levels.length && !rates.length ? levels.map((level) => level / 1000) : [])], 0.2);
        if (!x_range || !y_range) {
            figure.append(html("p", { class: "note" }, "Nothing to draw: no ceilings, and no operators with a rate."));
            return;
        }
        y_range[1] *= 2; /* room for names */
        const chart = make_chart(figure, width, Math.round(Math.min(600, Math.max(380, width * 0.47))),
            { left: 52, right: 12, top: 22, bottom: 38 }, "Roofline: operators under their device's ceilings");
        const x = log_scale(...x_range, chart.left, chart.right);
        const y = log_scale(...y_range, chart.bottom, chart.top);
        draw_axes(chart, x, y, { x: chart.width < 620 ? "flop per byte" : name, y: "flop/s" });
        const drawn =
            lines.map((line) => ({ line, ends: draw_roof_line(chart, x, y, line) })).filter(({ ends }) => ends);
        label_roofs(chart, y, drawn);
        const points = draw_points(chart, x, y, found.drawn, field);
        const wasted = svg("g", { style: "pointer-events: none" });
        chart.add(wasted);
        interactive(chart, points, { on_active: (point) => draw_wasted(wasted, x, y, point) });
        figure.append(html("p", { class: "charted" }, describe_points(found)));
    },
    tables: () =>
        [{ title: "Table: operators", make: () => items_table("Operators by the filters above", filtered_items()) },
            { title: "Table: ceilings", make: ceilings_table }],
});

function ceilings_table() {
    const rows =
        shown_series().flatMap((series) => [...series.ceilings.map((ceiling) => ({ series, ...ceiling })),
                                   ...(series.theory_bandwidth ? [{
                                       series,
                                       id: "dram, theoretical",
                                       unit: "B/s",
                                       value: series.theory_bandwidth,
                                       config: "by the " + format_text(object(series.device.theoretical).source)
                                   }]
                                                               : []),
                                   ...(series.theory_flops ? [{
                                       series,
                                       id: "compute, theoretical",
                                       unit: "flop/s",
                                       value: series.theory_flops,
                                       config: "by the " + format_text(object(series.device.theoretical).source)
                                   }]
                                                           : []),
    ]);
    const by_time = (row, seconds) => row.unit === "s"                 ? seconds
        : is_positive(seconds) && is_positive(object(row.time).median) ? (row.value * row.time.median) / seconds
                                                                       : null;
    const span = (row, low, high) => {
        const ends = [by_time(row, low), by_time(row, high)].sort((a, b) => a - b);
        return ends.every(is_positive) ? ends.map((end) => format_by_unit(end, row.unit)).join(" to ") : NONE;
    };
    return make_table({
        caption: `Ceilings. ${NONE}: not measured`,
        rows,
        columns: [
            { name: "ceiling", value: (row) => row.id },
            { name: "device", value: (row) => row.series.tag, left: true },
            { name: "value", value: (row) => row.value, text: (value, row) => format_by_unit(value, row.unit) },
            {
                name: "95 % of the median",
                value: () => null,
                text: (value, row) => span(row, list(object(row.time).ci95)[1], list(object(row.time).ci95)[0])
            },
            {
                name: "p05 to p95 of time",
                value: (row) => object(row.time).p05,
                text: (value, row) => format_span(object(row.time).p05, object(row.time).p95)
            },
            { name: "runs", value: (row) => object(row.time).n, text: format_count },
            { name: "best", value: (row) => (row.best ? "best" : ""), text: (value) => value, left: true },
            { name: "how", value: (row) => row.config, left: true },
            { name: "type", value: (row) => row.dtype, left: true },
            { name: "data", value: (row) => row.data_kind, left: true },
            { name: "footprint", value: (row) => row.footprint_bytes, text: format_bytes },
        ],
    });
}
