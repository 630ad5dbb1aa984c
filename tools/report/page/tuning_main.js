/* Puts the page together: title, filters, and what stands in each section. */

function make_title() {
    const devices = unique(all_plans.map((plan) => `${plan.device} (${plan.api})`));
    const title =
        "Tuning: " + (devices.slice(0, 4).join(" · ") + (devices.length > 4 ? ` and ${devices.length - 4} more` : ""));
    const work = unique(all_plans.map((plan) => plan.workload));
    find("#title").textContent = title;
    find("#subtitle").textContent = [
        work.length <= 3 ? work.join("; ") : `${work.length} workloads`,
        all_plans.length === 1 ? "1 plan" : `${all_plans.length} plans of ${records.length} tunings`,
        unique(records.map((record) => String(object(record.data.run).date || "").slice(0, 10)).filter((date) => date))
            .sort()
            .join(", "),
    ].filter((part) => part).join(" · ");
    document.title = "Wherry: " + title;
}

make_theme(find("#header-tools"));
if (all_plans.length) {
    find("#header-tools").append(records_button(records, "wherry tuning", "Download data (JSON)"));
    make_title();
    make_filters(find("#filters"));
    make_sections();
    draw_all();
    watch_width();
    find("#footer").textContent =
        `Drawn by wherry report from ${records.length === 1 ? "1 tuning" : records.length + " tunings"} ` +
        "that this page contains (wherry tune --json, docs/tuning.schema.json). It asks nothing of the network.";
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
} else {
    if (records.length) complain("These tunings have no plan, so there is nothing to draw.");
    for (const node of find_all("nav, main, footer")) node.hidden = true;
}
document.documentElement.dataset.ready = "";
