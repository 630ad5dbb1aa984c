/* The fields of a record. In the order in which they are written; those of an operation in that of CSV's columns. */
#include "report/tables.h"

#include "report/model.h"

#define FIELDS_OF(list)                                                                                                \
    {                                                                                                                  \
        list, sizeof list / sizeof *list                                                                               \
    }

#define AT(member) offsetof(struct record, member)
static const struct field record_list[] = {
    {"units", 's'},
    {"status", 's', FIELD_TEXT, AT(status), .derived = true},
    {"run", 'o'},
    {"run.id", 's', FIELD_TEXT, AT(run_id)},
    {"run.utc", 's', FIELD_TEXT, AT(utc)},
    {"run.tool", 'o'},
    {"run.tool.version", 's'},
    {"run.tool.git", 'S'},
    {"run.command_line", 'a'},
    {"run.data_kind", 'S'},
    {"run.cache_modes", 'a'},
    {"run.host", 'o'},
    {"run.sentinel", 'O'},
    {"run.sentinel.first_seconds", '-', FIELD_NUMBER, AT(first_seconds)},
    {"run.sentinel.last_seconds", '-', FIELD_NUMBER, AT(last_seconds)},
    {"run.sentinel.drift", '-', FIELD_NUMBER, AT(drift), .derived = true},
    {"devices", 'a'},
    {"workload", 'o'},
    {"workload.kind", 's', FIELD_TEXT, AT(workload.kind)},
    {"workload.model.source", '-', FIELD_TEXT, AT(workload.model)},
    {"workload.model.layers", '-', FIELD_NUMBER, AT(workload.model_layers)},
    {"workload.sequences", '-', FIELD_NUMBER, AT(workload.sequences)},
    {"workload.tokens", '-', FIELD_NUMBER, AT(workload.tokens)},
    {"workload.lengths", '-', FIELD_THERE, AT(workload.has_lengths)},
    {"workload.training", '-', FIELD_THERE, AT(workload.has_training)},
    {"workload.training.layers", '-', FIELD_NUMBER, AT(workload.layers)},
    {"workload.training.pre_layernorm", '-', FIELD_FLAG, AT(workload.pre_layernorm)},
    {"workload.training.activation", '-', FIELD_TEXT, AT(workload.activation)},
    {"workload.training.dropout", '-', FIELD_NUMBER, AT(workload.dropout)},
    {"workload.training.save", '-', FIELD_TEXT, AT(workload.save)},
    {"workload.training.task", '-', FIELD_TEXT, AT(workload.task)},
    {"workload.training.optimizer", '-', FIELD_TEXT, AT(workload.optimizer)},
    {"workload.requests.tokenized", '-', FIELD_FLAG, AT(workload.tokenized)},
    {"workload.requests.sessions", '-', FIELD_TEXT, AT(workload.sessions)},
    {"session.plan", '-', FIELD_TEXT, AT(session_plan)},
    {"session.dtype", '-', FIELD_TEXT, AT(session_dtype)},
    {"session.device_bytes", '-', FIELD_NUMBER, AT(session_bytes)},
    {"ceilings", 'a'},
    {"sweep", 'a'},
    {"launch", 'a'},
    {"plans", 'a'},
    {"ops", 'a'},
    {"warnings", 'a'}};
const struct fields record_fields = FIELDS_OF(record_list);
#undef AT

#define AT(member) offsetof(struct record_device, member)
static const struct field device_list[] = {{"dev", 'i', FIELD_COUNT, AT(dev)},
                                           {"id", 's', FIELD_TEXT, AT(id)},
                                           {"name", 's', FIELD_TEXT, AT(name)},
                                           {"type", 's'},
                                           {"backend", 's', FIELD_TEXT, AT(backend)},
                                           {"driver", '-', FIELD_TEXT, AT(driver)},
                                           {"api", '-', FIELD_TEXT, AT(api)},
                                           {"class", '-', FIELD_TEXT, AT(device_class)},
                                           {"quirks", '-', FIELD_TEXT, AT(quirks)},
                                           {"theoretical", 'o'},
                                           {"theoretical.bandwidth", 'N', FIELD_NUMBER, AT(peak_bandwidth)},
                                           {"theoretical.flops", 'N'},
                                           {"theoretical.source", 'S', FIELD_TEXT, AT(peak_source)},
                                           {"cache", 'o'},
                                           {"cache.bytes", 'N', FIELD_NUMBER, AT(cache_bytes)},
                                           {"timer", 'O'},
                                           {"timer.kind", '-', FIELD_TEXT, AT(timer_kind)},
                                           {"timer.status", 's', FIELD_TEXT, AT(timer_status)},
                                           {"timer.reason", '-', FIELD_TEXT, AT(timer_reason)}};
