#!/usr/bin/env python3
"""Opens the page of tunings in headless Chromium, uses every control, and compares what it shows with the files.

Usage: test_tunings.py FOLDER, with WRITE_PAGE and PICTURES as for test_page.py

Exit status 77: Chromium, its driver or Selenium are missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import test_page
from make_records import HOSTILE
from make_tunings import configurations
from test_page import ActionChains, Keys, Page, digits, expect

HERE = Path(__file__).resolve().parent


def seconds(value):
    return test_page.seconds(value) if value else "0\u00a0s"


def percent(value):
    size = abs(100 * value)
    return f"{100 * value:.{0 if size >= 9.95 else 1 if size >= 0.095 else 2}f}\u00a0%"


def panels(page):
    """Of each violin: its name, the dots' and marks' places, and the outline."""
    return page.run("""return [...document.querySelectorAll("#violins .panel")].map((panel) => ({
            name: panel.dataset.entry,
            dots: [...panel.querySelectorAll(".config")].map((dot) => [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))]),
            marks: Object.fromEntries([...panel.querySelectorAll("[data-mark]")].map((mark) => [mark.dataset.mark,
                [Number(mark.dataset.seconds), Number(/M[-0-9.]+ ([-0-9.]+)/.exec(mark.firstChild.getAttribute("d"))[1])]])),
            outline: panel.querySelector(".violin").getAttribute("d"),
        }))""")


def outline_of(panel):
    """[[x, y]...] of the left side, and of the right side turned back."""
    points = [tuple(map(float, pair.split())) for pair in panel["outline"].strip("MZ").split("L")]
    half = len(points) // 2
    return points[:half], points[half:][::-1]


def bulges(panel):
    """The outline's maxima that stand out by a tenth of the widest."""
    left, right = outline_of(panel)
    widths = [b[0] - a[0] for a, b in zip(left, right)]
    found, low, high = 0, 0.0, 0.0
    rising = True
    for width in [*(width / max(widths) for width in widths), 0.0]:
        if rising:
            high = max(high, width)
            if width < high - 0.1:
                found, rising, low = found + 1, False, width
        else:
            low = min(low, width)
            if width > low + 0.1:
                rising, high = True, width
    return found


def test_violins(page, tuning):
    operators = tuning["plans"][0]["layouts"]["operators"]
    drawn = panels(page)
    expect([one["name"] for one in drawn] == [one["name"] for one in operators], "not as the step runs:", drawn)
    for panel, operator in zip(drawn, operators):
        name, times = operator["name"], sorted(configurations(operator))
        expect(len(panel["dots"]) == len(times), name, len(panel["dots"]), "dots of", len(times))
        default = next(one for one in operator["times"] if one["default"])
        chosen = next(one for one in operator["times"] if one["chosen"])
        for mark, us in (
            ("best", times[0]),
            ("worst", times[-1]),
            ("default", default["alone_default_us"]),
            ("chosen", chosen["alone_us"]),
        ):
            if not us:  # a copy that is not needed
                expect(mark not in panel["marks"], name, "has a mark at nothing")
                continue
            value, y = panel["marks"][mark]
            expect(abs(value * 1e6 - us) < 1e-6 * us, name, mark, value, us)
            dot = panel["dots"][times.index(us)][1]
            expect(abs(y - dot) < 0.11, name, mark, "is at", y, "and its dot at", dot)
        heights = [dot[1] for dot in panel["dots"]]
        expect(heights == sorted(heights, reverse=True), name, "is not sorted: slow is up")
        left, right = outline_of(panel)
        middle = (left[0][0] + right[0][0]) / 2
        expect(all(abs(a[0] + b[0] - 2 * middle) < 0.25 for a, b in zip(left, right)), name, "is not mirrored")
        for x, y in panel["dots"]:
            near = min(range(len(left)), key=lambda n: abs(left[n][1] - y))
            room = max(right[n][0] - left[n][0] for n in range(max(0, near - 1), min(len(left), near + 2))) / 2
            expect(abs(x - middle) <= room + 0.3, name, "a dot lies outside:", x, y)
        if operator["class"] == "T" and len(operator["times"]) == 1:
            expect(bulges(panel) == 3, name, "has three modes, and shows", bulges(panel))
    expect(page.count("#violins .panel text.default") == len(operators), "the default's times are not all there")


