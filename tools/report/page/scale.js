/* From numbers to pixels: logarithmic and linear scales, their ticks, and axes. */

function log_scale(low, high, from, to) {
    const a = Math.log10(low);
    const b = Math.log10(high);
    const scale = (value) => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
    scale.low = low;
    scale.high = high;
    scale.ticks = (room) => {
        const decades = b - a;
        const fit = Math.max(2, Math.abs(to - from) / room);
        const step = Math.max(1, Math.ceil(decades / fit));
        const marks = decades < 1.2 && fit > 3 ? [1, 2, 5] : decades < 2.2 && fit > 5 ? [1, 3] : [1];
        const ticks = [];
        for (let e = Math.floor(a); e <= Math.ceil(b); e++) {
            if (((e % step) + step) % step) continue;
            for (const mark of marks) {
                const value = mark * 10 ** e;
                if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
            }
        }
        return ticks;
    };
    return scale;
}

function linear_scale(low, high, from, to) {
    const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
    scale.low = low;
    scale.high = high;
    scale.ticks = (room) => {
        const rough = (high - low) / Math.max(2, Math.abs(to - from) / room);
        const size = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 5, 10].find((mark) => mark * size >= rough) * size;
        const ticks = [];
        for (let n = Math.ceil(low / step); n * step <= high * 1.0001; n++) ticks.push(n * step);
        return ticks;
    };
    return scale;
}

/* Around positive values, with room of `pad` decades at both ends and `least` in all; null without any. */
function log_range(values, pad = 0.15, least = 0.6) {
    const all = values.filter(is_positive);
    if (!all.length) return null;
    const low = all.reduce((least, value) => Math.min(least, value));
    const high = all.reduce((most, value) => Math.max(most, value));
    const grow = 10 ** Math.max(pad, (least - Math.log10(high / low)) / 2);
    return [low / grow, high * grow];
}

/* "1 T", "100 G", "0.1": ticks of a unit, short. */
function tick_text(value, unit) {
    const short = (number) => String(Number(number.toPrecision(3)));
    if (unit === "s") {
        if (value === 0) return "0";
        const [size, name] = TIME_UNITS.find(([one]) => Math.abs(value) >= one * 0.9995) || TIME_UNITS[3];
        return short(value / size) + SPACE + name;
    }
    if (unit === "%") return short(100 * value) + SPACE + "%";
    if (unit === "×") return short(value) + "×";
    if (value === 0) return "0";
    const [size, prefix] = PREFIXES.find(([one]) => Math.abs(value) >= one * 0.9995) || [1, ""];
    return short(value / size) + (prefix || unit ? SPACE + prefix : "") + (unit || "");
}

/* An empty chart: {node, plot area, add(...)}. Sizes are of the screen, so that text keeps its size. */
function make_chart(figure, width, height, margin, label) {
    const node = svg("svg", {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: "group",
        "aria-label": label,
        style: `aspect-ratio: ${width} / ${height}`,
    });
    figure.append(node);
    return {
        node,
        width,
        height,
        left: margin.left,
        right: width - margin.right,
        top: margin.top,
        bottom: height - margin.bottom,
        add: (...children) => node.append(...children.flat(Infinity).filter((child) => child)),
    };
}

function draw_axes(chart, x, y, names) {
    const { left, right, top, bottom } = chart;
    const short = right - left < 420;
    for (const value of x.ticks(short ? 48 : 70)) {
        const at = x(value);
        chart.add(svg("path", { class: "grid", d: `M${at} ${top}V${bottom}` }),
            svg("text", { x: at, y: bottom + 15, "text-anchor": "middle" }, tick_text(value, names.x_unit)));
    }
    for (const value of y.ticks(34)) {
        const at = y(value);
        chart.add(svg("path", { class: "grid", d: `M${left} ${at}H${right}` }),
            svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, tick_text(value, names.y_unit)));
    }
    chart.add(svg("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }),
        svg("text", { class: "ink", x: right, y: bottom + 31, "text-anchor": "end" }, names.x),
        svg("text", { class: "ink", x: 2, y: top - 8 }, names.y));
}

/* ---- marks ---- */