const struct fields device_fields = FIELDS_OF(device_list);
#undef AT

#define AT(member) offsetof(struct record_ceiling, member)
static const struct field ceiling_list[] = {{"id", 's', FIELD_TEXT, AT(id)},
                                            {"dev", 'i', FIELD_COUNT, AT(dev)},
                                            {"unit", 's', FIELD_TEXT, AT(unit)},
                                            {"value", 'n', FIELD_NUMBER, AT(value), .derived = true},
                                            {"best", 'b', FIELD_FLAG, AT(best), .derived = true},
                                            {"config", 'S', FIELD_TEXT, AT(config)},
                                            {"dtype", 'S', FIELD_TEXT, AT(dtype)},
                                            {"data_kind", 'S', FIELD_TEXT, AT(data_kind)},
                                            {"amount", 'n', FIELD_NUMBER, AT(amount)},
                                            {"footprint_bytes", 'N', FIELD_WHOLE, AT(footprint_bytes)},
                                            {"time", 'T', FIELD_TIME, AT(time)}};
const struct fields ceiling_fields = FIELDS_OF(ceiling_list);
#undef AT

#define AT(member) offsetof(struct record_point, member)
static const struct field point_list[] = {
    {"dev", 'i', FIELD_COUNT, AT(dev)}, {"bytes", 'n', FIELD_WHOLE, AT(bytes)}, {"time", 'T', FIELD_TIME, AT(time)}};
const struct fields point_fields = FIELDS_OF(point_list);
#undef AT

#define AT(member) offsetof(struct record_plan, member)
static const struct field plan_list[] = {{"plan", 's', FIELD_TEXT, AT(name)},
                                         {"dev", 'i', FIELD_COUNT, AT(dev)},
                                         {"dtype", 's', FIELD_TEXT, AT(dtype)},
                                         {"groups", 'i', FIELD_COUNT, AT(groups)},
                                         {"launches", 'i', FIELD_COUNT, AT(launches)},
                                         {"device_bytes", '-', FIELD_WHOLE, AT(device_bytes)},
                                         {"saved_bytes", '-', FIELD_WHOLE, AT(saved_bytes)},
                                         {"layouts", '-', FIELD_TEXT, AT(layouts)},
                                         {"step", 'o'},
                                         {"step.host", 'T', FIELD_TIME, AT(host)},
                                         {"step.kernels", 'T', FIELD_TIME, AT(kernels)},
                                         {"step.gap_seconds", '*', FIELD_NUMBER, AT(gap_seconds), .derived = true},
                                         {"phases", 'O', FIELD_THERE, AT(has_steps)},
                                         {"by_class", 'a'},
                                         {"by_regime", 'O', FIELD_THERE, AT(has_regimes)},
                                         {"limit_seconds", 'N', FIELD_NUMBER, AT(limit_seconds), .derived = true},
                                         {"headroom", 'N', FIELD_NUMBER, AT(headroom), .derived = true},
                                         {"notes", 'a'},
                                         {"repeats", 'i', FIELD_COUNT, AT(repeats)},
                                         {"warm_seconds", '-', FIELD_NUMBER, AT(warm_seconds)}};
const struct fields plan_fields = FIELDS_OF(plan_list);
#undef AT

#define AT(member) offsetof(struct record_step, member)
static const struct field step_list[] = {{"host_seconds", 'N', FIELD_NUMBER, AT(host_seconds)},
                                         {"device_seconds", 'N', FIELD_NUMBER, AT(device_seconds)}};
const struct fields step_fields = FIELDS_OF(step_list);
#undef AT

