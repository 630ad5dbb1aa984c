/* Where a step's time goes: by class of operator or by regime, every plan of every device, the gap as a part of its
 * own. */

const REGIME_TEXT = {
    compute: "compute",
    memory: "memory",
    cache: "cache",
    launch: "launch",
    unknown: "unknown"
};

/* Sums of a plan's items: {forward: {contraction: s}, ...}; without operators, what the record says of its classes. */
function class_parts(series, plan) {
    const items = series_items(series, "warm", "merged").filter((item) => item.plan === String(plan.plan) && item.time);
    const parts = [];
    const add = (phase, name, value) => {
        const found = parts.find((part) => part.phase === phase && part.name === name);
        if (found)
            found.value += value;
        else
            parts.push({ phase, name, fill: FILLS[name] ? name : "other", value });
    };
    if (items.length) {
        for (const phase of phase_names) {
            for (const name of class_names) {
                for (const item of items)
                    if (item.phase === phase && item.class === name) add(phase, name, item.time.median);
            }
        }
    } else {
        for (const one of list(plan.by_class))
            if (is_positive(one.seconds)) add("step", String(one.class), one.seconds);
    }
    return parts;
}

function regime_parts(plan) {
    const regimes = object(plan.by_regime);
    return REGIMES.filter((name) => is_positive(regimes[name]))
        .map((name) => ({ phase: "step", name: REGIME_TEXT[name], fill: name, value: regimes[name] }));
}

function time_row(series, plan) {
    const parts = state.time_by === "class" ? class_parts(series, plan) : regime_parts(plan);
    if (!parts.length) return null;
    const kernels = total(parts.map((part) => part.value));
    const gap = object(plan.step).gap_seconds;
    if (is_positive(gap)) parts.push({ phase: "step", name: "gap", fill: "gap", value: gap });
    const all = total(parts.map((part) => part.value));
    const host = object(object(plan.step).host).median;
    const forward = total(parts.filter((part) => part.phase === "forward").map((part) => part.value));
    const both = parts.some((part) => part.phase === "backward") && forward > 0;
    const unit = state.time_scale === "share" ? all : 1;
    return {
        plan,
        parts,
        all,
        gap,
        host,
        row: {
            name: format_text(plan.plan),
            parts: parts.map((part) => ({
                ...part,
                value: part.value / unit,
                text: `${part.name} ${format_percent(part.value / all)}`,
                short: format_percent(part.value / all)
            })),
            split: both ? forward / unit : null,
            right: `${format_seconds(is_number(host) ? host : all)}` +
                (is_number(gap) ? `, gap ${format_percent(gap / (is_number(host) ? host : all))}` : ""),
            label: `${series.label}, plan ${format_text(plan.plan)}: ` +
                parts.map((part) => `${part.phase} ${part.name} ${format_seconds(part.value)}`).join(", "),
            content: () => bar_content(format_text(plan.plan), series.label,
                [
                    ["step, as a caller waits", format_seconds(host)],
                    ["kernels", format_seconds(kernels)],
                    ["gap", format_seconds(gap)],
                    ["limit by the ceilings", format_seconds(plan.limit_seconds)],
                    ["headroom", format_ratio(plan.headroom)],
                    "rule",
                    ...parts.map((part) => [(part.phase === "step" ? "" : part.phase + " ") + part.name,
                                     `${format_seconds(part.value)}, ${format_percent(part.value / all)}`]),
                ]),
        },
    };
}

const time_groups = () =>
    shown_series()
        .map((series) => ({ series, found: series.plans.map((plan) => time_row(series, plan)).filter((row) => row) }))
        .filter((group) => group.found.length);

function time_table() {
    const rows = time_groups().flatMap(
        ({ series, found }) =>
            found.flatMap((one) => one.parts.map((part) => ({ series, plan: one.plan.plan, all: one.all, ...part }))));
    return make_table({
        caption: `Time of a step by ${state.time_by}, caches warm`,
        rows,
        columns: [
            { name: state.time_by, value: (row) => row.name },
            { name: "device", value: (row) => row.series.tag, left: true },
            { name: "plan", value: (row) => row.plan, left: true },
            { name: "phase", value: (row) => row.phase, left: true },
            { name: "time", value: (row) => row.value, text: format_seconds },
            { name: "share", value: (row) => row.value / row.all, text: format_percent },
        ],
    });
}

charts.set("time", {
    reads: ["hidden", "time_by", "time_scale"],
    tools: () => [segments("time_by", "By", [["class", "class"], ["regime", "regime"]]),
        segments("time_scale", "Scale", [["seconds", "time"], ["share", "share"]])],
    draw(figure, width) {
        const groups = time_groups();
        if (!groups.length) {
            figure.append(html("p", { class: "note" }, "No plan of these devices was timed."));
            return;
        }
        const used =
            new Set(groups.flatMap((group) => group.found.flatMap((one) => one.parts.map((part) => part.fill))));
        const order = state.time_by === "class" ? [...CLASSES, "other", "gap"] : [...REGIMES, "gap"];
        figure.append(fill_legend(order.filter((name) => used.has(name)).map((name) => [name, name])));
        draw_bars(figure, width, groups.map(({ series, found }) => ({ series, rows: found.map((one) => one.row) })), {
            label: "Time of a step by " + state.time_by,
            unit: state.time_scale === "share" ? "%" : "s",
            whole: state.time_scale === "share" ? 1 : null,
        });
    },
    tables: () => [{ title: "Table: time", make: time_table }],
});
