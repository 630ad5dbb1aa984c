/* Two series against each other: each operator's time in B over its time in A, the largest loss first. */

const DIFF_ROWS = 40;

/* The widest that both medians' intervals allow: it excludes 1 just when these do not overlap. */
function ratio_of(a, b) {
    const [a_low, a_high] = list(a.time.ci95);
    const [b_low, b_high] = list(b.time.ci95);
    const sure = [a_low, a_high, b_low, b_high].every(is_positive);
    const low = sure ? b_low / a_high : null;
    const high = sure ? b_high / a_low : null;
    const verdict = sure && low > 1 ? "lost" : sure && high < 1 ? "won" : "even";
    return {
        name: a.name,
        a,
        b,
        ratio: b.time.median / a.time.median,
        low,
        high,
        verdict,
        lost: b.time.median - a.time.median
    };
}

function compare() {
    const [one, other] = [all_series[state.diff_a], all_series[state.diff_b]];
    const items = (series) => filtered_items([series]).filter((item) => item.time);
    const of_a = items(one);
    const of_b = new Map(items(other).map((item) => [item.kind, item]));
    const rows = of_a.filter((item) => of_b.has(item.kind)).map((item) => ratio_of(item, of_b.get(item.kind)));
    rows.sort((p, q) => q.lost - p.lost);
    const kinds = new Set(of_a.map((item) => item.kind));
    return {
        one,
        other,
        rows,
        only_a: of_a.length - rows.length,
        only_b: [...of_b.keys()].filter((kind) => !kinds.has(kind)).length
    };
}

const VERDICTS = {
    lost: "slower",
    won: "faster",
    even: "not separated"
};
const signed_seconds = (value) => (value > 0 ? "+" : "") + format_seconds(value);
const span_text = (row) => (is_number(row.low) ? `${format_number(row.low)} to ${format_number(row.high)}` : NONE);

const diff_content = (row) => [html("h3", null, class_glyph(row.a.class), row.name),
    html("p", { class: "of" }, `${row.a.plan} · ${row.a.phase} · ${row.a.class}`),
    field_list([
        ["B over A", format_ratio(row.ratio)],
        ["95 % of the ratio", span_text(row)],
        ["verdict", VERDICTS[row.verdict]],
        ["time lost", signed_seconds(row.lost)],
        "rule",
        ...time_fields("A", row.a.time),
        ["A, bandwidth D/t", format_bandwidth(row.a.derived.bandwidth)],
        ["A, MUE", format_percent(row.a.derived.mue)],
        ["A, kernel", item_variant(row.a)],
        "rule",
        ...time_fields("B", row.b.time),
        ["B, bandwidth D/t", format_bandwidth(row.b.derived.bandwidth)],
        ["B, MUE", format_percent(row.b.derived.mue)],
        ["B, kernel", item_variant(row.b)],
    ]),
];

function describe_diff({ one, other, rows, only_a, only_b }) {
    const sum = (side) => total(rows.map((row) => row[side].time.median));
    const [a, b] = [sum("a"), sum("b")];
    const count = (verdict) => rows.filter((row) => row.verdict === verdict).length;
    return `${rows.length} operators in both: A ${format_seconds(a)}, B ${format_seconds(b)} (${signed(b / a - 1)}); ` +
        `B is slower in ${count("lost")}, faster in ${count("won")}, not separated in ${count("even")}.` +
        (only_a || only_b ? ` Only in A: ${only_a}; only in B: ${only_b}.` : "") +
        ` A: ${one.tag} ${one.label}. B: ${other.tag} ${other.label}.`;
}

