/* What fusing saves: bytes between kernels, by class, of every plan of a device. */

/* The plan that others are held against: "unfused", or the one with the most kernels. */
function reference_plan(plans) {
    return plans.find((plan) => plan.plan === "unfused") ||
        plans.reduce((most, plan) => (!most || (plan.launches || 0) > (most.launches || 0) ? plan : most), null);
}

function movement_of(series, plan) {
    const items = series_items(series, "warm", "merged").filter((item) => item.plan === String(plan.plan));
    const sums = (field) => class_names.map(
        (name) => ({ name, value: total(items.filter((item) => item.class === name).map((item) => item[field])) }));
    const q = sums("q");
    const d = sums("d");
    return {
        series,
        plan,
        q,
        d,
        q_all: total(q.map((part) => part.value)),
        d_all: total(d.map((part) => part.value)),
        step: object(object(plan.step).host).median,
        launches: plan.launches,
        any: items.length > 0
    };
}

function movement_groups() {
    return shown_series()
        .map((series) => {
            const found = series.plans.map((plan) => movement_of(series, plan))
                              .filter((one) => one.any && is_positive(one.q_all));
            const reference = reference_plan(found.map((one) => one.plan));
            return { series, found, reference: found.find((one) => one.plan === reference) };
        })
        .filter((group) => group.found.length);
}

const against = (value, base) => (is_number(value) && is_positive(base) ? value / base - 1 : null);
const signed = (value) => (is_number(value) ? (value > 0 ? "+" : "") + format_percent(value) : NONE);

function movement_content(series, one, way, reference) {
    const name = format_text(one.plan.plan);
    const held = format_text(reference.plan.plan);
    const all = one[way + "_all"];
    const change = (value, base) => (one === reference ? NONE : signed(against(value, base)));
    return bar_content(
        `${name}, ${way === "q" ? "Q: each tensor once" : "D: as the kernels are written"}`, series.label, [
            ["bytes moved", format_bytes(all)],
            ["against " + held, change(all, reference[way + "_all"])],
            ...one[way].map((part) => [part.name, `${format_bytes(part.value)}, ${format_percent(part.value / all)}`]),
            "rule",
            ["kernels", format_count(one.launches)],
            ["kernels against " + held, change(one.launches, reference.launches)],
            ["step", format_seconds(one.step)],
            ["step against " + held, change(one.step, reference.step)],
            ["saved for the backward pass", format_bytes(one.plan.saved_bytes)],
            ["device memory", format_bytes(one.plan.device_bytes)],
            ...Object.entries(object(one.plan.memory))
                .filter(([name]) => name !== "total")
                .map(([name, bytes]) => ["of it " + name, format_bytes(bytes)]),
        ]);
}

function movement_row(series, one, way, reference) {
    const name = format_text(one.plan.plan);
    const all = one[way + "_all"];
    const unit = state.movement_scale === "bytes" ? 1 : reference[way + "_all"];
    const less = one === reference ? "" : ", " + signed(against(all, reference[way + "_all"]));
    const kernels = format_count(one.launches) + " kernels";
    const parts = one[way].filter((part) => is_positive(part.value));
    return {
        name: `${name} ${way.toUpperCase()}`,
        parts: parts.map((part) => ({
            name: part.name,
            fill: FILLS[part.name] ? part.name : "other",
            value: part.value / unit,
            text: `${part.name} ${format_bytes(part.value)}`,
            short: format_bytes(part.value)
        })),
        right: format_bytes(all) + less + " · " + (way === "q" ? kernels : format_seconds(one.step)),
        label: `${series.label}, plan ${name}, ${way.toUpperCase()}: ${format_bytes(all)}${less} by ${kernels} in ` +
            format_seconds(one.step),
        content: () => movement_content(series, one, way, reference)
    };
}

const movement_rows = ({ series, found, reference }) =>
    found.flatMap((one) => ["q", "d"]
                               .filter((way) => is_positive(one[way + "_all"]))
                               .map((way) => movement_row(series, one, way, reference)));

function movement_table() {
    const rows = movement_groups().flatMap(
        ({ series, found, reference }) => found.map((one) => ({ series, reference, ...one })));
    return make_table({
        caption: "Bytes moved, kernels and time of a step by plan",
        rows,
        columns: [
            { name: "plan", value: (row) => row.plan.plan },
            { name: "device", value: (row) => row.series.tag, left: true },
            { name: "Q", value: (row) => row.q_all, text: format_bytes },
            { name: "Q, against", value: (row) => against(row.q_all, row.reference.q_all), text: signed },
            { name: "D", value: (row) => row.d_all, text: format_bytes },
            { name: "D, against", value: (row) => against(row.d_all, row.reference.d_all), text: signed },
            ...class_names.map(
                (name, n) => ({ name: "Q of " + name, value: (row) => row.q[n].value, text: format_bytes })),
            { name: "kernels", value: (row) => row.launches, text: format_count },
            { name: "step", value: (row) => row.step, text: format_seconds },
            { name: "step, against", value: (row) => against(row.step, row.reference.step), text: signed },
            { name: "held against", value: (row) => row.reference.plan.plan, left: true },
        ],
    });
}

charts.set("movement", {
    reads: ["hidden", "movement_scale"],
    tools: () => [segments("movement_scale", "Scale", [["bytes", "bytes"], ["relative", "% of the unfused plan"]])],
    draw(figure, width) {
        const groups = movement_groups();
        if (!groups.length) {
            figure.append(html("p", { class: "note" }, "No plan of these devices says what its operators move."));
            return;
        }
        figure.append(fill_legend(class_names.map((name) => [FILLS[name] ? name : "other", name])));
        draw_bars(figure, width, groups.map((group) => ({ series: group.series, rows: movement_rows(group) })),
            { label: "Bytes moved by plan and class", unit: state.movement_scale === "bytes" ? "B" : "%", room: 210 });
    },
    tables: () => [{ title: "Table: movement", make: movement_table }],
});
