/* Charts in their sections: drawn, and again when what they read of `state` changes, or the width. */

/* By section: {reads: [names of state], draw(figure, width), tables(): [{title, make()}]} */
const charts = new Map();
const waiting = new Set();
let frame = 0;

function draw_waiting() {
    frame = 0;
    const names = [...waiting];
    waiting.clear();
    for (const name of names) draw_chart(name);
}

function draw_later(names) {
    for (const name of names) waiting.add(name);
    if (waiting.size && !frame) frame = requestAnimationFrame(draw_waiting);
}

function change(values) {
    Object.assign(state, values);
    const changed = Object.keys(values);
    draw_later(
        [...charts].filter(([, chart]) => chart.reads.some((name) => changed.includes(name))).map(([name]) => name));
}

/* Marks an item in every chart; null: none. */
function select(key) {
    state.selected = key;
    for (const node of find_all(".is-selected")) node.classList.remove("is-selected");
    if (key === null) return;
    for (const node of find_all("[data-key]"))
        if (node.dataset.key === key) node.classList.add("is-selected");
}

const drawn_width = new Map();
let print_width = 0; /* of the paper while printing */

function draw_chart(name) {
    const chart = charts.get(name);
    const section = document.getElementById(name);
    const figure = find(".figure", section);
    const width =
        Math.floor(print_width ? (section.parentElement.className === "pair" ? print_width / 2 - 8 : print_width)
                               : section.clientWidth);
    if (card_owner && figure.contains(card_owner)) card_hide();
    figure.replaceChildren();
    drawn_width.set(name, width);
    chart.draw(figure, Math.max(260, width));
    const pictures = find(".export", section);
    if (pictures) pictures.hidden = !find(":scope > svg", figure);
    for (const table of chart.details || []) table.refresh();
}

const draw_all = () => [...charts.keys()].forEach(draw_chart);

function make_sections() {
    for (const [name, chart] of charts) {
        const section = document.getElementById(name);
        const tools = find(".tools", section);
        if (chart.tools) {
            tools.append(...chart.tools());
            make_export(name, find(".figure", section), tools);
        }
        if (chart.tables) {
            const host = find(".tables", section);
            chart.details = chart.tables().map((table) => make_details(host, table.title, table.make));
        }
    }
}

function watch_width() {
    const redraw = () => draw_later([...charts.keys()].filter((name) => {
        const chart = charts.get(name);
        const width = Math.floor(document.getElementById(name).clientWidth);
        return chart.tools && width && width !== drawn_width.get(name);
    }));
    new ResizeObserver(() => {
        if (!print_width) redraw();
    }).observe(find("main"));
    addEventListener("beforeprint", () => {
        print_width = 710; /* A4 less its margins, at 96 a inch */
        draw_all();
    });
    addEventListener("afterprint", () => {
        print_width = 0;
        draw_all();
    });
}