def test_axes(page, tuning):
    """Linear: distances are differences. Shared: the same ratio is at the same height."""
    operators = tuning["plans"][0]["layouts"]["operators"]
    page.choose("axis", "linear")
    for panel, operator in zip(panels(page), operators):
        times = sorted(configurations(operator))
        ys = [dot[1] for dot in panel["dots"]]
        slope = (ys[0] - ys[-1]) / (times[-1] - times[0])
        expect(all(abs(ys[0] - y - slope * (us - times[0])) < 0.2 for us, y in zip(times, ys)), "not linear")
    page.choose("range", "shared")
    starts = {round(panel["dots"][0][1] % 246, 1) for panel in panels(page)}
    expect(max(starts) - min(starts) < 0.21, "the bests are not at one height:", starts)
    page.choose("axis", "log")
    page.choose("range", "own")


def test_filters(page, tuning):
    operators = tuning["plans"][0]["layouts"]["operators"]
    for name in ("forward", "backward"):
        page.choose("pass", name)
        own = [one["name"] for one in operators if one["pass"] == name]
        expect([one["name"] for one in panels(page)] == own, "violins of", name)
        expect([row[0] for row in page.rows("#table")] == own, "rows of", name)
    page.choose("pass", "all")
    page.choose("entries", "works")
    works = tuning["works"]
    expect(len(panels(page)) == len(works) and len(page.rows("#table")) == len(works), "kernel calls are missing")
    row = page.rows("#table")[4:6]
    expect([one[-2] for one in row] == ["default", "w_lin1=iu"], "layouts of a kernel call:", row)
    page.choose("entries", "operators")


def test_table(page, tuning):
    operators = tuning["plans"][0]["layouts"]["operators"]
    rows = page.rows("#table")
    expect(len(rows) == len(operators), len(rows), "rows")
    for row, operator in zip(rows, operators):
        times = configurations(operator)
        default = next(one for one in operator["times"] if one["default"])
        chosen = next(one for one in operator["times"] if one["chosen"])
        expected = [
            operator["name"],
            operator["pass"],
            {"T": "contraction", "S": "normalization", "E": "elementwise"}[operator["class"]],
            str(len(times)),
            seconds(min(times) * 1e-6),
            seconds(max(times) * 1e-6),
            seconds(default["alone_default_us"] * 1e-6),
            seconds(chosen["alone_us"] * 1e-6),
            digits(max(times) / min(times)) + "×",
            digits(chosen["alone_us"] / min(times)) + "×" if chosen["alone_us"] else "–",
        ]
        expect(row[:10] == expected, row, "is not", expected)
        orders = ", ".join(f"{tensor}={order}" for tensor, order in zip(operator["tensors"], chosen["orders"]))
        expect(row[-2] == (orders or "–"), row[-2], "is not", orders)
    expect(page.rows("#table")[0][0] == operators[0]["name"], "the table is not as the step runs")
    page.run("document.querySelectorAll('#table thead button')[8].click()")
    worst = max(operators, key=lambda one: max(configurations(one)) / min(configurations(one)))
    expect(page.rows("#table")[0][0] == worst["name"], "sorted by worst/best:", page.rows("#table")[0])


