/* What speaks for and against each record: timer, drift, data, warnings, and how to run it again. */

const DRIFT_LIMIT = 0.03;
const WARNINGS_AT_ONCE = 12;

function over_count(series) {
    return ["warm", "cold"].map(
        (cache) => series_items(series, cache, "each").filter((item) => item.derived && item.derived.over_peak).length);
}

function trust_badges(record) {
    const { data, series } = record;
    const drift = object(object(data.run).sentinel).drift;
    const over = series.reduce((sum, one) => sum + total(over_count(one)), 0);
    const warnings = list(data.warnings).length;
    return html("ul", { class: "badges", style: "list-style: none; padding: 0" },
        data.status !== "ok" && badge("bad", "status: " + format_text(data.status)), series.map((one) => {
            const status = object(one.device.timer).status;
            return badge(status === "ok" ? "good"
                    : status             ? "bad"
                                         : "none",
                "timer " + format_text(status) + (series.length > 1 ? ` (${one.tag})` : ""));
        }),
        is_number(drift) ? badge(Math.abs(drift) <= DRIFT_LIMIT ? "good" : "bad", "drift " + format_percent(drift))
                         : badge("none", "drift unknown"),
        series.some((one) => one.ops.length) &&
            badge(over ? "bad" : "good", over ? over + " above a ceiling" : "none above a ceiling"),
        badge(warnings ? "bad" : "good", warnings === 1 ? "1 warning" : warnings + " warnings"));
}

function device_fields(series) {
    const { device } = series;
    const timer = object(device.timer);
    const theory = object(device.theoretical);
    const limits = object(device.limits);
    const [warm, cold] = over_count(series);
    const row = (name, value) => [html("dt", null, name), html("dd", null, value)];
    return [
        row("device",
            `${series.tag}  ${format_text(device.name)} (${format_text(device.id)}, ${format_text(device.type)})`),
        row("driver", `${format_text(device.driver)}, ${format_text(device.api)}`),
        ...(device.quirks ? [row("known of it", format_text(device.quirks))] : []),
        row("timer",
            `${format_text(timer.kind)}, ${format_text(timer.status)}: slope ` +
                `${is_number(timer.slope) ? timer.slope.toFixed(4) : NONE} of the host's clock, tick ${
                    format_seconds(timer.tick_seconds)}, ${format_count(timer.valid_bits)} bits` +
                (timer.reason ? `; ${timer.reason}` : "")),
        row("peaks",
            `memory ${format_bandwidth(series.dram && series.dram.value)} measured` +
                (series.theory_bandwidth
                        ? `, ${format_percent(series.dram ? series.dram.value / series.theory_bandwidth : null)} of ` +
                            `${format_bandwidth(series.theory_bandwidth)} by the ${format_text(theory.source)}`
                        : "") +
                `; cache ${format_bandwidth(series.cached && series.cached.value)} up to ${
                    format_bytes(series.cache_bytes)}`),
        row("limits",
            `${format_bytes(limits.shared_bytes)} shared, sub-groups ${
                list(limits.subgroup).map(format_text).join(" to ") || NONE}, ` +
                `groups of ${format_count(limits.max_local_size)}, buffers of ${
                    format_bytes(limits.max_buffer_bytes)}, memory ${format_bytes(device.memory_bytes)}`),
        row("above a ceiling", `operators: ${warm} warm, ${cold} cold`),
    ];
}

function trust_box(record, index) {
    const { data, series } = record;
    const run = object(data.run);
    const host = object(run.host);
    const tool = object(run.tool);
    const sentinel = object(run.sentinel);
    const row = (name, value) => [html("dt", null, name), html("dd", null, value)];
    const title = series.map((one) => one.tag).join(", ") + "  " +
        (series.length ? unique(series.map((one) => one.label)).join("; ") : "no device");
    const warnings = list(data.warnings);
    const rest = warnings.length - WARNINGS_AT_ONCE;
    return html("article", { class: "trust", "data-record": index }, html("h3", null, title), trust_badges(record),
        html("dl", null, row("ran", `${format_text(run.utc).replace("T", " ")}, seed ${format_text(run.seed)}`),
            row("tool", `wherry ${format_text(tool.version)}, commit ${format_text(tool.git)}`),
            row("workload", describe_workload(object(data.workload))),
            row("data", `${format_text(run.data_kind)}; caches ${list(run.cache_modes).join(", ") || NONE}`),
            row("drift",
                is_number(sentinel.drift) ? `${format_percent(sentinel.drift)}: the sentinel took ` +
                        `${format_seconds(sentinel.first_seconds)}, then ${format_seconds(sentinel.last_seconds)}`
                                          : "not measured"),
            row("host",
                [
                    host.os, host.cpu, is_number(host.cores) && host.cores + " cores",
                    is_positive(host.ram_bytes) && format_bytes(host.ram_bytes)
                ].filter((part) => part)
                        .join(", ") ||
                    NONE),
            series.map(device_fields),
            row("command",
                list(run.command_line).length ? html("code", { class: "command" }, command_text(run.command_line))
                                              : NONE),
            warnings.length > 0 &&
                row("warnings",
                    html("ul", null,
                        warnings.slice(0, WARNINGS_AT_ONCE)
                            .map((warning) => html("li", null,
                                     [warning.plan, warning.op].filter((part) => part).join(" ") +
                                         (warning.op || warning.plan ? ": " : "") +
                                         `${format_text(warning.text)} (${format_text(warning.code)})`)),
                        rest > 0 && html("li", null, `and ${rest} more in the data`))),
            list(data.plans).some((plan) => list(plan.notes).length) &&
                row("notes",
                    html("ul", null,
                        list(data.plans)
                            .flatMap((plan) => list(plan.notes)
                                                   .map((note) => html("li", null,
                                                            `${format_text(plan.plan)}: ${format_text(note)}`)))))),
        records_button([record], "wherry " + (series[0] ? series[0].label : "record"), "Download this record (JSON)"));
}

charts.set("trust", {
    reads: [],
    draw(figure) {
        figure.append(html("div", { class: "trusts" }, records.map(trust_box)));
    },
});
