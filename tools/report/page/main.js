/* Puts the page together: title, filters, and a chart in each section that has one. */

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

function make_title() {
    const devices = unique(all_series.map((series) => series.name));
    const named = (name) => `${name} (${
        unique(all_series.filter((series) => series.name === name).map((series) => series.api)).join(", ")})`;
    const work = unique(all_series.map((series) => series.workload));
    const dates = records.map((record) => object(record.data.run).utc)
                      .filter((utc) => utc)
                      .map((utc) => String(utc).slice(0, 10))
                      .sort();
    const title = devices.length
        ? devices.slice(0, 4).map(named).join(" · ") + (devices.length > 4 ? ` and ${devices.length - 4} more` : "")
                                                                           : "Wherry report";
    find("#title").textContent = title;
    find("#subtitle").textContent = [
        work.length <= 3 ? work.join("; ") : `${work.length} workloads`,
        records.length === 1 ? "1 record" : records.length + " records",
        dates.length && (dates[0] === dates[dates.length - 1] ? dates[0] : `${dates[0]} to ${dates[dates.length - 1]}`),
    ].filter((part) => part).join(" · ");
    document.title = "Wherry: " + title;
}

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

function show() {
    find("#header-tools")
        .append(records_button(
            records, "wherry report", records.length === 1 ? "Download data (JSON)" : "Download all data (JSON)"));
    make_title();
    make_filters(find("#filters"));
    make_sections();
    draw_all();
    watch_width();
    find("#footer").textContent =
        `Drawn by wherry report from ${records.length === 1 ? "1 record" : records.length + " records"} ` +
        "that this page contains (schema rl-1, SI units: 1 GB = 10⁹ B). It asks nothing of the network.";
    /* The browser went to the URL's section before there was anything in it. */
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

make_theme(find("#header-tools"));
if (records.length)
    show();
else /* what there is to say has been said: no headings over nothing */
    for (const node of find_all("nav, main, footer")) node.hidden = true;
document.documentElement.dataset.ready = "";