def test_words(page, tuning):
    """The sentences, with figures of the file."""
    layouts = tuning["plans"][0]["layouts"]
    chosen = layouts["chosen_ms"]
    saved = 1 - chosen / layouts["default_ms"]
    words = page.texts("#overview .sentences li")
    cut = sum(one.get("cut", False) for work in tuning["works"] for one in work["candidates"])
    expect(
        any(one.startswith(f"{cut} candidates of {len(tuning['works'])} kernel calls are measured") for one in words),
        "nothing about those that would have been cut among",
        words,
    )
    for sentence in (
        f"chosen is {percent(saved)} faster than the default",
        f"measured is within {percent(chosen / layouts['predicted_ms'] - 1)} of the predicted sum",
        f"{percent(chosen / layouts['best_sum_ms'] - 1)} above the sum of per-operator bests "
        "(the paper claims 4 %, its rounded figures give 13 %)",
    ):
        expect(sentence in words, sentence, "is not among", words)
    box = page.one("#overview .trust").get_attribute("textContent")
    for text in (
        seconds(layouts["default_ms"] * 1e-3),
        seconds(layouts["best_sum_ms"] * 1e-3),
        tuning["device"]["driver"],
        tuning["run"]["commit"],
        "wherry tune layer --config bert-large --json -o 'a tuning.json'",
        "8 × 512 tokens",
        layouts["chosen"],
    ):
        expect(text in box, text, "is not in", box)
    figures = page.run(
        "return [...document.querySelectorAll('#step [data-figure]')].map((node) => node.dataset.figure)"
    )
    expect(figures == ["best_sum", "predicted", "chosen", "default", "transposed", "random"], figures)


def test_choice(page, tuning):
    layouts = tuning["plans"][0]["layouts"]
    moved = [one for one in layouts["tensors"] if one["chosen"] != one["default"]]
    expect(moved, "the made-up tuning chose nothing")
    items = dict(
        zip(
            page.run(
                "return [...document.querySelectorAll('#choice [data-tensor]')].map((node) => node.dataset.tensor)"
            ),
            page.texts("#choice [data-tensor]"),
        )
    )
    expect(list(items) == [one["name"] for one in moved], items)
    total = 0.0
    for operator in layouts["operators"]:
        default = next(one for one in operator["times"] if one["default"])
        chosen = next(one for one in operator["times"] if one["chosen"])
        gain = default["us"] - chosen["us"]
        total += gain
        for tensor in moved:
            text = items[tensor["name"]]
            expect(f"lies {tensor['chosen']} instead of {tensor['default']}." in text, text)
            if tensor["name"] in operator["tensors"] and gain:
                word = f"{operator['name']} {'−' if gain > 0 else '+'}{seconds(abs(gain) * 1e-6)}"
                side = text.split("Lose: ")[0 if gain > 0 else -1]
                expect(word in side, word, "is not in", side)
    text = page.one("#choice .words").get_attribute("textContent")
    expect(f"all together gain {seconds(total * 1e-6)};" in text, total, text)
    expect(layouts["reason"] in text, "the reason is not told")
    rows = page.rows("#choice")
    expect(len(rows) == len(layouts["operators"]), len(rows), "rows of gains")


def test_card(page, tuning):
    """At the pointer and by the keyboard: orders, sizes, time, interval."""
    operator = next(one for one in tuning["plans"][0]["layouts"]["operators"] if len(one["times"]) == 2)
    found = [
        (candidate["us"], one["orders"], candidate)
        for one in operator["times"]
        for candidate in one["candidates"]
        if candidate["verdict"] == "right"
    ]
    us, orders, candidate = max(found, key=lambda one: one[0])
    dot = page.all(f"#violins [data-entry='{operator['name']}'] .config")[-1]
    page.run("arguments[0].scrollIntoView({ block: 'center' })", dot)
    ActionChains(page.browser).move_to_element(dot).perform()
    text = page.one("#card").get_attribute("textContent")
    low, high = (digits(candidate[key] * (1 if us < 999.5 else 1e-3)) for key in ("low_us", "high_us"))
    for part in (
        operator["name"],
        candidate["sizes"],
        seconds(us * 1e-6),
        f"{low} to {high}",
        "worst",
        f"{operator['tensors'][0]}={orders[0]}",
    ):
        expect(part in text, part, "is not in", text)
    page.check("hovering")
    ActionChains(page.browser).move_to_element(page.one("#violins h2")).perform()
    page.run("document.querySelector('#violins .config[tabindex=\"0\"]').focus({ focusVisible: true })")
    ActionChains(page.browser).send_keys(Keys.ARROW_RIGHT, Keys.ENTER).perform()
    expect(page.count("#card.kept") == 1, "no card by the keyboard")
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    expect(not page.one("#card").is_displayed(), "Escape does not close the card")


