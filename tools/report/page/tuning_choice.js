/* The choice in words: which tensors lie how, and which operators gain and lose by it against the default. */

/* What an operator gains in the step, in seconds; null where a time is missing. Those that run the same with both take
 * the same time. */
function gain_of(entry) {
    const { default: usual, chosen } = entry.step;
    return usual && chosen ? usual.seconds - chosen.seconds : null;
}

const is_sure = (entry) => {
    const { default: usual, chosen } = entry.step;
    return !touching([usual.low, usual.high], [chosen.low, chosen.high]);
};

const signed_seconds = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + format_seconds(Math.abs(value));

const gain_text = (entry) =>
    `${entry.name} ${signed_seconds(-gain_of(entry))}` + (is_sure(entry) ? "" : " (intervals touch)");

/* "lin1 −3.1 µs, lin1_dx −2 µs", the most first. */
function side_text(entries, sign) {
    const own = entries.filter((entry) => sign * gain_of(entry) > 0).sort((a, b) => sign * (gain_of(b) - gain_of(a)));
    return own.map(gain_text).join(", ");
}

function tensor_item(plan, tensor) {
    const name = format_text(tensor.name);
    const entries = plan.operators.filter(
        (entry) => entry.tensors.includes(name) && is_number(gain_of(entry)) && gain_of(entry) !== 0);
    const sum = entries.reduce((all, entry) => all + gain_of(entry), 0);
    const [gains, losses] = [side_text(entries, 1), side_text(entries, -1)];
    return html("li", { "data-tensor": name }, html("b", null, name), ` lies ${format_text(tensor.chosen)} instead of ${
                                                    format_text(tensor.default)}. `,
        entries.length
            ? [
                  `Its operators ${sum > 0 ? "gain" : "lose"} ${format_seconds(Math.abs(sum))} together. `,
                  gains && html("span", { class: "won" }, `Gain: ${gains}. `),
                  losses && html("span", { class: "lost" }, `Lose: ${losses}.`)
              ]
            : "None of its operators has another time in the step.");
}

function choice_words(plan) {
    const moved = plan.tensors.filter((tensor) => tensor.chosen !== tensor.default);
    const kept = plan.tensors.filter((tensor) => tensor.chosen === tensor.default);
    const known = plan.operators.filter((entry) => is_number(gain_of(entry)));
    const sum = known.reduce((all, entry) => all + gain_of(entry), 0);
    return [
        html("p", null,
            moved.length ? `${moved.length} of ${plan.tensors.length} tensors lie in another order than by default.`
                         : "All tensors lie as by default."),
        moved.length > 0 && html("ul", { class: "choice" }, moved.map((tensor) => tensor_item(plan, tensor))),
        kept.length > 0 && moved.length > 0 &&
            html("p", null,
                `As by default: ${
                    kept.map((tensor) => `${format_text(tensor.name)} (${format_text(tensor.default)})`).join(", ")}.`),
        moved.length > 0 && known.length > 0 &&
            html("p", null,
                `By the operators' times in the step, all together ${sum >= 0 ? "gain" : "lose"} ${
                    format_seconds(Math.abs(sum))}; one with several of these tensors is named with each.`),
        plan.layouts.reason ? html("p", null, `Why, as the tuning says: ${plan.layouts.reason}`) : null,
    ].filter((node) => node);
}

function gains_table(plan) {
    const step = (entry, which) => entry.step[which] && entry.step[which].seconds;
    return make_table({
        caption: "Times in the step, with the best sizes: the default's orders against the chosen ones",
        rows: plan.operators.filter((entry) => is_number(gain_of(entry)))
                  .sort((a, b) => Math.abs(gain_of(b)) - Math.abs(gain_of(a))),
        columns: [
            { name: "operator", value: (entry) => entry.name },
            { name: "pass", value: (entry) => entry.pass, left: true },
            time_column("default", (entry) => step(entry, "default")),
            time_column("chosen", (entry) => step(entry, "chosen")),
            { name: "difference", value: (entry) => 0 - gain_of(entry), text: signed_seconds },
            {
                name: "sure",
                value: (entry) => (gain_of(entry) === 0 ? "same"
                        : is_sure(entry)                ? "yes"
                                                        : "intervals touch"),
                left: true
            },
            { name: "default's orders", value: (entry) => entry.orders_default, left: true },
            { name: "chosen orders", value: (entry) => entry.orders_chosen, left: true },
        ],
    });
}

function transposes_text(plan) {
    const all = list(plan.layouts.transposes).map(object).filter((one) => is_number(one.us));
    return all.length
        ? `A transpose of its own would take: ${
              all.map((one) => `${format_text(one.tensor)} ${format_seconds(from_micro(one.us))}`).join(", ")}.`
        : null;
}

charts.set("choice", {
    reads: ["plan"],
    draw(figure) {
        const plan = shown_plan();
        figure.append(html("h3", null, `${plan.tag}  ${plan.label}`));
        if (!plan.layouts) {
            const changed = plan.works.filter((work) => work.retuned);
            figure.append(html("p", { class: "note" },
                "This tuning chose sizes alone: all tensors lie as by default. " +
                    `${format_count(changed.length)} of ${
                        format_count(plan.works.length)} kernel calls run with other sizes than the table's.`));
            return;
        }
        const transposes = transposes_text(plan);
        figure.append(html("div", { class: "words" }, choice_words(plan), transposes && html("p", null, transposes)));
        if (plan.operators.some((entry) => is_number(gain_of(entry)))) figure.append(gains_table(plan));
    },
});
