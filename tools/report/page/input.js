/* What comes in: the page's data, unpacked, and values of it that need not be there. */

const API_NAMES = {
    opencl: "OpenCL",
    vulkan: "Vulkan",
    reference: "Reference"
};

const list = (value) => (Array.isArray(value) ? value : []);
const object = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
/* Sum; null as soon as one is unknown. */
const total = (values) => values.reduce((sum, value) => (is_number(sum) && is_number(value) ? sum + value : null), 0);
const largest = (values) => values.filter(is_number).reduce((most, value) => Math.max(most, value), -Infinity);
const unique = (values) => [...new Set(values)];

/* A, B, ... Z, AA, AB, ... */
function tag_name(index) {
    return (index >= 26 ? tag_name(Math.floor(index / 26) - 1) : "") + String.fromCharCode(65 + (index % 26));
}

/* atob, since fetching a data: URL would be a request, which the page's policy refuses. */
function unpack(text) {
    const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/* Says above everything else why something is not shown. */
function complain(text) {
    find("main").before(html("p", { class: "problem", role: "alert" }, text));
}

async function read_record(script, index, scripts) {
    try {
        const text = await unpack(script.textContent);
        return { data: object(JSON.parse(text)), text };
    } catch { /* gzip's checksum and length make sure that no other damage gets through */
        complain(
            `Record ${index + 1} of the ${scripts.length} in this page is left out, because its data is damaged. ` +
            "Make the page again, or load another copy of it.");
        return null;
    }
}

async function read_records() {
    if (typeof DecompressionStream === "undefined") {
        complain("This browser can't unpack the data in this page, so there is nothing to draw: it has no " +
            "DecompressionStream. Any current one does.");
        return [];
    }
    return (await Promise.all(find_all("script.record").map(read_record))).filter((record) => record);
}

/* `brief`: for labels of a chart, without what seldom tells records apart. */
function describe_workload(workload, brief = false) {
    const model = object(workload.model);
    const name = format_text(model.source || model.architecture);
    const lengths = unique(list(workload.lengths));
    const sequences = is_number(workload.sequences) ? workload.sequences : list(workload.lengths).length;
    if (workload.kind === "roof") return "ceilings only";
    const parts = [];
    if (workload.kind === "latency")
        return [(name === NONE ? "" : name + " ") + `requests of ${lengths.join(", ") || NONE} tokens`,
            ...(workload.dtype && !brief ? [workload.dtype] : [])].join(", ");
    if (workload.kind === "layer") {
        const layers = model.layers > 1 ? model.layers + " layers" : "layer";
        parts.push((name === NONE ? "" : name + " ") + layers + (workload.training && !brief ? ", training" : ""));
    } else if (workload.kind === "train") {
        const training = object(workload.training);
        parts.push((name === NONE ? "" : name + " ") + (brief ? "training" : `training (${format_text(training.task)})`));
    } else if (workload.kind) {
        parts.push((name === NONE ? "" : name + " ") + workload.kind);
    }
    if (lengths.length === 1)
        parts.push(sequences + " × " + lengths[0] + (brief ? "" : " tokens"));
    else if (is_number(workload.tokens))
        parts.push(sequences + " sequences, " + format_count(workload.tokens) + " tokens");
    if (workload.dtype && !brief) parts.push(workload.dtype);
    return parts.join(", ") || "unknown workload";
}
