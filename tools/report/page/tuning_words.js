/* What a tuning found, in sentences, and the figures that they are made of. */

/* Shares of less than a twentieth of a percent are none. */
const EVEN = 0.0005;

/* "3.1 % faster than": time saved, of the other's time. */
function faster_than(seconds, other) {
    const saved = 1 - seconds / other;
    if (Math.abs(saved) < EVEN) return "as fast as";
    return `${format_percent(Math.abs(saved))} ${saved > 0 ? "faster" : "slower"} than`;
}

const touching = ([low, high], [other_low, other_high]) => [low, high, other_low, other_high].every(is_number) &&
    low <= other_high && other_low <= high;

/* What cutting would have lost, where all candidates were measured (--all-candidates); null: they were not. */
function cut_sentence(plan) {
    /* Points are sorted by their times. */
    const calls = plan.works
                      .map(({ points }) => ({
                          count: points.filter(({ cut }) => cut).length,
                          cut: points.find(({ cut }) => cut),
                          other: points.find(({ cut }) => !cut)
                      }))
                      .filter(({ cut, other }) => cut && other);
    if (!calls.length) return null;
    const count = calls.reduce((sum, call) => sum + call.count, 0);
    const ratios = calls.map(({ cut, other }) => cut.seconds / other.seconds);
    const [least, lost] = [Math.min(...ratios), ratios.filter((ratio) => ratio < 1).length];
    return `${format_count(count)} candidates of ${
               format_count(calls.length)} kernel calls are measured that the bound would have cut: ` +
        (lost ? `in ${format_count(lost)} of the calls one is the fastest, by up to ${format_percent(1 - least)}`
              : `none is its call's fastest, which is faster by ${format_percent(1 - 1 / least)} or more`);
}

function sentences_of(plan) {
    const { default: usual, chosen, predicted, best_sum, transposed } = plan.figures;
    const sentences = [];
    if (is_positive(usual) && is_positive(chosen))
        sentences.push(`chosen is ${faster_than(chosen, usual)} the default` +
            (touching(plan.bounds.default, plan.bounds.chosen) ? ", and the intervals of both touch: it may be chance"
                                                               : ""));
    const cut = cut_sentence(plan);
    if (cut) sentences.push(cut);
    if (!plan.layouts) return sentences;
    if (is_positive(chosen) && is_positive(predicted))
        sentences.push(`measured is within ${format_percent(Math.abs(chosen / predicted - 1))} of the predicted sum`);
    if (is_positive(chosen) && is_positive(best_sum))
        sentences.push(`${format_percent(Math.abs(chosen / best_sum - 1))} ${
                           chosen >= best_sum ? "above" : "below"} the sum of per-operator bests ` +
            "(the paper claims 4 %, its rounded figures give 13 %)");
    if (is_positive(chosen) && is_positive(transposed))
        sentences.push(
            `chosen is ${faster_than(chosen, transposed)} per-operator bests with transposes inserted between them`);
    if (is_positive(chosen) && plan.random)
        sentences.push(`chosen is ${faster_than(chosen, plan.random.median)} the median of ${
            format_count(plan.random.n)} random choices`);
    return sentences;
}

/* ---- a box for each plan ---- */

function selection_text(layouts) {
    return [
        is_number(layouts.assignments) && `${format_count(layouts.assignments)} assignments`,
        is_number(layouts.feasible) && `${format_count(layouts.feasible)} feasible`,
        is_number(layouts.states) && `${format_count(layouts.states)} states`,
        layouts.exact === true && "the best of all by the times",
        layouts.exact === false && "not sure to be the best of all",
    ].filter((text) => text)
        .join(", ");
}

function model_text(model) {
    return [
        format_text(model.source || model.architecture),
        is_number(model.layers) && (model.layers === 1 ? "1 layer" : `${model.layers} layers`),
        is_number(model.hidden) && `hidden ${model.hidden}`, is_number(model.heads) && `${model.heads} heads`,
        is_number(model.feed_forward) && `feed-forward ${model.feed_forward}`
    ].filter((text) => text)
        .join(", ");
}

function training_text(training) {
    if (!training) return "inference";
    const { dropout, activation, save } = training;
    return `training, dropout ${format_number(dropout)}, ${format_text(activation)}, saved ${format_text(save)}`;
}

