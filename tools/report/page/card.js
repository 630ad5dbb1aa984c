/* The card with all figures of what the pointer or the keyboard is at, and the keys that lead through a chart. */

const card = find("#card");
let card_owner = null;  /* the SVG of what it shows */
let card_anchor = null; /* tells where on the screen that is */
let card_kept = false;
let card_release = null; /* takes the mark off the point */

function card_place() {
    const anchor = card_anchor();
    const gap = 14;
    const { width, height } = card.getBoundingClientRect();
    const room = { width: document.documentElement.clientWidth, height: document.documentElement.clientHeight };
    let left = anchor.right + gap;
    if (left + width > room.width - 8) left = anchor.left - gap - width;
    let top = anchor.top + anchor.height / 2 - height / 3;
    if (left < 8) { /* neither side has room: below or above */
        left = Math.min(Math.max(8, anchor.left + anchor.width / 2 - width / 2), room.width - width - 8);
        top = anchor.bottom + gap + height < room.height ? anchor.bottom + gap : anchor.top - gap - height;
    }
    card.style.left = Math.max(8, left) + "px";
    card.style.top = Math.max(8, Math.min(top, room.height - height - 8)) + "px";
}

function card_hide() {
    if (card_release) card_release();
    card_release = null;
    card_owner = null;
    card_kept = false;
    card.hidden = true;
    card.classList.remove("kept");
    card.replaceChildren();
}

function card_show(owner, content, anchor, keep, release) {
    card_hide();
    card_owner = owner;
    card_anchor = anchor;
    card_kept = keep;
    card_release = release;
    card.replaceChildren(...content);
    card.classList.toggle("kept", keep);
    if (keep) card.prepend(html("button", { type: "button", class: "close", click: card_dismiss }, "Close"));
    card.hidden = false;
    card.scrollTop = 0;
    card_place();
}

function card_dismiss() {
    card_hide();
    select(null);
}

document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !card.hidden) card_dismiss();
});
document.addEventListener("pointerdown", (event) => {
    if (!card.hidden && card_kept && !card.contains(event.target) && !(card_owner && card_owner.contains(event.target)))
        card_dismiss();
});
/* Moving the focus may scroll; then the card goes along. What the pointer was at is somewhere else. */
addEventListener("scroll", () => {
    if (card.hidden) return;
    if (card_kept || card_owner.contains(document.activeElement))
        card_place();
    else
        card_hide();
}, { passive: true });

function distance_to(box, x, y) {
    const dx = Math.max(box[0] - x, 0, x - box[2]);
    const dy = Math.max(box[1] - y, 0, y - box[3]);
    return Math.hypot(dx, dy) + (box[2] - box[0]) * 1e-3;
}

/* Makes points explain themselves: [{node, box: [x0, y0, x1, y1], label, content(), key}], the most important first.
 * Tab reaches one of them, arrows the others: left and right along the chart, up and down by importance (in rows: all
 * by row). `reach`: how far off, in pixels, a pointer may be. */
function interactive(chart, points, { reach = 16, rows = false, on_active = null } = {}) {
    if (!points.length) return;
    const svg_node = chart.node;
    const along = rows ? points : [...points].sort((a, b) => a.box[0] - b.box[0] || a.box[1] - b.box[1]);
    const by_node = new Map(points.map((point) => [point.node, point]));
    let current = points[0];
    let active = null;

    for (const point of points) {
        point.node.setAttribute("tabindex", point === current ? "0" : "-1");
        point.node.setAttribute("role", "button");
        point.node.setAttribute("aria-label", point.label);
        if (point.key) {
            point.node.dataset.key = point.key;
            if (point.key === state.selected) point.node.classList.add("is-selected");
        }
    }
    const release = () => {
        if (!active) return;
        active.node.classList.remove("is-active");
        active = null;
        if (on_active) on_active(null);
    };
    const show = (point, keep) => {
        const [x0, y0, x1, y1] = point.box;
        const anchor = () => {
            const shown = svg_node.getBoundingClientRect();
            const scale = shown.width / chart.width;
            return new DOMRect(shown.left + x0 * scale, shown.top + y0 * scale, (x1 - x0) * scale, (y1 - y0) * scale);
        };
        card_show(svg_node, point.content(), anchor, keep, release);
        active = point;
        point.node.classList.add("is-active");
        if (on_active) on_active(point);
    };
    const keep = (point) => {
        current.node.setAttribute("tabindex", "-1");
        current = point;
        point.node.setAttribute("tabindex", "0");
        show(point, true);
        select(point.key || null);
    };
    const nearest = (event) => {
        const shown = svg_node.getBoundingClientRect();
        const x = ((event.clientX - shown.left) * chart.width) / shown.width;
        const y = ((event.clientY - shown.top) * chart.width) / shown.width;
        let best = null;
        let least = reach + 0.5;
        for (const point of points) {
            const distance = distance_to(point.box, x, y);
            if (distance < least) {
                least = distance;
                best = point;
            }
        }
        return best;
    };
    svg_node.addEventListener("pointermove", (event) => {
        if (card_kept || event.pointerType === "touch") return;
        const point = nearest(event);
        if (point === active) return;
        if (point)
            show(point, false);
        else
            card_hide();
    });
    svg_node.addEventListener("pointerleave", () => {
        if (!card_kept && card_owner === svg_node) card_hide();
    });
    svg_node.addEventListener("click", (event) => {
        const point = nearest(event);
        if (point)
            keep(point);
        else
            card_dismiss();
    });
    svg_node.addEventListener("focusin", (event) => {
        const point = by_node.get(event.target);
        if (point && point.node.matches(":focus-visible")) show(point, false);
    });
    svg_node.addEventListener("focusout", () => {
        if (!card_kept && card_owner === svg_node) card_hide();
    });
    const go = (point) => {
        current.node.setAttribute("tabindex", "-1");
        current = point;
        point.node.setAttribute("tabindex", "0");
        point.node.focus();
        show(point, false);
    };
    svg_node.addEventListener("keydown", (event) => {
        const point = by_node.get(event.target);
        if (!point) return;
        const step = (order, by) => order[Math.min(order.length - 1, Math.max(0, order.indexOf(point) + by))];
        const target = {
            ArrowRight: () => step(along, 1),
            ArrowLeft: () => step(along, -1),
            ArrowDown: () => step(points, 1),
            ArrowUp: () => step(points, -1),
            Home: () => along[0],
            End: () => along[along.length - 1],
        }[event.key];
        if (target)
            go(target());
        else if (event.key === "Enter" || event.key === " ")
            keep(point);
        else
            return;
        event.preventDefault();
    });
}

/* "rule": a line between groups. */
function field_list(fields) {
    return html("dl", null, fields.map((field) => (field === "rule" ? html("div", { class: "rule" }) : [
        html("dt", null, field[0]), html("dd", { class: field[2] ? "flag" : null }, field[1])
    ])));
}
