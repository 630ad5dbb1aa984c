/* The table after a chart: sortable, scrolling in its own box, made only when it is opened. */

const ROWS_AT_ONCE = 1000;

/* Columns: {name, value(row), text(value, row) or none, left, flag(row), title, screen: not printed}; the first one
 * heads its row. */
function make_table({ caption, columns, rows, key_of }) {
    const body = html("tbody");
    const heads = [];
    let sorted = [...rows];
    let all = rows.length <= ROWS_AT_ONCE;
    const more = html("button", {
        type: "button",
        class: "more",
        click: () => {
            all = true;
            fill();
        }
    },
        `Show all ${format_count(rows.length)} rows`);

    function cell(column, row, first) {
        const value = column.value(row);
        const text = column.text ? column.text(value, row) : format_text(value);
        const flagged = column.flag && column.flag(row);
        const attributes = {
            class: [
                column.left && !first ? "left" : "", flagged ? "flag" : "", column.screen ? "screen" : ""
            ].join(" ").trim() ||
                null
        };
        if (first) Object.assign(attributes, { scope: "row", title: text });
        return html(first ? "th" : "td", attributes, text);
    }
    function fill() {
        body.replaceChildren(...sorted.slice(0, all ? sorted.length : ROWS_AT_ONCE).map((row) => {
            const key = key_of ? key_of(row) : null;
            return html("tr", { "data-key": key, class: key && key === state.selected ? "is-selected" : null },
                columns.map((column, n) => cell(column, row, n === 0)));
        }));
        more.hidden = all;
    }
    function sort(index) {
        const column = columns[index];
        const was = heads[index].getAttribute("aria-sort");
        /* Numbers: the largest first. */
        const numeric = rows.some((row) => is_number(column.value(row)));
        const ascending = was ? was !== "ascending" : !numeric;
        heads.forEach((head) => head.removeAttribute("aria-sort"));
        heads[index].setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
        sorted.sort((one, other) => {
            const a = column.value(one);
            const b = column.value(other);
            if (!known(a) || !known(b)) return known(b) - known(a); /* what was not measured comes last */
            const order =
                is_number(a) && is_number(b) ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
            return ascending ? order : -order;
        });
        fill();
    }
    columns.forEach(
        (column, index) => heads.push(html("th",
            { scope: "col", class: (column.left || !index ? "left" : "") + (column.screen ? " screen" : "") },
            html("button", { type: "button", title: column.title, click: () => sort(index) }, column.name))));
    fill();
    return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        html("table", null, html("caption", null, caption), html("thead", null, html("tr", null, heads)), body), more);
}

/* A <details> whose content is made when it is open, and again when what it shows has changed. */
function make_details(host, title, make) {
    let fresh = false;
    const inside = html("div");
    const node = html("details", { toggle: () => update() }, html("summary", null, title), inside);
    const update = () => {
        if (!node.open || fresh) return;
        fresh = true;
        inside.replaceChildren(make());
    };
    host.append(node);
    return {
        title,
        refresh: () => {
            fresh = false;
            update();
        }
    };
}
