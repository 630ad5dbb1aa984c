/* Files out of the page: the records as they came in, and any chart as SVG or PNG. */

const DRAWN = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin",
    "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "paint-order"
];

function save(name, blob) {
    const url = URL.createObjectURL(blob);
    const link = html("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const file_name = (text) =>
    text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "wherry";

function save_records(chosen, name) {
    const texts = chosen.map((record) => record.text);
    const text = texts.length === 1 ? texts[0] : "[" + texts.join(",\n") + "]";
    save(file_name(name) + ".json", new Blob([text + "\n"], { type: "application/json" }));
}

function records_button(chosen, name, text) {
    return html("button", { type: "button", "data-download": name, click: () => save_records(chosen, name) }, text);
}

/* The drawing with its style written into it, on the page's paper. */
function standalone(node) {
    const copy = node.cloneNode(true);
    const from = [node, ...node.querySelectorAll("*")];
    const to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((one, n) => {
        const style = getComputedStyle(one);
        for (const name of DRAWN) {
            const value = style.getPropertyValue(name);
            if (value && (!name.startsWith("font") || one.tagName === "text")) to[n].style.setProperty(name, value);
        }
        to[n].style.removeProperty("--s");
        for (const name of ["tabindex", "role", "class", "data-key"]) to[n].removeAttribute(name);
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const paper = getComputedStyle(document.body).backgroundColor;
    copy.prepend(svg("rect", { width: "100%", height: "100%", fill: paper }));
    return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

function save_png(node, name) {
    const { width, height } = node.viewBox.baseVal;
    const image = new Image();
    const url = URL.createObjectURL(standalone(node));
    image.onload = () => {
        const canvas = html("canvas", { width: 2 * width, height: 2 * height });
        canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
        URL.revokeObjectURL(url);
        canvas.toBlob((blob) => blob && save(name, blob), "image/png");
    };
    image.src = url;
}

function make_export(section, figure, tools) {
    const drawing = () => find(":scope > svg", figure);
    const button = (text, action) => html("button", {
        type: "button",
        "aria-label": `Save the chart "${section}" as ${text}`,
        "data-export": text,
        click: () => drawing() && action(drawing())
    },
        text);
    tools.append(
        html("span", { class: "export" }, button("SVG", (node) => save(`wherry-${section}.svg`, standalone(node))),
            button("PNG", (node) => save_png(node, `wherry-${section}.png`))));
}
