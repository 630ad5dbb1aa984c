/* What the charts show: operators, or operators of the same kind merged over layers; sums are exact, shares and
 * efficiencies weighted by time, which is exact for them, too. */

/* "layer.3.qkv" -> "qkv" */
const kind_of = (op) => String(op.id).replace(/^layer\.\d+\./, "");

const moved = (value) => (is_number(value) ? value : total([object(value).r, object(value).w]));

function merge_times(times) {
    if (!times.length || times.some((time) => !time || !is_positive(time.median))) return null;
    const sum = (field) => total(times.map((time) => time[field]));
    const spans = times.map((time) => list(time.ci95));
    return {
        median: sum("median"),
        p05: sum("p05"),
        p95: sum("p95"),
        min: sum("min"),
        mean: sum("mean"),
        first: sum("first"),
        ci95: [total(spans.map((span) => span[0])), total(spans.map((span) => span[1]))],
        cv: times.length === 1 ? times[0].cv : null,
        n: times[0].n,
        outliers: sum("outliers"),
    };
}

/* By time: mean of a field of `derived`, null where one operator has none. */
function weigh(ops, times, derived, field) {
    if (ops.length === 1) return is_number(derived[0][field]) ? derived[0][field] : null;
    const products = ops.map((op, n) => (is_number(derived[n][field]) ? derived[n][field] * times[n] : null));
    const sum = total(products);
    return is_number(sum) ? sum / total(times) : null;
}

function merge_derived(item, ops, cache) {
    const derived = ops.map((op) => object(object(op.derived)[cache]));
    const times = ops.map((op) => object(op[cache]).median);
    const t = item.time.median;
    const rate = (amount, field) => ops.length === 1 && is_number(derived[0][field]) ? derived[0][field]
        : is_number(amount)                                                          ? amount / t
                                                                                     : null;
    const trusted = derived.every((one) => is_number(one.bandwidth));
    const over = (upper, lower) => (is_number(upper) && is_positive(lower) ? upper / lower : null);
    const by_regime = new Map();
    ops.forEach((op, n) => {
        const regime = REGIMES.includes(derived[n].regime) ? derived[n].regime : "unknown";
        by_regime.set(regime, (by_regime.get(regime) || 0) + times[n]);
    });
    const limit = total(derived.map((one) => one.limit_seconds));
    return {
        /* A record gives no rates where the timer can't be trusted; then this makes none up. */
        bandwidth: trusted ? rate(item.d, "bandwidth") : null,
        bandwidth_unique: trusted ? rate(item.q, "bandwidth_unique") : null,
        bandwidth_requested: trusted ? rate(item.requested, "bandwidth_requested") : null,
        flops_per_second: trusted ? rate(item.flops, "flops_per_second") : null,
        intensity: over(item.flops, item.q),
        intensity_model: over(item.flops, item.d),
        intensity_requested: over(item.flops, item.requested),
        roof_memory: weigh(ops, times, derived, "roof_memory"),
        roof_cache: weigh(ops, times, derived, "roof_cache"),
        copy_share: weigh(ops, times, derived, "copy_share"),
        mue: weigh(ops, times, derived, "mue"),
        mue_theoretical: weigh(ops, times, derived, "mue_theoretical"),
        q_over_d: ops.length === 1 && is_number(derived[0].q_over_d) ? derived[0].q_over_d : over(item.q, item.d),
        b_over_peak: weigh(ops, times, derived, "b_over_peak"),
        limit_seconds: limit,
        headroom: ops.length === 1 && is_number(derived[0].headroom) ? derived[0].headroom : over(t, limit),
        regime: [...by_regime].sort((a, b) => b[1] - a[1])[0][0],
        over_peak: derived.some((one) => one.over_peak === true) ||
            ops.some((op) => object(op.checks).exceeds_peak === true && cache === "warm"),
    };
}

function make_item(series, name, ops, cache) {
    const first = ops[0];
    const bytes = (field, way) => total(ops.map((op) => {
        const part = object(op.bytes)[field];
        return way ? object(part)[way] : moved(part);
    }));
    const counted = ops.map((op) => object(op.bytes).d_counter);
    const item = {
        series,
        name,
        ops,
        plan: String(first.plan),
        class: String(first.class),
        phase: String(first.phase),
        key: JSON.stringify([series.index, first.plan, first.phase, name]),
        kind: JSON.stringify([first.plan, first.phase, name]),
        layers: unique(ops.map(layer_of)),
        flops: total(ops.map((op) => op.flops)),
        launches: total(ops.map((op) => op.launches)),
        operators: total(ops.map((op) => op.operators)),
        footprint: ops.length === 1 ? first.footprint_bytes : largest(ops.map((op) => op.footprint_bytes)),
        q: bytes("q"),
        q_r: bytes("q", "r"),
        q_w: bytes("q", "w"),
        d: bytes("d_model"),
        d_r: bytes("d_model", "r"),
        d_w: bytes("d_model", "w"),
        requested: bytes("requested"),
        requested_r: bytes("requested", "r"),
        requested_w: bytes("requested", "w"),
        counted: counted.every((value) => value !== null && value !== undefined) ? total(counted.map(moved)) : null,
        warm: merge_times(ops.map((op) => op.warm)),
        cold: merge_times(ops.map((op) => op.cold)),
        remeasured: largest(ops.map((op) => object(op.checks).remeasured)),
        timer_ok: ops.every((op) => object(op.checks).timer_ok !== false),
        share: null,
        before: 0,
        derived: null,
    };
    if (!is_number(item.footprint)) item.footprint = null;
    if (!is_number(item.remeasured)) item.remeasured = null;
    item.time = item[cache];
    if (item.time) item.derived = merge_derived(item, ops, cache);
    return item;
}

/* Share of its plan's time, and how much of that time larger operators of the plan take. */
function rank_items(items) {
    for (const plan of unique(items.map((item) => item.plan))) {
        const timed =
            items.filter((item) => item.plan === plan && item.time).sort((a, b) => b.time.median - a.time.median);
        const sum = total(timed.map((item) => item.time.median));
        let before = 0;
        for (const item of timed) {
            item.share = item.time.median / sum;
            item.before = before / sum;
            before += item.time.median;
        }
    }
}

/* `cache`: "warm" or "cold"; `layers`: "merged", "each", or a layer's number. */
function series_items(series, cache, layers) {
    const key = cache + " " + layers;
    if (series.items.has(key)) return series.items.get(key);
    const groups = new Map();
    for (const op of series.ops) {
        if (typeof layers === "number" && layer_of(op) !== layers) continue;
        const name = layers === "each" ? String(op.id) : kind_of(op);
        const group = JSON.stringify([op.plan, op.phase, name]);
        if (!groups.has(group)) groups.set(group, { name, ops: [] });
        groups.get(group).ops.push(op);
    }
    const items = [...groups.values()].map(({ name, ops }) => make_item(series, name, ops, cache));
    rank_items(items);
    series.items.set(key, items);
    return items;
}
