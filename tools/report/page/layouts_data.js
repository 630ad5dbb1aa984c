/* What the page's records (wherry bench layouts --json) say, as entries of violins.js: a kernel or contraction each, with
 * all times of its configurations. Times are seconds here. Nothing here trusts a field to be there. */

const from_micro = (us) => (is_number(us) ? us * 1e-6 : null);
const positive = (us) => (is_positive(us) ? from_micro(us) : null);
const CLASS_OF_KERNEL = { AIB: "elementwise", BRD: "elementwise", BEI: "elementwise", BDRLN: "elementwise", EBSB: "elementwise" };

function make_point(time) {
    return {
        seconds: from_micro(time.us),
        low: from_micro(time.low_us),
        high: from_micro(time.high_us),
        orders: format_text(time.layout),
        sizes: time.drawn === false ? "found by searching" : "drawn",
        searched: time.drawn === false,
        alone: true,
        cut: false
    };
}

function make_ranges(paper) {
    const range = (name, best, worst) => (is_positive(best) && is_positive(worst)
            ? [{ name, best: from_micro(best), worst: from_micro(worst) }]
            : []);
    return [...range("paper, V100, figure " + format_text(paper.figure), paper.best_us, paper.worst_us),
        ...range("paper, V100, without tensor cores", paper.half_best_us, paper.half_worst_us)];
}

/* The paper's times are of its shape alone. */
const is_paper_shape = (sizes) => ["b", "j", "i", "h", "u"].every((letter, n) => sizes[letter] === [8, 512, 1024, 16, 4096][n]);

function make_entry(work, shape) {
    const points = list(work.times).map(object).filter((time) => is_positive(time.us)).map(make_point);
    points.sort((a, b) => a.seconds - b.seconds);
    return {
        name: format_text(work.name),
        kind: format_text(work.kind),
        class: work.kind === "contraction" ? "contraction" : CLASS_OF_KERNEL[work.name] || "normalization",
        pass: NONE,
        work: format_text(work.tensors),
        alone: true,
        points,
        space: is_number(work.space) ? work.space : null,
        best: points.length ? points[0].seconds : null,
        best_orders: points.length ? points[0].orders : NONE,
        worst: points.length ? points[points.length - 1].seconds : null,
        default: positive(work.default_us),
        chosen: positive(work.shipped_us),
        shipped: format_text(work.shipped),
        orders_chosen: NONE,
        published: make_ranges(object(work.paper)),
        ranges: is_paper_shape(shape) ? make_ranges(object(work.paper)) : [],
        wrong: is_number(work.wrong) ? work.wrong : 0,
        failed: is_number(work.refused) ? work.refused : 0,
    };
}

function make_plan(record, index) {
    const { device, model, sizes, dtype } = record.data;
    const api = format_text(object(device).id).split(":")[0];
    const shape = object(sizes);
    const plan = {
        index,
        record,
        tag: tag_name(index),
        device: format_text(object(device).name || object(device).id),
        api: API_NAMES[api] || api,
        workload: `${format_text(model)}, ${format_text(shape.b)} × ${format_text(shape.j)}, ${format_text(dtype)}`,
        entries: list(record.data.works).map((work) => make_entry(object(work), shape)),
    };
    plan.label = `${plan.device} · ${plan.api} · ${plan.workload}`;
    return plan;
}

const records = await read_records();
const all_plans = records.map(make_plan);

/* What the reader has chosen. */
const state = { plan: 0, kind: "all", axis: "log", range: "own", theme: "auto", selected: null };
const ENTRY_STATE = ["plan", "kind"];
const VIOLIN_WORDS = {
    entries: () => "kernels and contractions",
    sizes: "how it came here",
    chosen: "shipped",
    chosen_own: "the shipped kernel's",
    default_title: "with the orders of the model's letters",
    chosen_title: "what the plan paper runs for it",
    further: [["published", "the paper's, from best to worst"]]
};

const shown_plan = () => all_plans[state.plan];
const shown_entries = () => shown_plan().entries.filter((entry) => state.kind === "all" || entry.kind === state.kind);

function make_filters(host) {
    if (all_plans.length > 1)
        host.append(dropdown("plan", "Device", all_plans.map((plan) => [plan.index, `${plan.tag}  ${plan.label}`])));
    host.append(segments("kind", "Show", [["all", "all"], ["kernel", "fused kernels"], ["contraction", "contractions"]]));
}
