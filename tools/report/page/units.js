/* Numbers as people read them: three digits, SI prefixes, an en dash for what was not measured. */

const NONE = "–";
const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const TIME_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const SPACE = "\u00a0";

const is_number = (value) => typeof value === "number" && Number.isFinite(value);
const is_positive = (value) => is_number(value) && value > 0;

/* Three significant digits, without an exponent. */
function digits(value) {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 99.95) return String(Math.round(value));
    return value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : Math.min(8, 2 - Math.floor(Math.log10(size))));
}

function scaled(value, units) {
    const [size, name] = units.find(([unit]) => Math.abs(value) >= unit * 0.9995) || units[units.length - 1];
    return [digits(value / size).replace("-", "−"), name];
}

function si(value, unit) {
    if (!is_number(value)) return NONE;
    const [text, prefix] = scaled(value, PREFIXES);
    return text + SPACE + prefix + unit;
}

const format_bytes = (value) => si(value, "B");
const format_bandwidth = (value) => si(value, "B/s");
const format_flops = (value) => si(value, "flop/s");
const format_intensity = (value) => (is_number(value) ? digits(value) + SPACE + "flop/B" : NONE);

function format_seconds(value) {
    if (!is_number(value)) return NONE;
    if (value === 0) return "0" + SPACE + "s";
    return scaled(value, TIME_UNITS).join(SPACE);
}

function format_percent(value) {
    if (!is_number(value)) return NONE;
    const percent = 100 * value;
    const size = Math.abs(percent);
    return percent.toFixed(size >= 9.95 || size === 0 ? 0 : size >= 0.095 ? 1 : 2).replace("-", "−") + SPACE + "%";
}

const format_ratio = (value) => (is_number(value) ? digits(value) + "×" : NONE);
const format_number = (value) => (is_number(value) ? digits(value) : NONE);
/* 1234567 -> "1 234 567" */
const format_count = (value) =>
    is_number(value) ? String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f") : NONE;
const format_text = (value) => (value === null || value === undefined || value === "" ? NONE : String(value));

/* The value of a ceiling in its own unit. */
const format_by_unit = (value, unit) => (unit === "s" ? format_seconds(value) : si(value, unit || ""));

/* "12.1 to 12.4 µs" in the unit of the larger one. */
function format_span(low, high) {
    if (!is_number(low) || !is_number(high)) return NONE;
    const [unit, name] = TIME_UNITS.find(([size]) => Math.abs(high) >= size * 0.9995) || TIME_UNITS[3];
    return digits(low / unit) + " to " + digits(high / unit) + SPACE + name;
}

/* Words as a shell would need them. */
function command_text(words) {
    return list(words)
        .map(String)
        .map((word) => (/^[\w./:=,@%+-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'"))
        .join(" ");
}
