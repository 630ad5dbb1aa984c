/* The bandwidth strip: a row for each kind of operator, a bar for each device. */

const BAR = 10;

const strip_layers = () => (state.layers === "each" ? "merged" : state.layers);

/* [{name, items}], the items in the order of devices. */
function strip_rows() {
    const rows = new Map();
    for (const item of filtered_items(shown_series(), strip_layers())) {
        if (!item.time) continue;
        if (!rows.has(item.kind)) rows.set(item.kind, { item, items: [] });
        rows.get(item.kind).items.push(item);
    }
    const all = [...rows.values()];
    const most = (row, value) => largest(row.items.map(value));
    if (state.strip_order === "time") all.sort((a, b) => most(b, (item) => item.share) - most(a, (item) => item.share));
    if (state.strip_order === "bandwidth") {
        const by = (item) => item.derived[state.strip_scale === "peak" ? "b_over_peak" : "bandwidth"];
        all.sort((a, b) => most(b, by) - most(a, by));
    }
    return all;
}

const factors_text = (derived) =>
    (is_number(derived.mue) ? `${format_percent(derived.q_over_d)} × ${format_percent(derived.b_over_peak)}` : NONE);

/* How long the parts of a bar are, in the scale's unit; null: not known. */
function strip_lengths(item) {
    const { derived, series } = item;
    const peak = series.dram ? series.dram.value : null;
    if (state.strip_scale === "absolute") return { moved: derived.bandwidth, useful: derived.bandwidth_unique, peak };
    if (!is_positive(derived.b_over_peak)) return { moved: null, useful: null, peak: null };
    return { moved: derived.b_over_peak, useful: derived.mue, peak: 1 };
}

function draw_strip_bar(chart, scale, item, top, columns) {
    const { moved: length, useful, peak } = strip_lengths(item);
    const { series, derived } = item;
    const bar =
        svg("g", { class: "row", style: `--s: ${series.colour}`, "data-op": item.name, "data-series": series.tag });
    /* What is far above its peak goes on, which an arrow says, so that it does not flatten the others. */
    const cut = (value) => scale(Math.min(value, scale.high));
    const block = (from, to, attributes) => bar.append(
        svg("rect", { x: cut(from), y: top, height: BAR, width: Math.max(0, cut(to) - cut(from)), ...attributes }));
    bar.append(svg("rect", { class: "hit", x: 0, y: top - 1.5, width: chart.width, height: BAR + 3 }));
    if (is_positive(peak)) block(0, peak, { class: "track" });
    if (is_positive(length)) {
        const solid = is_positive(useful) ? Math.min(useful, length) : length;
        if (cut(solid) < cut(length))
            bar.append(filled(
                "again", { x: cut(solid), y: top, width: cut(length) - cut(solid), height: BAR }, null, series.colour));
        block(0, solid, { class: "useful" });
        if (derived.over_peak) block(0, length, { class: "bar-over", style: "fill: var(--paper); fill-opacity: 0.6" });
        if (is_positive(useful) && useful <= scale.high)
            bar.append(svg("path", { class: "mue", d: `M${scale(useful)} ${top - 1.5}v${BAR + 3}` }));
        if (length > scale.high)
            bar.append(svg("path", { class: "useful", d: `M${chart.right + 2} ${top}l7 ${BAR / 2}l-7 ${BAR / 2}z` }));
    }
    if (is_positive(peak)) bar.append(svg("path", { class: "edge", d: `M${scale(peak)} ${top - 1.5}v${BAR + 3}` }));
    for (const [at, text, attributes] of columns(item))
        bar.append(
            svg("text", { x: at, y: top + BAR - 1, "text-anchor": "end", class: "small ink", ...attributes }, text));
    if (chart.tags)
        bar.append(svg("text", { class: "small of-series", x: chart.left - 5, y: top + BAR - 1, "text-anchor": "end" },
            series.tag));
    return bar;
}

