/* The table of operators or kernel calls, as in section 5 of the paper. */

const over = (upper, lower) => (is_positive(upper) && is_positive(lower) ? upper / lower : null);

const time_column = (name, value, title) => ({ name, value, text: format_seconds, title });

function entry_columns() {
    const operators = shows_operators();
    return [
        { name: operators ? "operator" : "kernel call", value: (entry) => entry.name },
        !operators && { name: "kernel", value: (entry) => entry.kernel, left: true },
        operators && { name: "pass", value: (entry) => entry.pass, left: true },
        operators && { name: "class", value: (entry) => entry.class, left: true },
        {
            name: "times",
            value: (entry) => entry.points.length,
            text: format_count,
            title: "configurations with a time"
        },
        time_column("best", (entry) => entry.best),
        time_column("worst", (entry) => entry.worst),
        time_column("default", (entry) => entry.default,
            operators ? "the default's orders and the table's sizes" : "the table's sizes"),
        time_column("chosen", (entry) => entry.chosen),
        { name: "worst/best", value: (entry) => over(entry.worst, entry.best), text: format_ratio },
        { name: "chosen/best", value: (entry) => over(entry.chosen, entry.best), text: format_ratio },
        { name: "chosen/default", value: (entry) => over(entry.chosen, entry.default), text: format_ratio },
        operators && time_column("default in the step", (entry) => entry.step.default && entry.step.default.seconds),
        operators && time_column("chosen in the step", (entry) => entry.step.chosen && entry.step.chosen.seconds),
        {
            name: "wrong",
            value: (entry) => entry.wrong,
            text: format_count,
            title: "configurations with wrong numbers",
            flag: (entry) => entry.wrong > 0
        },
        {
            name: "failed",
            value: (entry) => entry.failed,
            text: format_count,
            title: "configurations that could not run"
        },
        {
            name: operators ? "orders chosen" : "layouts",
            value: (entry) => (operators           ? entry.orders_chosen
                    : entry.orders_chosen === NONE ? "default"
                                                   : entry.orders_chosen),
            left: true
        },
        { name: operators ? "kernel chosen" : "sizes chosen", value: (entry) => entry.sizes_chosen, left: true },
    ].filter((column) => column);
}

charts.set("table", {
    reads: ENTRY_STATE,
    draw(figure) {
        const entries = shown_entries();
        figure.append(entries.length ? make_table({
            caption: `${shown_plan().tag}  ${shown_plan().label}: ${
                shows_operators() ? "operators as the step runs them" : "kernel calls"}. ${NONE}: not measured.`,
            columns: entry_columns(),
            rows: entries,
        })
                                     : html("p", { class: "note" }, "Nothing by these filters."));
    },
});
