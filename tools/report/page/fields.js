/* All that is known of one operator: for its card, and as columns of tables. */

/* What lies above a measured ceiling is never shown without saying so. */
const marked = (text, item) => text + (item.derived && item.derived.over_peak && text !== NONE ? " !" : "");

const describe_item = (item) => `${item.name}, ${item.plan}, ${item.phase}, ${item.series.label}: ${
                                    format_seconds(item.time && item.time.median)}, ` +
    (item.derived ? `${format_bandwidth(item.derived.bandwidth)}, ${format_flops(item.derived.flops_per_second)}, ` +
                `${format_percent(item.derived.roof_memory)} of roof, ${item.derived.regime}`
                  : "no time") +
    (item.derived && item.derived.over_peak ? ", above a measured ceiling" : "");

const read_write = (read, write) => `${format_bytes(read)} + ${format_bytes(write)}`;

function time_fields(name, time) {
    if (!time) return [[name, "not measured"]];
    const span = list(time.ci95);
    return [
        [name, `${format_seconds(time.median)} (median of ${format_count(time.n)})`],
        ["p05 to p95", format_span(time.p05, time.p95)],
        ["95 % of the median", format_span(span[0], span[1])],
        ["min, first run", `${format_seconds(time.min)}, ${format_seconds(time.first)}`],
        ["spread, outliers", `${is_number(time.cv) ? format_percent(time.cv) : NONE}, ${format_count(time.outliers)}`],
    ];
}

function item_variant(item) {
    const first = item.ops[0];
    const kernels = unique(item.ops.map((op) => format_text(op.kernel)));
    const variants = unique(item.ops.map((op) => op.variant).filter((variant) => variant));
    return kernels.join(", ") + (variants.length ? ` (${variants.join("; ")})` : "") +
        (object(first.dtype).store ? `, ${first.dtype.store} stored, ${format_text(first.dtype.accumulate)} summed`
                                   : "");
}

function item_layers(item) {
    if (item.ops.length > 1) return `${item.ops.length} merged: sums and means by time`;
    return item.layers[0] < 0 ? "outside of layers" : String(item.layers[0]);
}

function item_content(item) {
    const d = item.derived || {};
    const other = state.cache === "warm" ? "cold" : "warm";
    const row = item.ops[0].paper_row;
    return [
        html("h3", null, class_glyph(item.class, item.series.colour), item.name),
        html("p", { class: "of" }, `${item.plan} · ${item.phase} · ${item.class}`, html("br"),
            `${item.series.tag}  ${item.series.label}`),
        d.over_peak &&
            html("p", { class: "flag" },
                "! above a measured ceiling" + (item.remeasured ? `, measured again ${item.remeasured} times` : "")),
        !item.timer_ok && html("p", { class: "flag" }, "! its timer is not to be trusted: no rates"),
        field_list([
            ...time_fields(`time, ${state.cache}`, item.time),
            [`time, ${other}`, item[other] ? format_seconds(item[other].median) : "not measured"],
            ["share of the step", format_percent(item.share)],
            "rule",
            ["regime", d.regime || NONE],
            ["of the memory roof", marked(format_percent(d.roof_memory), item), d.over_peak],
            ["of the cache roof", format_percent(d.roof_cache)],
            ["of a copy's rate", format_percent(d.copy_share)],
            ["MUE = Q/D × B/B̂", `${format_percent(d.mue)} = ${factors_text(d)}`],
            ["MUE, theoretical peak", format_percent(d.mue_theoretical)],
            ["limit, headroom", `${format_seconds(d.limit_seconds)}, ${format_ratio(d.headroom)}`],
            "rule",
            ["flop", si(item.flops, "flop")],
            ["rate", format_flops(d.flops_per_second)],
            ["bandwidth D/t", marked(format_bandwidth(d.bandwidth), item), d.over_peak],
            ["bandwidth Q/t", format_bandwidth(d.bandwidth_unique)],
            ["requested / t", format_bandwidth(d.bandwidth_requested)],
            [
                "flop/byte Q, D, requested",
                [d.intensity, d.intensity_model, d.intensity_requested].map(format_number).join(", ")
            ],
            "rule",
            ["Q, read + written", read_write(item.q_r, item.q_w)],
            ["D, as written", is_number(item.d) ? read_write(item.d_r, item.d_w) : "not modelled"],
            ["requested", is_number(item.requested) ? read_write(item.requested_r, item.requested_w) : "not modelled"],
            ["D, counted", item.counted === null ? "not counted" : format_bytes(item.counted)],
            ["footprint", format_bytes(item.footprint)],
            "rule",
            ["kernel", item_variant(item)],
            ["launches, operators", `${format_count(item.launches)}, ${format_count(item.operators)}`],
            ["layer", item_layers(item)],
            row ? ["row of the paper's table", String(row)] : ["row of the paper's table", NONE],
        ]),
    ].filter((node) => node);
}

const derived_column = (name, field, text, title) =>
    ({ name, title, value: (item) => (item.derived ? item.derived[field] : null), text });

/* Of a column that a ceiling bounds. */
const bounded_column = (name, field, text) => ({
    ...derived_column(name, field, (value, item) => marked(text(value), item)),
    flag: (item) => item.derived && item.derived.over_peak
});

const ITEM_COLUMNS = [
    { name: "operator", value: (item) => item.name },
    { name: "device", value: (item) => item.series.tag, left: true, title: "its letter, see Devices" },
    { name: "plan", value: (item) => item.plan, left: true },
    { name: "phase", value: (item) => item.phase, left: true },
    { name: "class", value: (item) => item.class, left: true },
    { name: "time", value: (item) => item.time && item.time.median, text: format_seconds },
    { name: "p05", value: (item) => item.time && item.time.p05, text: format_seconds },
    { name: "p95", value: (item) => item.time && item.time.p95, text: format_seconds },
    { name: "share", value: (item) => item.share, text: format_percent },
    { name: "flop", value: (item) => item.flops, text: (value) => si(value, "flop") },
    { name: "Q", value: (item) => item.q, text: format_bytes, title: "bytes, each tensor once" },
    { name: "D", value: (item) => item.d, text: format_bytes, title: "bytes that the kernel is written to move" },
    bounded_column("D/t", "bandwidth", format_bandwidth),
    bounded_column("flop/t", "flops_per_second", format_flops),
    derived_column("flop/B (Q)", "intensity", format_number),
    derived_column("flop/B (D)", "intensity_model", format_number),
    bounded_column("of roof", "roof_memory", format_percent),
    bounded_column("MUE", "mue", format_percent),
    derived_column("Q/D", "q_over_d", format_number),
    bounded_column("B/B̂", "b_over_peak", format_number),
    derived_column("headroom", "headroom", format_ratio),
    {...derived_column("regime", "regime", format_text), left: true },
    { name: "kernel", value: (item) => format_text(item.ops[0].kernel), left: true },
];

const items_table = (caption, items) => make_table({
    caption: `${caption}; ${state.cache} caches. ${NONE}: not measured. !: above a measured ceiling`,
    columns: ITEM_COLUMNS,
    rows: items,
    key_of: (item) => item.key
});