charts.set("strip", {
    reads: [...ITEM_STATE, "strip_scale", "strip_order"],
    tools: () => [segments("strip_scale", "Scale", [["peak", "% of own peak"], ["absolute", "absolute"]]),
        segments("strip_order", "Order", [["run", "as run"], ["time", "by time"], ["bandwidth", "by bandwidth"]])],
    draw(figure, width) {
        const rows = strip_rows();
        if (!rows.length) {
            figure.append(html("p", { class: "note" }, "No operators with a time by these filters."));
            return;
        }
        const wide = width >= 700;
        const bars = rows.reduce((sum, row) => sum + row.items.length, 0);
        const name_width = Math.min(wide ? 210 : 118,
            34 + 6.3 * largest(rows.map((row) => row.item.name.length)) + (state.plan === "all" ? 60 : 0));
        const right = wide ? 226 : 74;
        const height = 34 + bars * (BAR + 3) + rows.length * 7 + 8;
        const chart = make_chart(figure, width, height, { left: name_width, right, top: 30, bottom: 6 },
            "Bandwidth of each kind of operator against its device's memory");
        chart.tags = unique(rows.flatMap((row) => row.items.map((item) => item.series))).length > 1;
        const lengths = rows.flatMap((row) => row.items.flatMap((item) => Object.values(strip_lengths(item))));
        const peaks = largest(rows.flatMap((row) => row.items.map((item) => strip_lengths(item).peak)));
        const most = Math.max(state.strip_scale === "peak" ? 1 : 0, largest(lengths));
        const scale =
            linear_scale(0, is_positive(most) ? Math.min(most, is_positive(peaks) ? 1.5 * peaks : most) * 1.015 : 1,
                chart.left, chart.right);
        const unit = state.strip_scale === "peak" ? "%" : "B/s";
        for (const value of scale.ticks(wide ? 90 : 60)) {
            chart.add(svg("path", { class: "grid", d: `M${scale(value)} ${chart.top - 4}V${height - 4}` }),
                svg("text", { class: "small", x: scale(value), y: chart.top - 8, "text-anchor": "middle" },
                    tick_text(value, unit)));
        }
        const head = (at, text) => svg("text", { class: "small", x: at, y: chart.top - 8, "text-anchor": "end" }, text);
        const columns = wide
            ? (item) => [[width - 150, marked(format_bandwidth(item.derived.bandwidth), item)],
                  [width - 98, format_percent(item.derived.mue)], [width - 4, factors_text(item.derived)]]
            : (item) => [[
                  width - 2,
                  marked(state.strip_scale === "peak" ? format_percent(item.derived.b_over_peak)
                                                      : format_bandwidth(item.derived.bandwidth),
                      item)
              ]];
        chart.add(wide ? [head(width - 150, "bytes/time"), head(width - 98, "MUE"), head(width - 4, "Q/D × B/B̂")]
                       : head(width - 2, state.strip_scale === "peak" ? "B/B̂" : "rate"));
        const points = [];
        let top = chart.top + 4;
        for (const row of rows) {
            const middle = top + (row.items.length * (BAR + 3) - 3) / 2;
            const name = row.item.name + (state.plan === "all" ? " · " + row.item.plan : "");
            chart.add(svg("path", {
                d: mark_path(row.item.class, 3.8),
                transform: `translate(7 ${middle})`,
                style: "fill: var(--soft)"
            }),
                svg("text", { class: "ink", x: 16, y: middle + 4 }, clip(name, name_width - 34),
                    svg("title", null, name)));
            for (const item of row.items) {
                const node = draw_strip_bar(chart, scale, item, top, columns);
                chart.add(node);
                points.push({
                    node,
                    item,
                    key: item.key,
                    label: describe_item(item),
                    content: () => item_content(item),
                    box: [0, top - 1.5, width, top + BAR + 1.5]
                });
                top += BAR + 3;
            }
            top += 7;
        }
        interactive(chart, points, { reach: 0, rows: true });
        figure.append(html("p", { class: "charted" },
            `${format_count(rows.length)} kinds of operator, ${format_count(bars)} bars` +
                (state.layers === "each" ? "; merged over layers here." : ".")));
    },
    tables: () => [{
        title: "Table: bandwidths",
        make: () => items_table(
            "Operators by the filters above, merged over layers", filtered_items(shown_series(), strip_layers()))
    }],
});