#define AT(member) offsetof(struct record_class, member)
static const struct field class_list[] = {{"class", 's', FIELD_TEXT, AT(name)},
                                          {"seconds", 'N', FIELD_NUMBER, AT(seconds)},
                                          {"flops", 'N', FIELD_NUMBER, AT(flops)},
                                          {"bytes", 'N', FIELD_NUMBER, AT(bytes)},
                                          {"share", 'N', FIELD_NUMBER, AT(share)}};
const struct fields class_fields = FIELDS_OF(class_list);
#undef AT

#define AT(member) offsetof(struct record_op, member)
static const struct field op_list[] = {
    {"id", 's', FIELD_TEXT, AT(id), .column = "op"},
    {"plan", 's', FIELD_TEXT, AT(plan)},
    {"dev", 'i', FIELD_COUNT, AT(dev)},
    {"class", 's', FIELD_TEXT, AT(class_name), .column = "class"},
    {"phase", 's', FIELD_TEXT, AT(phase), .column = "phase"},
    {"layer", '*', FIELD_WHOLE, AT(layer), .column = "layer"},
    {"paper_row", '-', FIELD_WHOLE, AT(paper_row), .column = "paper_row"},
    {"kernel", 's', FIELD_TEXT, AT(kernel), .column = "kernel"},
    {"variant", 's', FIELD_TEXT, AT(variant), .column = "variant"},
    {"launches", 'i', FIELD_COUNT, AT(launches), .column = "launches"},
    {"dtype", 'o'},
    {"dtype.store", 's', FIELD_TEXT, AT(store), .column = "store"},
    {"dtype.accumulate", '-', FIELD_TEXT, AT(accumulate), .column = "accumulate"},
    {"operators", '-', FIELD_WHOLE, AT(operators), .column = "operators"},
    {"flops", 'n', FIELD_NUMBER, AT(flops), .column = "flops"},
    {"bytes", 'o'},
    {"bytes.q", 'o'},
    {"bytes.q.r", 'n', FIELD_WHOLE, AT(q.read), .column = "q_read"},
    {"bytes.q.w", 'n', FIELD_WHOLE, AT(q.written), .column = "q_written"},
    {"bytes.d_model", 'o'},
    {"bytes.d_model.r", 'N', FIELD_WHOLE, AT(d_model.read), .column = "d_read"},
    {"bytes.d_model.w", 'N', FIELD_WHOLE, AT(d_model.written), .column = "d_written"},
    {"bytes.requested", 'o'},
    {"bytes.requested.r", 'N', FIELD_WHOLE, AT(requested.read), .column = "requested_read"},
    {"bytes.requested.w", 'N', FIELD_WHOLE, AT(requested.written), .column = "requested_written"},
    {"bytes.d_counter", '*', FIELD_WHOLE, AT(d_counter), .column = "d_counter"},
    {"footprint_bytes", 'n', FIELD_WHOLE, AT(footprint_bytes), .column = "footprint_bytes"},
    {"warm", 'T', FIELD_TIME, AT(modes[WARM].time)},
    {"cold", 'T', FIELD_TIME, AT(modes[COLD].time)},
    {"derived", 'o'},
    {"derived.warm", 'O', FIELD_THERE, AT(modes[WARM].is_derived)},
    {"derived.cold", 'O', FIELD_THERE, AT(modes[COLD].is_derived)},
    {"share", 'N', FIELD_NUMBER, AT(share), .derived = true, .column = "share"},
    {"cold_sets", 'N', FIELD_WHOLE, AT(cold_sets), .column = "cold_sets"},
    {"checks", 'o'},
    {"checks.exceeds_peak", 'b', FIELD_FLAG, AT(exceeds_peak), .derived = true, .column = "exceeds_peak"},
    {"checks.timer_ok", 'b', FIELD_FLAG, AT(timer_ok), .column = "timer_ok"},
    {"checks.remeasured", 'i', FIELD_COUNT, AT(remeasured), .derived = true, .column = "remeasured"}};
const struct fields op_fields = FIELDS_OF(op_list);
#undef AT

#define AT(member) offsetof(struct record_kernel, member)
static const struct field kernel_list[] = {{"kernel", 's', FIELD_TEXT, AT(name)},
                                           {"variant", 's', FIELD_TEXT, AT(variant)},
                                           {"reason", 's', FIELD_TEXT, AT(reason)},
                                           {"registers", 'N', FIELD_WHOLE, AT(registers)},
                                           {"spilled_bytes", 'N', FIELD_WHOLE, AT(spilled_bytes)},
                                           {"shared_bytes", 'N', FIELD_WHOLE, AT(shared_bytes)}};
