/* Puts the page together: title, filters, and a chart in each section that has one. */

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