def test_sizes(page, tuning):
    """A tuning without layouts shows the kernel calls of the plan that is chosen."""
    expect(page.count("[data-control=entries]") == 0 and page.count("[data-control=pass]") == 0, "filters of nothing")
    for index, plan in enumerate(tuning["plans"]):
        page.choose("plan", index)
        works = [work for work in tuning["works"] if work["plan"] == plan["session"]["plan"]]
        drawn = panels(page)
        expect(len(drawn) == len(works), len(drawn), "violins of", len(works))
        for panel, work in zip(drawn, works):
            own = [one["us"] for one in work["candidates"] if one["verdict"] == "right"]
            expect(len(panel["dots"]) == len(set(own + [work["default_us"], work["best_us"]])), work["group"])
            chosen = work["best_us"] if work["chosen"] else work["default_us"]
            expect(abs(panel["marks"]["chosen"][0] * 1e6 - chosen) < 1e-6, work["group"], "the chosen one's mark")
            expect(abs(panel["marks"]["default"][0] * 1e6 - work["default_us"]) < 1e-6, work["group"], "the default's")
            expect(panel["name"] == re.sub(r"^layer\.\d+\.", "", work["group"]), panel["name"])
        expect("sizes alone" in page.one("#choice").text, "the choice is not told")


def test_step(page, tuning):
    """Without times of sizes those in the step are shown, and what is not known is not made up."""
    operators = tuning["plans"][0]["layouts"]["operators"]
    drawn = {panel["name"]: panel for panel in panels(page)}
    for operator in operators:
        times = configurations(operator)
        expect((operator["name"] in drawn) == bool(times), operator["name"])
        if times:
            expect(len(drawn[operator["name"]]["dots"]) == len(times), operator["name"])
    notes = page.one("#violins .charted").text
    expect("Times within the step" in notes and f"Nothing was measured of {operators[2]['name']}" in notes, notes)
    expect(len(page.texts("#overview .sentences li")) == 1, "sentences without figures")
    expect("choice not exact" in page.one("#overview .badges").text, "the choice is taken for exact")


def test_hostile(page):
    expect(page.run("return window.hacked === undefined"), "a name was executed")
    expect(page.count("img") == 0 and page.count("script:not(.record)") == 1, "a name became an element")
    expect(HOSTILE in page.one("#title").get_attribute("textContent"), "the name is not shown as it is")


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "downloads").mkdir(parents=True)
    folder = folder.resolve()
    browser = test_page.open_browser(folder)
    try:
        subprocess.run([sys.executable, HERE / "make_tunings.py", folder], check=True)

        def make(name, *tunings):
            files = [folder / f"tuning-{one}.json" for one in tunings]
            subprocess.run([os.environ["WRITE_PAGE"], folder / f"{name}.html", *files], check=True)
            return Page(browser, folder / f"{name}.html", folder), [
                json.loads(file.read_text(encoding="utf-8")) for file in files
            ]

        page, tunings = make("layouts", "layouts")
        test_violins(page, tunings[0])
        test_axes(page, tunings[0])
        test_filters(page, tunings[0])
        test_table(page, tunings[0])
        test_words(page, tunings[0])
        test_choice(page, tunings[0])
        test_card(page, tunings[0])
        test_page.test_packing(page, tunings)
        test_page.use_pictures(page)
        test_page.use_themes(page, "layouts")

        page, tunings = make("sizes", "sizes")
        test_sizes(page, tunings[0])
        page, tunings = make("step", "step")
        test_step(page, tunings[0])
        test_page.use_themes(page, "step")

        page, tunings = make("all", "layouts", "layouts-vulkan", "sizes", "plain", "step", "empty")
        used = test_page.use_every_control(page)
        test_page.test_packing(page, tunings)
        test_page.use_themes(page, "all")
        print(f"all: {used[0]} controls, {used[1]} tables, {page.checks} checks")

        page, tunings = make("hostile", "hostile")
        test_hostile(page)
        test_page.use_every_control(page)
        test_page.use_themes(page, "hostile")
        test_hostile(page)
        for name in ("plain", "empty"):
            page, _ = make("only-" + name, name)
            test_page.use_every_control(page)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