const struct fields kernel_fields = FIELDS_OF(kernel_list);
#undef AT

#define AT(member) offsetof(struct record_mode, member)
#define DERIVED(name)                                                                                                  \
    {                                                                                                                  \
#name, '-', FIELD_NUMBER, AT(derived.name), .column = #name                                                    \
    }
static const struct field derived_list[] = {
    DERIVED(bandwidth),
    DERIVED(bandwidth_unique),
    DERIVED(bandwidth_requested),
    DERIVED(flops_per_second),
    DERIVED(intensity),
    DERIVED(intensity_model),
    DERIVED(roof_memory),
    DERIVED(roof_cache),
    DERIVED(copy_share),
    DERIVED(mue),
    DERIVED(mue_theoretical),
    DERIVED(q_over_d),
    DERIVED(b_over_peak),
    DERIVED(limit_seconds),
    DERIVED(headroom),
    {"regime", '-', FIELD_TEXT, AT(regime), .column = "regime"},
    {"over_peak", '-', FIELD_FLAG, AT(derived.over_peak), .column = "over_peak"}};
const struct fields derived_fields = FIELDS_OF(derived_list);
#undef AT

#define AT(member) offsetof(struct record_load, member)
static const struct field load_list[] = {
    {"dev", 'i', FIELD_COUNT, AT(dev)},
    {"clients", 'i', FIELD_COUNT, AT(clients), .column = "clients"},
    {"warm_seconds", 'n', FIELD_NUMBER, AT(warm_seconds)},
    {"seconds", 'n', FIELD_NUMBER, AT(seconds), .column = "seconds"},
    {"waited_seconds", 'n', FIELD_NUMBER, AT(waited_seconds), .column = "waited_seconds"},
    {"histogram", 'o'},
    {"histogram.parts", 'i'},
    {"histogram.min_ns", 'i'},
    {"histogram.max_ns", 'i'},
    {"histogram.sum_ns", 'n'},
    {"histogram.buckets", 'a'},
    {"requests", 'i', FIELD_COUNT, AT(requests), .derived = true, .column = "requests"},
    {"rate", 'N', FIELD_NUMBER, AT(rate), .derived = true, .column = "requests_per_second"},
    {"min", 'N', FIELD_NUMBER, AT(min), .derived = true, .column = "min"},
    {"p50", 'N', FIELD_NUMBER, AT(percentiles[LOAD_P50]), .derived = true, .column = "p50"},
    {"p90", 'N', FIELD_NUMBER, AT(percentiles[LOAD_P90]), .derived = true, .column = "p90"},
    {"p99", 'N', FIELD_NUMBER, AT(percentiles[LOAD_P99]), .derived = true, .column = "p99"},
    {"p999", 'N', FIELD_NUMBER, AT(percentiles[LOAD_P999]), .derived = true, .column = "p999"},
    {"max", 'N', FIELD_NUMBER, AT(max), .derived = true, .column = "max"},
    {"mean", 'N', FIELD_NUMBER, AT(mean), .derived = true, .column = "mean"}};
const struct fields load_fields = FIELDS_OF(load_list);
#undef AT

#define AT(member) offsetof(struct record_idle, member)
static const struct field idle_list[] = {{"dev", 'i', FIELD_COUNT, AT(dev)},
                                         {"idle_seconds", 'n', FIELD_NUMBER, AT(idle_seconds)},
                                         {"seconds", 'n', FIELD_NUMBER, AT(seconds)}};
const struct fields idle_fields = FIELDS_OF(idle_list);
#undef AT

#define AT(member) offsetof(struct record_warning, member)
static const struct field warning_list[] = {{"code", 's', FIELD_TEXT, AT(code)},
                                            {"text", 's', FIELD_TEXT, AT(text)},
                                            {"plan", '-', FIELD_TEXT, AT(plan)},
                                            {"op", '-', FIELD_TEXT, AT(op)}};
const struct fields warning_fields = FIELDS_OF(warning_list);
