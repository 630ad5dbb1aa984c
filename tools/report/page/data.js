/* What the page's records say, as series: one for each device of each record. Nothing here trusts a field to be there.
 */

const CLASSES = ["contraction", "normalization", "elementwise"];
const PHASES = ["encode", "forward", "backward", "loss", "optimizer"];
const REGIMES = ["compute", "memory", "cache", "launch", "unknown"];
const COLOURS = 8;

/* The best ceiling whose id begins so; `id` without a dot at its end is the whole id. */
function best_ceiling(ceilings, id) {
    const fits = (ceiling) => (id.endsWith(".") ? String(ceiling.id).startsWith(id) : ceiling.id === id);
    const all = ceilings.filter((ceiling) => fits(ceiling) && is_positive(ceiling.value));
    return all.reduce((best, ceiling) => (!best || ceiling.value > best.value ? ceiling : best), null);
}

function exact_ceiling(ceilings, id) {
    const all = ceilings.filter((ceiling) => ceiling.id === id && is_positive(ceiling.value));
    return all.find((ceiling) => ceiling.best) || all[0] || null;
}

function make_series(record, device, index) {
    const data = record.data;
    const own = (value) => list(value).filter((entry) => (entry.dev ?? 0) === (device.dev ?? 0));
    const ceilings = own(data.ceilings);
    const theory = object(device.theoretical);
    const series = {
        index,
        record,
        device,
        ceilings,
        tag: tag_name(index),
        colour: `var(--c${index % COLOURS})`,
        ring: Math.floor(index / COLOURS) % 2 === 1, /* the hues come again, with an outline */
        api: API_NAMES[device.backend] || format_text(device.backend),
        name: format_text(device.name || device.id),
        workload: describe_workload(object(data.workload)),
        dtype: object(data.workload).dtype,
        dram: best_ceiling(ceilings, "dram."),
        cached: best_ceiling(ceilings, "cache."),
        compute: ["compute.f32", "compute.f16", "compute.matrix"]
                     .map((id) => exact_ceiling(ceilings, id))
                     .filter((ceiling) => ceiling),
        launch_seconds: exact_ceiling(ceilings, "launch.seconds"),
        launch_bandwidth: exact_ceiling(ceilings, "launch.bandwidth"),
        theory_bandwidth: is_positive(theory.bandwidth) ? theory.bandwidth : null,
        theory_flops: is_positive(theory.flops) ? theory.flops : null,
        cache_bytes: is_positive(object(device.cache).bytes) ? device.cache.bytes : null,
        sweep: own(data.sweep).filter((point) => is_positive(point.bytes) && is_positive(object(point.time).median)),
        launch: own(data.launch).filter((point) => is_positive(point.bytes) && is_positive(object(point.time).median)),
        plans: own(data.plans),
        ops: own(data.ops),
        loads: own(data.loads),
        idle: own(data.idle).filter((one) => is_positive(one.seconds)),
        items: new Map(),
    };
    series.label = series.name + " · " + series.api;
    series.top = series.compute.length ? Math.max(...series.compute.map((ceiling) => ceiling.value)) : null;
    return series;
}

/* Records with the same device and API are told apart by what ran, in what type, then by when. A device that is the
 * only one stands in the title, and would only push that out of a label's room. */
function name_series(all) {
    const repeated = () => {
        const count = new Map();
        for (const series of all) count.set(series.label, (count.get(series.label) || 0) + 1);
        return all.filter((series) => count.get(series.label) > 1);
    };
    if (repeated().length) {
        const one_device = unique(all.map((series) => series.name)).length === 1;
        for (const series of all)
            series.label = (one_device ? "" : series.name + " · ") + series.api + " · " +
                describe_workload(object(series.record.data.workload), true);
    }
    for (const series of repeated()) series.label += ", " + format_text(series.dtype);
    for (const series of repeated()) series.label += " · " + format_text(object(series.record.data.run).utc);
}

function read_series(records) {
    const all = [];
    for (const record of records) {
        const devices = list(record.data.devices);
        record.series = [];
        for (const device of devices.length || !list(record.data.ops).length ? devices : [{ dev: 0 }]) {
            const series = make_series(record, object(device), all.length);
            record.series.push(series);
            all.push(series);
        }
    }
    name_series(all);
    return all;
}

const records = await read_records();
const all_series = read_series(records);
const any_loads = all_series.some((series) => series.loads.length || series.idle.length);
const only_loads = any_loads && all_series.every((series) => (series.loads.length || series.idle.length) && !series.ops.length);
const plan_names = unique(
    all_series.flatMap((series) => [...series.plans.map((plan) => plan.plan), ...series.ops.map((op) => op.plan)]))
                       .map(String);
const phase_names = unique(all_series.flatMap((series) => series.ops.map((op) => String(op.phase))))
                        .sort((a, b) => PHASES.indexOf(a) - PHASES.indexOf(b));
const class_names = unique([...CLASSES, ...all_series.flatMap((series) => series.ops.map((op) => String(op.class)))]);
const layer_numbers = unique(all_series.flatMap((series) => series.ops.map(layer_of))).sort((a, b) => a - b);
const has_cold = all_series.some((series) => series.ops.some((op) => object(op.cold).median > 0));

/* -1: outside of all layers */
function layer_of(op) {
    return Number.isInteger(op.layer) && op.layer >= 0 ? op.layer : -1;
}
