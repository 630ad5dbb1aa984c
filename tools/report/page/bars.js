/* Stacked bars: parts of a time or an amount, one bar a row, rows under the device that they belong to. */

/* groups: [{series, rows: [{name, parts: [{fill, name, value}], split, right, content, label}]}]; `split`: a value
 * where an upright mark divides the bar. Parts that are not positive have no length. */
function draw_bars(figure, width, groups, { label, unit, whole, room = 150 }) {
    const wide = width >= 560;
    const right = wide ? room : 16;
    const left = wide ? 92 : 14;
    const [head, step, thick] = [20, wide ? 23 : 35, 15];
    const rows = groups.flatMap((group) => group.rows);
    const height = 26 + groups.length * (head + 6) + rows.length * step + 4;
    const chart = make_chart(figure, width, height, { left, right, top: 22, bottom: 4 }, label);
    const lengths = rows.map((row) => row.parts.reduce((sum, part) => sum + Math.max(0, part.value), 0));
    const scale = linear_scale(0, whole || Math.max(...lengths, 1e-30) * 1.01, chart.left, chart.right);
    for (const value of scale.ticks(wide ? 80 : 62)) {
        chart.add(svg("path", { class: "grid", d: `M${scale(value)} ${chart.top - 2}V${height - 2}` }),
            svg("text", { class: "small", x: scale(value), y: chart.top - 6, "text-anchor": "middle" },
                tick_text(value, unit)));
    }
    const points = [];
    let top = chart.top + 2;
    for (const group of groups) {
        chart.add(svg("text", { class: "strong halo", x: 2, y: top + 13 },
            clip(`${group.series.tag}  ${group.series.label}`, width - 8)));
        top += head;
        for (const row of group.rows) {
            const bar_top = top + (wide ? 3 : 15);
            const node = svg("g", { class: "row", "data-row": row.name, "data-series": group.series.tag },
                svg("rect", { class: "hit", x: 0, y: top, width, height: step }));
            let from = 0;
            for (const part of row.parts) {
                if (!is_positive(part.value)) continue;
                const [x0, x1] = [scale(from), scale(from + part.value)];
                node.append(filled(part.fill, { x: x0, y: bar_top, width: Math.max(0.5, x1 - x0), height: thick },
                    { "data-part": part.name }));
                const words = [part.text, part.short].find((text) => text && x1 - x0 > text.length * 5.9 + 8);
                if (words && part.fill !== "gap")
                    node.append(svg("text", { class: "inside", x: x0 + 5, y: bar_top + 11.5 }, words));
                from += part.value;
            }
            if (is_positive(row.split))
                node.append(svg("path", { class: "mue", d: `M${scale(row.split)} ${bar_top - 3}v${thick + 6}` }));
            if (wide) {
                node.append(svg("text", { class: "ink", x: left - 8, y: bar_top + 12, "text-anchor": "end" },
                                clip(row.name, left - 20)),
                    svg("text", { class: "small ink", x: width - 4, y: bar_top + 11, "text-anchor": "end" },
                        row.right));
            } else {
                node.append(svg("text", { class: "ink halo", x: 4, y: top + 11 }, clip(row.name, 130)),
                    svg("text", { class: "small ink halo", x: width - 4, y: top + 11, "text-anchor": "end" },
                        row.right));
            }
            chart.add(node);
            points.push({ node, label: row.label, content: row.content, box: [0, top, width, top + step] });
            top += step;
        }
        top += 6;
    }
    interactive(chart, points, { reach: 0, rows: true });
}

const bar_content =
    (title, of, fields) => [html("h3", null, title), html("p", { class: "of" }, of), field_list(fields)];
