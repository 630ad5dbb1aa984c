/* What all charts of records share: which devices, plan, classes, phase and layers are shown. */

const class_text = (name) => [class_glyph(name), name];

const layer_choices = () => [["merged", "merged over layers"], ["each", "every layer"],
    ...layer_numbers.map((layer) => [layer, layer < 0 ? "outside of layers" : "layer " + layer])];

const operator_filters = () => [
    plan_names.length > 0 && dropdown("plan", "Plan", [["all", "all"], ...plan_names.map((plan) => [plan, plan])]),
    class_names.length > 0 && chips("classes", "Class", class_names.map((name) => [name, class_text(name)])),
    phase_names.length > 1 &&
        dropdown("phase", "Phase", [["all", "all"], ...phase_names.map((phase) => [phase, phase])]),
    layer_numbers.length > 1 && dropdown("layers", "Layers", layer_choices()),
    segments("cache", "Caches", [["warm", "warm"], ["cold", "cold"]]),
    slider("cumulative", "Operators", (percent) => (percent >= 100 ? "all" : `longest ${percent} %`)),
];

function make_filters(host) {
    const dot = (series) => svg("svg",
        { class: "glyph", viewBox: "-6 -6 12 12", "aria-hidden": "true", style: `--s: ${series.colour}` },
        svg("path",
            { d: mark_path("elementwise", 5), ...(series.ring ? { stroke: "var(--ink)", "stroke-width": 1.6 } : {}) }));
    host.append(...[all_series.length > 0 &&
            chips("hidden", "Devices",
                all_series.map((series) => [series.index,
                                   [
                                       dot(series), html("b", null, series.tag),
                                       html("span", { class: "name", title: series.label }, series.label)
                                   ]]),
                true),
        ...(only_loads ? [] : operator_filters())].filter((node) => node));
    if (!has_cold && !only_loads) {
        const cold = find('[value="cold"]', host);
        cold.disabled = true;
        cold.closest("label").title = "no record has times with cold caches";
    }
}