function tuning_box(plan) {
    const { data, layouts, figures, random } = plan;
    const run = object(plan.record.data.run);
    const device = object(plan.record.data.device);
    const row = (name, value) => [html("dt", null, name), html("dd", null, value)];
    const bounded = (name) => format_seconds(figures[name]) +
        (is_number(plan.bounds[name][0]) ? ` (${format_span(...plan.bounds[name])})` : "");
    return html("article", { class: "trust", "data-plan": plan.index }, html("h3", null, `${plan.tag}  ${plan.label}`),
        html("ul", { class: "badges", style: "list-style: none; padding: 0" },
            layouts &&
                badge(layouts.exact === true ? "good" : "none",
                    layouts.exact === true ? "exact choice" : "choice not exact"),
            badge(data.wrong > 0 ? "bad" : "good", data.wrong > 0 ? `${data.wrong} wrong` : "none wrong"),
            data.failed > 0 && badge("none", `${data.failed} failed`)),
        html("ul", { class: "sentences" }, sentences_of(plan).map((sentence) => html("li", null, sentence))),
        html("dl", null,
            row("default", layouts ? bounded("default") : format_seconds(figures.default) + ", sum of kernels"),
            row("chosen", layouts ? bounded("chosen") : format_seconds(figures.chosen) + ", sum of kernels"),
            layouts &&
                [
                    is_number(plan.host.chosen) &&
                        row("as the host waits",
                            `default ${format_seconds(plan.host.default)}, chosen ${format_seconds(plan.host.chosen)}`),
                    row("predicted", format_seconds(figures.predicted)),
                    row("sum of bests", format_seconds(figures.best_sum)),
                    row("with transposes", format_seconds(figures.transposed)),
                    row("random",
                        random ? `5 % ${format_seconds(random.low)}, median ${format_seconds(random.median)}, 95 % ${
                                     format_seconds(random.high)}, of ${format_count(random.n)}`
                               : NONE),
                    row("chosen orders", format_text(layouts.chosen) === NONE ? "the default's" : layouts.chosen),
                    row("chosen of", selection_text(layouts) || NONE),
                ],
            row("device", `${format_text(device.name)}, ${format_text(device.id)}`),
            row("driver", `${format_text(device.driver)}, ${format_text(device.api)}`),
            row("model", model_text(object(plan.record.data.model))), row("shape", plan.workload),
            row("pass", training_text(plan.record.data.training)),
            row("kernel calls",
                `${format_count(data.works)}, ${format_count(data.chosen)} with other sizes than the table's; ${
                    format_count(data.measured)} candidates (${format_count(data.known)} known before, ${
                    format_count(
                        data.wrong)} wrong, ${format_count(data.failed)} failed) in ${format_seconds(data.seconds)}`),
            row("kept in", format_text(data.file)),
            row("tool", `wherry ${format_text(run.library)}, commit ${format_text(run.commit)}`),
            row("ran", format_text(run.date).replace("T", " ")),
            row("command",
                list(run.command_line).length ? html("code", { class: "command" }, command_text(run.command_line))
                                              : NONE)),
        records_button([plan.record], `wherry tuning ${plan.tag}`, "Download this tuning (JSON)"));
}

charts.set("overview", {
    reads: [],
    draw(figure) {
        figure.append(html("div", { class: "trusts" }, all_plans.map(tuning_box)));
    },
});

/* ---- the step: what it takes, and what it is compared with ---- */

/* [{name, text, value, low, high, kind}]: what a plan knows of these, in the order of the chart. */
function step_rows(plan) {
    const { figures, bounds, random } = plan;
    const sum = !plan.layouts;
    return [
        { name: "best_sum", text: "sum of operators' bests", value: figures.best_sum, kind: "bound" },
        { name: "predicted", text: "chosen, predicted", value: figures.predicted, kind: "bound" },
        {
            name: "chosen",
            text: sum ? "best sizes, sum of kernels" : "chosen, measured",
            value: figures.chosen,
            low: bounds.chosen[0],
            high: bounds.chosen[1],
            kind: "chosen"
        },
        {
            name: "default",
            text: sum ? "the table's sizes, sum" : "default, measured",
            value: figures.default,
            low: bounds.default[0],
            high: bounds.default[1],
            kind: "default"
        },
        { name: "transposed", text: "bests with transposes", value: figures.transposed, kind: "bound" },
        random && {
            name: "random",
            text: `random, ${format_count(random.n)}`,
            value: random.median,
            low: random.low,
            high: random.high,
            kind: "random"
        },
    ].filter((row) => row && is_positive(row.value));
}

