/* What the page's tunings (wherry tune --json) say, as plans with operators and kernel calls, and all times of their
 * configurations. Times are seconds here. Nothing here trusts a field to be there. */

const CLASS_OF = {
    T: "contraction",
    S: "normalization",
    E: "elementwise"
};
const from_micro = (us) => (is_number(us) ? us * 1e-6 : null);
const from_milli = (ms) => (is_number(ms) ? ms * 1e-3 : null);
const texts_of = (value) => list(value).map(String);
const named_orders = (tensors, orders) => tensors.map((tensor, n) => `${tensor}=${orders[n] ?? NONE}`).join(", ");

/* A time of one configuration. `alone`: by itself, warm, and not within the step. */
function make_point(time, sizes, orders, alone) {
    const { us, low_us, high_us, cut } = time;
    return is_positive(us) ? {
        seconds: from_micro(us),
        low: from_micro(low_us),
        high: from_micro(high_us),
        sizes,
        orders,
        alone,
        cut: cut === true
    }
                           : null;
}

/* Candidates that were right, and the times that are known beside them: one that is a candidate's own is not shown
 * twice. */
function alone_points(candidates, orders, others) {
    const points = list(candidates)
                       .map(object)
                       .filter((one) => one.verdict === "right")
                       .map((one) => make_point(one, format_text(one.sizes), orders, true))
                       .filter((point) => point);
    for (const [us, sizes] of others)
        if (is_positive(us) && !points.some((point) => point.seconds === from_micro(us)))
            points.push(make_point({ us }, sizes, orders, true));
    return points;
}

const count_verdict = (candidates, verdict) => candidates.filter((one) => object(one).verdict === verdict).length;

/* What operators and kernel calls have in common. `marks`: the times of the default and of what was chosen. */
function make_entry(entry, points, candidates, marks) {
    points.sort((a, b) => a.seconds - b.seconds);
    return {
        ...entry,
        points,
        best: points.length ? points[0].seconds : null,
        worst: points.length ? points[points.length - 1].seconds : null,
        default: from_micro(marks.default),
        chosen: from_micro(marks.chosen),
        wrong: count_verdict(candidates, "wrong"),
        failed: count_verdict(candidates, "failed"),
    };
}

function make_operator(operator) {
    const tensors = texts_of(operator.tensors);
    const times = list(operator.times).map(object);
    const candidates = times.flatMap((time) => list(time.candidates));
    const alone = candidates.length > 0;
    const orders_of = (time) => named_orders(tensors, texts_of(object(time).orders));
    const points = times.flatMap((time) => alone
            ? alone_points(time.candidates, orders_of(time),
                  [[time.alone_us, format_text(time.kernels)], [time.alone_default_us, "the table's sizes"]])
            : [make_point(time, format_text(time.kernels), orders_of(time), false)].filter((point) => point));
    const [usual, chosen] = ["default", "chosen"].map((mark) => times.find((time) => time[mark] === true));
    /* 0 is a time here: a copy that is not needed. */
    const in_step = (time) => (time && is_number(time.us)
            ? { seconds: from_micro(time.us), low: from_micro(time.low_us), high: from_micro(time.high_us) }
            : null);
    return make_entry({
        name: format_text(operator.name),
        class: CLASS_OF[operator.class] || format_text(operator.class),
        pass: format_text(operator.pass),
        tensors,
        alone,
        orders_default: usual ? orders_of(usual) : NONE,
        orders_chosen: chosen ? orders_of(chosen) : NONE,
        sizes_chosen: chosen ? format_text(chosen.kernels) : NONE,
        step: { default: in_step(usual), chosen: in_step(chosen) },
    },
        points, candidates, {
            default: usual && (alone ? usual.alone_default_us : usual.us),
            chosen: chosen && (alone ? chosen.alone_us : chosen.us)
        });
}

/* Of a kernel call 0 is a time that was not measured. */
function known_marks(work) {
    const known = (us) => (is_positive(us) ? us : null);
    return { default: known(work.default_us), chosen: known(work.chosen === true ? work.best_us : work.default_us) };
}

function make_work(work) {
    const layouts = format_text(work.layouts);
    const points = alone_points(work.candidates, layouts === NONE ? "the default" : layouts,
        [[work.best_us, format_text(work.best)], [work.default_us, format_text(work.default)]]);
    return make_entry({
        name: format_text(work.group).replace(/^layer\.\d+\./, ""),
        class: "kernel call",
        pass: NONE,
        tensors: [],
        alone: true,
        orders_default: NONE,
        orders_chosen: layouts,
        retuned: work.chosen === true,
        sizes_chosen: format_text(work.chosen === true ? work.best : work.default),
        work: format_text(work.work),
        kernel: format_text(work.default).split(" ")[0],
        step: { default: null, chosen: null },
    },
        points, list(work.candidates), known_marks(work));
}

const FIGURES = ["default", "chosen", "predicted", "best_sum", "transposed"];

function make_plan(record, data, index) {
    const name = format_text(object(data.session).plan);
    const { device, model, training, lengths } = record.data;
    const layouts = data.layouts ? object(data.layouts) : null;
    const tokens = list(lengths).reduce((sum, length) => sum + (is_number(length) ? length : 0), 0);
    const random = object(object(layouts).random_ms);
    const api = format_text(object(device).id).split(":")[0];
    return {
        index,
        record,
        data,
        layouts,
        name,
        tag: tag_name(index),
        device: format_text(object(device).name || object(device).id),
        api: API_NAMES[api] || api,
        workload: describe_workload({
            kind: training ? "layer" : "encode",
            model,
            training,
            lengths,
            tokens,
            dtype: object(data.session).dtype
        }),
        figures: layouts ? Object.fromEntries(FIGURES.map((figure) => [figure, from_milli(layouts[figure + "_ms"])]))
                         : { default: from_micro(data.default_us), chosen: from_micro(data.best_us) },
        host: Object.fromEntries(
            ["default", "chosen"].map((figure) => [figure, from_milli(object(layouts)[figure + "_host_ms"])])),
        bounds: Object.fromEntries(["default", "chosen"].map(
            (figure) => [figure, ["low", "high"].map((side) => from_milli(object(layouts)[`${figure}_${side}_ms`]))])),
        random: is_number(random.median) ? {
            n: random.n,
            low: from_milli(random.p05),
            median: from_milli(random.median),
            high: from_milli(random.p95)
        }
                                         : null,
        tensors: list(object(layouts).tensors).map(object),
        operators: list(object(layouts).operators).map((operator) => make_operator(object(operator))),
        works: list(record.data.works).map(object).filter((work) => work.plan === name).map(make_work),
    };
}

const records = await read_records();
const all_plans = [];
for (const record of records)
    for (const data of list(record.data.plans)) all_plans.push(make_plan(record, object(data), all_plans.length));
for (const plan of all_plans) plan.label = `${plan.device} · ${plan.api} · ${plan.workload} · ${plan.name}`;
const pass_names = unique(all_plans.flatMap((plan) => plan.operators.map((operator) => operator.pass)));
