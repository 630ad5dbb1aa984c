/* What the reader has chosen. */

const state = {
    plan: 0, /* index in all_plans */
    pass: "all",
    entries: "operators",
    axis: "log",
    range: "own",
    theme: "auto",
    selected: null,
};

/* What violins.js calls what it draws. */
const VIOLIN_WORDS = {
    entries: () => (shows_operators() ? "operators" : "kernel calls"),
    sizes: "kernel, sizes",
    chosen: "chosen",
    chosen_own: "the chosen one's",
    default_title: "with the default's orders and the table's sizes",
    chosen_title: "with the chosen orders and sizes",
    further: []
};

const ENTRY_STATE = ["plan", "pass", "entries"];

const shown_plan = () => all_plans[state.plan];
/* A plan without layouts has kernel calls alone. */
const shows_operators = () => shown_plan().operators.length > 0 && state.entries === "operators";
const shown_entries = () =>
    (shows_operators() ? shown_plan().operators : shown_plan().works)
        .filter((entry) => !shows_operators() || state.pass === "all" || entry.pass === state.pass);

function make_filters(host) {
    if (all_plans.length > 1)
        host.append(dropdown("plan", "Tuning", all_plans.map((plan) => [plan.index, `${plan.tag}  ${plan.label}`])));
    if (all_plans.some((plan) => plan.operators.length))
        host.append(segments("entries", "Show", [["operators", "operators"], ["works", "kernel calls"]]));
    if (pass_names.length > 1)
        host.append(dropdown("pass", "Pass", [["all", "all"], ...pass_names.map((pass) => [pass, pass])]));
    host.hidden = !host.children.length;
}