/* Outline of a class's mark around 0, 0, with the area of a circle of radius r. */
function mark_path(name, r) {
    if (name === "contraction") {
        const side = 2.694 * r;
        const up = side * 0.5774;
        return `M0 ${- up}L${side / 2} ${up / 2}H${- side / 2}Z`;
    }
    if (name === "normalization") {
        const half = 0.886 * r;
        return `M${- half} ${- half}H${half}V${half}H${- half}Z`;
    }
    if (name === "elementwise") return `M${- r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${- 2 * r} 0Z`;
    const half = 1.253 * r;
    return `M0 ${- half}L${half} 0L0 ${half}L${- half} 0Z`;
}

const class_glyph = (name, colour) => svg("svg",
    { class: "glyph", viewBox: "-6 -6 12 12", "aria-hidden": "true", style: colour ? `--s: ${colour}` : null },
    svg("path", { d: mark_path(name, 4.6) }));

/* Fills that differ without colour, too: plain, stripes, dots, crosses, rising stripes. */
const FILLS = {
    contraction: ["--contraction", "plain"],
    normalization: ["--normalization", "stripes"],
    elementwise: ["--elementwise", "dots"],
    other: ["--other", "crosses"],
    gap: ["--faint", "empty"],
    compute: ["--compute", "plain"],
    memory: ["--memory", "stripes"],
    cache: ["--cached", "dots"],
    launch: ["--launching", "crosses"],
    unknown: ["--unknown", "rising"],
};
const HATCH = 6; /* pixels from line to line */

/* The lines or dots of a fill within a box, as the data of one path. They are drawn, not an SVG pattern: browsers print
 * each use of a pattern as an image of the page's size. */
function hatch_path(kind, { x, y, width, height }) {
    const [right, bottom] = [x + width, y + height];
    const at = (a, b) => `${a.toFixed(1)} ${b.toFixed(1)}`;
    const first = (from) => Math.ceil(from / HATCH) * HATCH;
    let path = "";
    if (kind === "crosses") {
        for (let a = first(x); a < right; a += HATCH) path += `M${at(a, y)}V${bottom.toFixed(1)}`;
        path += `M${at(x, y + height / 2)}H${right.toFixed(1)}`;
    } else if (kind === "dots") {
        for (let b = y + 3; b < bottom - 1; b += HATCH - 1.5) {
            const shift = Math.round((b - y - 3) / (HATCH - 1.5)) % 2 ? HATCH / 2 : 0;
            for (let a = first(x) + shift; a < right - 1; a += HATCH)
                if (a > x + 1) path += `M${at(a, b)}h0.1`;
        }
    } else if (kind === "rising") { /* a - b is the same along a line */
        for (let c = first(x - bottom); c < right - y; c += HATCH) {
            const [from, to] = [Math.max(x, c + y), Math.min(right, c + bottom)];
            if (to > from) path += `M${at(from, from - c)}L${at(to, to - c)}`;
        }
    } else if (kind !== "plain") { /* a + b is */
        for (let c = first(x + y); c < right + bottom; c += HATCH) {
            const [from, to] = [Math.max(x, c - bottom), Math.min(right, c - y)];
            if (to > from) path += `M${at(from, c - from)}L${at(to, c - to)}`;
        }
    }
    return path;
}

/* A box with the fill of that name; `again`: a device's colour, for bytes moved once more. */
function filled(name, box, attributes, again) {
    const [variable, usual] = FILLS[name] || FILLS.other;
    const kind = again ? "again" : usual;
    const colour = again || `var(${variable})`;
    const open = kind === "again" || kind === "empty";
    return svg("g", attributes, svg("rect", {
        ...box,
        class: { empty: "gap", again: "outlined" }[kind] || "slice",
        style: open && again ? `fill: var(--paper); stroke: ${again}` : `fill: ${open ? "var(--paper)" : colour}`
    }),
        kind !== "plain" &&
            svg("path",
                { class: "hatch " + kind, d: hatch_path(kind, box), style: open ? `stroke: ${colour}` : null }));
}

const fill_legend = (names) => html("ul", { class: "legend" },
    names.map(([name, text]) => html("li", null,
                  svg("svg", { class: "swatch", viewBox: "0 0 21 12", "aria-hidden": "true" },
                      filled(name, { x: 0, y: 0, width: 21, height: 12 })),
                  text)));
