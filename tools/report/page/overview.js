/* The table at the top: a row for each device and plan, what was measured of its whole step. */

/* Mean by time over a plan's operators; null where none has it. */
function plan_mean(items, field) {
    const known = items.filter((item) => item.derived && is_number(item.derived[field]));
    if (!known.length) return null;
    return total(known.map((item) => item.derived[field] * item.time.median)) /
        total(known.map((item) => item.time.median));
}

function overview_rows() {
    return all_series.flatMap((series) => {
        const plans =
            series.plans.length ? series.plans : unique(series.ops.map((op) => op.plan)).map((plan) => ({ plan }));
        return (plans.length ? plans : [{}]).map((plan) => {
            const items = series_items(series, "warm", "merged").filter((item) => item.plan === String(plan.plan));
            const step = object(plan.step);
            const host = object(step.host);
            return {
                series,
                plan: plan.plan,
                host: host.median,
                low: host.p05,
                high: host.p95,
                kernels: object(step.kernels).median ??
                    (items.length ? total(items.map((item) => item.time && item.time.median)) : null),
                gap: step.gap_seconds,
                limit: plan.limit_seconds,
                headroom: plan.headroom,
                launches: plan.launches,
                memory: plan.device_bytes,
                tokens: is_positive(host.median) && is_positive(object(series.record.data.workload).tokens)
                    ? series.record.data.workload.tokens / host.median
                    : null,
                rate: items.length && is_positive(host.median) ? total(items.map((item) => item.flops)) / host.median
                                                               : null,
                mue: plan_mean(items, "mue"),
                over: items.filter((item) => item.derived && item.derived.over_peak).length,
            };
        });
    });
}

charts.set("overview", {
    reads: [],
    draw(figure) {
        const rows = overview_rows();
        if (!rows.length) {
            figure.append(html("p", { class: "note" }, "No record has a device."));
            return;
        }
        figure.append(make_table({
            caption: `Whole steps, caches warm; medians. ${NONE}: not measured.`,
            rows,
            columns: [
                { name: "device", value: (row) => row.series.tag + "  " + row.series.label },
                { name: "plan", value: (row) => row.plan, left: true },
                { name: "step", value: (row) => row.host, text: format_seconds, title: "as a caller waits for it" },
                { name: "p05 to p95", value: (row) => row.low, text: (value, row) => format_span(row.low, row.high) },
                { name: "kernels", value: (row) => row.kernels, text: format_seconds, title: "the sum of their times" },
                { name: "gap", value: (row) => row.gap, text: format_seconds },
                { name: "limit", value: (row) => row.limit, text: format_seconds },
                { name: "headroom", value: (row) => row.headroom, text: format_ratio },
                { name: "MUE", value: (row) => row.mue, text: format_percent, title: "mean by time" },
                { name: "flop/s", value: (row) => row.rate, text: format_flops },
                { name: "tokens/s", value: (row) => row.tokens, text: (value) => si(value, "").trim() },
                { name: "launches", value: (row) => row.launches, text: format_count },
                {
                    name: "memory peak",
                    value: (row) => row.series.dram && row.series.dram.value,
                    text: format_bandwidth,
                    title: "the best measured"
                },
                {
                    name: "over peak",
                    value: (row) => row.over,
                    text: format_count,
                    title: "operators above a measured ceiling",
                    flag: (row) => row.over > 0
                },
                { screen: true, name: "device memory", value: (row) => row.memory, text: format_bytes },
                { screen: true, name: "workload", value: (row) => row.series.workload, left: true },
            ],
        }));
    },
});