function step_content(plan, row) {
    const { chosen, best_sum } = plan.figures;
    return [
        html("h3", null, row.text), html("p", { class: "of" }, `${plan.tag}  ${plan.label}`), field_list([
            [row.kind === "random" ? "median" : "time", format_seconds(row.value)],
            [row.kind === "random" ? "5 % to 95 %" : "interval", format_span(row.low, row.high)],
            ["of chosen, measured", is_positive(chosen) ? format_ratio(row.value / chosen) : NONE],
            ["of the sum of bests", is_positive(best_sum) ? format_ratio(row.value / best_sum) : NONE],
        ])
    ];
}

charts.set("step", {
    reads: [],
    tools: () => [],
    draw(figure, width) {
        const groups = all_plans.map((plan) => ({ plan, rows: step_rows(plan) })).filter(({ rows }) => rows.length);
        if (!groups.length) {
            figure.append(html("p", { class: "note" }, "No plan has a time of its step."));
            return;
        }
        const wide = width >= 560;
        const [head, step] = [24, wide ? 22 : 34];
        const count = groups.reduce((sum, { rows }) => sum + rows.length, 0);
        const height = 26 + groups.length * head + count * step + 8;
        const chart =
            make_chart(figure, width, height, { left: wide ? 178 : 12, right: wide ? 128 : 12, top: 22, bottom: 6 },
                "Time of a step: default, chosen, predicted, and what they are compared with");
        const values =
            groups.flatMap(({ rows }) => rows.flatMap((row) => [row.value, row.low, row.high])).filter(is_positive);
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const pad = Math.max(0.05 * (high - low), 0.01 * high);
        /* Plans and devices far apart would be dots at one place. */
        const x = high > 6 * low ? log_scale(low / 1.1, high * 1.1, chart.left, chart.right)
                                 : linear_scale(Math.max(0, low - pad), high + pad, chart.left, chart.right);
        for (const value of x.ticks(wide ? 80 : 62))
            chart.add(svg("path", { class: "grid", d: `M${x(value)} ${chart.top - 2}V${height - 2}` }),
                svg("text", { class: "small", x: x(value), y: chart.top - 6, "text-anchor": "middle" },
                    tick_text(value, "s")));
        const points = [];
        let top = chart.top + 2;
        for (const { plan, rows } of groups) {
            chart.add(svg(
                "text", { class: "strong halo", x: 2, y: top + 15 }, clip(`${plan.tag}  ${plan.label}`, width - 8)));
            top += head;
            for (const row of rows) {
                const y = top + (wide ? 11 : 23);
                const against =
                    is_positive(plan.figures.chosen) && row.name !== "chosen" ? row.value / plan.figures.chosen - 1 : 0;
                const right = format_seconds(row.value) +
                    (Math.abs(against) >= EVEN ? `  ${against > 0 ? "+" : ""}${format_percent(against)}` : "");
                const node = svg("g", {
                    class: "row",
                    style: `--s: var(--c${plan.index % 8})`,
                    "data-figure": row.name,
                    "data-plan": plan.index
                },
                    svg("rect", { class: "hit", x: 0, y: top, width, height: step }));
                if (is_positive(row.low) && is_positive(row.high))
                    node.append(svg("path", {
                        class: row.kind === "random" ? "span" : "whisker",
                        d: `M${x(row.low)} ${y}H${x(row.high)}M${x(row.low)} ${y - 4}v8M${x(row.high)} ${y - 4}v8`
                    }));
                node.append(svg("path", {
                    class: "figure-dot " + row.kind,
                    d: mark_path(row.kind === "default" ? ""
                            : row.kind === "bound"      ? "normalization"
                                                        : "elementwise",
                        row.kind === "chosen" ? 5.2 : 4.2),
                    transform: `translate(${x(row.value)} ${y})`
                }));
                node.append(svg("text",
                                wide ? { class: "ink", x: chart.left - 10, y: y + 4, "text-anchor": "end" }
                                     : { class: "ink halo", x: 4, y: top + 12 },
                                row.text),
                    svg("text",
                        { class: "small ink halo", x: width - 4, y: wide ? y + 4 : top + 12, "text-anchor": "end" },
                        right));
                chart.add(node);
                points.push({
                    node,
                    label: `${row.text}, ${plan.label}: ${format_seconds(row.value)}`,
                    content: () => step_content(plan, row),
                    box: [0, top, width, top + step]
                });
                top += step;
            }
        }
        interactive(chart, points, { reach: 0, rows: true });
    },
});
