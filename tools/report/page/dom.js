/* Making elements. Names in a record are not ours: text goes in as text, never as markup. */

function element(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function")
            node.addEventListener(name, value);
        else
            node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

const html = (tag, attributes, ...children) => element(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
    element(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const find = (selector, within = document) => within.querySelector(selector);
const find_all = (selector, within = document) => [...within.querySelectorAll(selector)];

/* Text of an SVG cut to what fits `width`, by the usual width of a character. */
function clip(text, width) {
    const room = Math.max(3, Math.floor(width / 6.1));
    return text.length <= room ? text : text.slice(0, room - 1) + "…";
}

/* state: "good", "bad", "none" (not known) */
const badge = (judged, text) => html("li", { class: "badge" + (judged === "good" ? "" : " " + judged) },
    { good: "✓ ", bad: "! ", none: "? " }[judged] + text);