function draw_ratios(figure, width, rows) {
    const wide = width >= 700;
    const step = 18;
    const margin = { left: wide ? 200 : 112, right: wide ? 250 : 74, top: 26, bottom: 8 };
    const chart =
        make_chart(figure, width, margin.top + rows.length * step + margin.bottom, margin, "Ratio of times, B over A");
    const [low, high] = log_range([...rows.flatMap((row) => [row.ratio, row.low, row.high]), 1], 0.03, 0.1);
    const x = log_scale(low, high, chart.left, chart.right);
    const ticks = high / low < 8 ? linear_scale(low, high, chart.left, chart.right).ticks(wide ? 70 : 52)
                                 : x.ticks(wide ? 70 : 52);
    for (const value of ticks) {
        if (value <= 0) continue;
        chart.add(svg("path", { class: "grid", d: `M${x(value)} ${chart.top - 4}V${chart.height - 6}` }),
            svg("text", { class: "small", x: x(value), y: chart.top - 8, "text-anchor": "middle" },
                tick_text(value, "×")));
    }
    chart.add(svg("path", { class: "edge", d: `M${x(1)} ${chart.top - 4}V${chart.height - 6}` }));
    const head = (at, text) =>
        chart.add(svg("text", { class: "small", x: at, y: chart.top - 8, "text-anchor": "end" }, text));
    head(width - 2, wide ? "time lost" : "lost");
    if (wide) [[width - 178, "A"], [width - 108, "B"]].forEach(([at, text]) => head(at, text));
    const points = rows.map((row, n) => {
        const top = chart.top + n * step;
        const middle = top + step / 2;
        const node = svg("g", { class: "row", "data-op": row.name, "data-verdict": row.verdict },
            svg("rect", { class: "hit", x: 0, y: top, width, height: step }),
            svg("text", { class: "ink", x: 16, y: middle + 4 },
                clip(row.name + (state.plan === "all" ? " · " + row.a.plan : ""), margin.left - 24)),
            svg("path",
                { d: mark_path(row.a.class, 3.8), transform: `translate(7 ${middle})`, style: "fill: var(--soft)" }),
            is_number(row.low) && svg("path", {
                class: "whisker",
                d: `M${x(row.low)} ${middle}H${x(row.high)}M${x(row.low)} ${middle - 3}v6M${x(row.high)} ${
                    middle - 3}v6`
            }),
            /* Slower points right, faster left, neither is a ring: readable without colour. */
            svg("path", {
                class: "ratio " + row.verdict,
                transform: `translate(${x(row.ratio)} ${middle})`,
                d: { lost: "M-4 -5L5 0L-4 5Z",
                    won: "M4 -5L-5 0L4 5Z",
                    even: mark_path("elementwise", 3.8) }[row.verdict]
            }),
            svg("text", {
                class: "small " + (row.verdict === "even" ? "" : row.verdict),
                x: width - 2,
                y: middle + 4,
                "text-anchor": "end"
            },
                signed_seconds(row.lost)),
            wide &&
                svg("text", { class: "small ink", x: width - 178, y: middle + 4, "text-anchor": "end" },
                    format_seconds(row.a.time.median)),
            wide &&
                svg("text", { class: "small ink", x: width - 108, y: middle + 4, "text-anchor": "end" },
                    format_seconds(row.b.time.median)));
        chart.add(node);
        return {
            node,
            key: row.b.key,
            content: () => diff_content(row),
            box: [0, top, width, top + step],
            label: `${row.name}, ${row.a.plan}: B over A ${format_ratio(row.ratio)}, ${span_text(row)}, ${
                VERDICTS[row.verdict]}, ${signed_seconds(row.lost)}`
        };
    });
    interactive(chart, points, { reach: 0, rows: true });
}

const diff_possible = () => all_series.filter((series) => series.ops.length).length >= 2;

charts.set("diff", {
    reads: [...ITEM_STATE, "diff_a", "diff_b", "diff_all"],
    tools() {
        if (!diff_possible()) return [];
        const [first, ...others] = all_series.filter((series) => series.ops.length);
        const choices = [first, ...others].map((series) => [series.index, series.tag + "  " + series.label]);
        state.diff_a = first.index;
        /* Of the same work, so that there is something to compare. */
        state.diff_b = (others.find((series) => series.workload === first.workload) || others[0]).index;
        return [dropdown("diff_a", "A", choices), dropdown("diff_b", "B", choices), toggle("diff_all", "all rows")];
    },
    draw(figure, width) {
        if (!diff_possible()) {
            figure.append(html("p", { class: "note" },
                "This needs two records with operators: wherry report A.json B.json -o page.html"));
            return;
        }
        const found = compare();
        const { rows } = found;
        figure.append(html("p", { class: "note" },
            rows.length
                ? describe_diff(found)
                : "These two have no operator in common by these filters. Choose another plan, or other records."));
        if (!rows.length) return;
        /* The ends of the list: what B loses, and what it wins. */
        const half = DIFF_ROWS / 2;
        const cut = !state.diff_all && rows.length > DIFF_ROWS;
        draw_ratios(figure, width, cut ? [...rows.slice(0, half), ...rows.slice(-half)] : rows);
        if (cut)
            figure.append(html("p", { class: "charted" },
                `The ${half} that lose most and the ${half} that win most of ${rows.length}.`));
    },
    tables: () => (diff_possible() ? [{
        title: "Table: difference",
        make: () => make_table({
            caption: "B against A, by time lost",
            rows: compare().rows,
            key_of: (row) => row.b.key,
            columns: [
                { name: "operator", value: (row) => row.name },
                { name: "plan", value: (row) => row.a.plan, left: true },
                { name: "phase", value: (row) => row.a.phase, left: true },
                { name: "class", value: (row) => row.a.class, left: true },
                { name: "A", value: (row) => row.a.time.median, text: format_seconds },
                { name: "B", value: (row) => row.b.time.median, text: format_seconds },
                { name: "B/A", value: (row) => row.ratio, text: format_ratio },
                { name: "95 % of the ratio", value: (row) => row.low, text: (value, row) => span_text(row) },
                { name: "time lost", value: (row) => row.lost, text: signed_seconds },
                {
                    name: "verdict",
                    value: (row) => VERDICTS[row.verdict],
                    left: true,
                    flag: (row) => row.verdict === "lost"
                },
            ]
        })
    }]
                                   : []),
});
