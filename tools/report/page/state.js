/* What the reader has chosen. */

/* Plans share operators, so that one at a time is readable: the one that most records have. */
function first_plan() {
    const count = (name) => all_series.filter((series) => series.plans.some((plan) => plan.plan === name)).length;
    return [...plan_names].sort((a, b) => count(b) - count(a))[0] || "all";
}

/* A CPU beside a GPU would flatten it. */
const far_apart = (values) =>
    largest(values) > 8 * values.filter(is_positive).reduce((least, value) => Math.min(least, value), Infinity);
const step_times = all_series.flatMap((series) => series.plans.map((plan) => object(object(plan.step).host).median));

const state = {
    hidden: new Set(), /* indices of series */
    plan: first_plan(),
    classes: new Set(class_names),
    phase: "all",
    layers: "merged",
    cache: "warm",
    cumulative: 100, /* percent of a plan's time, the longest operators first */
    axis: "model",
    roofs: new Set(["dram", "cache", "compute", "theory"]),
    strip_scale: "peak",
    strip_order: "run",
    time_by: "class",
    time_scale: far_apart(step_times) ? "share" : "seconds",
    movement_scale: far_apart(step_times) ? "relative" : "bytes",
    launch_ops: true,
    diff_a: 0,
    diff_b: 1,
    diff_all: false,
    theme: "auto",
    selected: null, /* key of an item */
};

/* What decides which items there are. */
const ITEM_STATE = ["hidden", "plan", "classes", "phase", "layers", "cache", "cumulative"];

const shown_series = () => all_series.filter((series) => !state.hidden.has(series.index));

/* Whether the filters that do not depend on the device let it through. */
function passes(item) {
    return (state.plan === "all" || item.plan === state.plan) && state.classes.has(item.class) &&
        (state.phase === "all" || item.phase === state.phase);
}

/* Items by the filters, with and without a time. */
function filtered_items(of = shown_series(), layers = state.layers) {
    return of.flatMap((series) => series_items(series, state.cache, layers))
        .filter((item) => passes(item) &&
                (item.time ? item.before < state.cumulative / 100 - 1e-9 : state.cumulative >= 100));
}
