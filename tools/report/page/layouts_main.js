/* The table, and the page put together. */

const over = (upper, lower) => (is_positive(upper) && is_positive(lower) ? upper / lower : null);
const time_column = (name, value, title) => ({ name, value, text: format_seconds, title });
const ratio_column = (name, value, title) => ({ name, value, text: format_ratio, title });
const count_column = (name, value, title) => ({ name, value, text: format_count, title });
const range_of = (entry, n, side) => (entry.published[n] ? entry.published[n][side] : null);

const layout_columns = () => [
    { name: "layouts of", value: (entry) => entry.name },
    count_column("space", (entry) => entry.space, "configurations there are"),
    count_column("measured", (entry) => entry.points.length),
    { ...count_column("wrong", (entry) => entry.wrong), flag: (entry) => entry.wrong > 0 },
    time_column("best", (entry) => entry.best),
    time_column("worst", (entry) => entry.worst),
    ratio_column("worst/best", (entry) => over(entry.worst, entry.best)),
    time_column("default", (entry) => entry.default, "the orders of the model's letters"),
    ratio_column("default/best", (entry) => over(entry.default, entry.best)),
    time_column("shipped", (entry) => entry.chosen, "what the plan paper runs for it"),
    ratio_column("best/shipped", (entry) => over(entry.best, entry.chosen)),
    time_column("paper best", (entry) => range_of(entry, 0, "best"), "V100"),
    time_column("paper worst", (entry) => range_of(entry, 0, "worst"), "V100"),
    ratio_column("its worst/best", (entry) => over(range_of(entry, 0, "worst"), range_of(entry, 0, "best"))),
    ratio_column("without tensor cores", (entry) => over(range_of(entry, 1, "worst"), range_of(entry, 1, "best")),
        "the paper's worst/best without tensor cores"),
    { name: "best layout", value: (entry) => entry.best_orders, left: true },
    { name: "shipped kernel", value: (entry) => entry.shipped, left: true },
];

charts.set("table", {
    reads: ENTRY_STATE,
    draw(figure) {
        const source = format_text(shown_plan().record.data.source);
        figure.append(make_table({
            caption: `${shown_plan().tag}  ${shown_plan().label}. Paper: ${source}. ${NONE}: not measured.`,
            columns: layout_columns(),
            rows: shown_entries(),
        }));
    },
});

function make_title() {
    const title = "Layouts: " + unique(all_plans.map((plan) => `${plan.device} (${plan.api})`)).join(" · ");
    find("#title").textContent = title;
    find("#subtitle").textContent = unique(all_plans.map((plan) => plan.workload)).join("; ");
    document.title = "Wherry: " + title;
}

make_theme(find("#header-tools"));
if (all_plans.length) {
    find("#header-tools").append(records_button(records, "wherry layouts", "Download data (JSON)"));
    make_title();
    make_filters(find("#filters"));
    make_sections();
    draw_all();
    watch_width();
    find("#footer").textContent = `Drawn by wherry report from ${records.length} record${records.length === 1 ? "" : "s"} ` +
        "that this page contains (wherry bench layouts --json, docs/layouts.schema.json). It asks nothing of the network.";
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
} else {
    for (const node of find_all("nav, main, footer")) node.hidden = true;
}
document.documentElement.dataset.ready = "";
