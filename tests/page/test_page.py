#!/usr/bin/env python3
"""Opens the report's page in headless Chromium, uses every control, and compares what it shows with the records.

Usage: test_page.py FOLDER
  WRITE_PAGE  program that makes the page of records (tests/page/write_page.c)
  PAGE        a page to look at instead: its controls are used, its numbers not known
  PICTURES    whole pages go into FOLDER as pictures, to be looked at (when it is set to anything)

Exit status 77: Chromium, its driver or Selenium are missing.
"""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

DEBIAN_PYTHON = "/usr/bin/python3"  # has python3-selenium, whatever "python3" is
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    if Path(DEBIAN_PYTHON).exists() and "PAGE_AGAIN" not in os.environ:
        os.environ["PAGE_AGAIN"] = "1"
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    print("SKIP: no Selenium (Debian: python3-selenium)")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
FORBIDDEN = re.compile(r"NaN|\bundefined\b|\bnull\b|Infinity|\[object")
WIDE = "return Number(document.querySelector(`#${arguments[0]} .figure > svg`).getAttribute('width'))"
WAIT = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
# After a step, when all is drawn: what the page shows and must not, and how much too wide it is. One call of the browser.
STEP = r"""
    const [forbidden, step, rest] = [new RegExp(arguments[0]), arguments[1], [...arguments].slice(2)];
    new Function(step)(...rest);
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
        const own = [document.title, document.body.innerText];
        for (const node of document.querySelectorAll("svg text, svg title")) own.push(node.textContent);
        for (const node of document.querySelectorAll("[aria-label], [title]"))
            own.push(node.getAttribute("aria-label") || "", node.getAttribute("title") || "");
        const found = own.find((text) => forbidden.test(text));
        const root = document.documentElement;
        done([found ? found.match(new RegExp(".{0,60}(" + forbidden.source + ").{0,60}"))[0] : null,
            root.scrollWidth - root.clientWidth]);
    })));"""


def expect(condition, *message):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in message))


# ---- the browser ----


def open_browser(folder):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        print("SKIP: no Chromium with its driver (Debian: chromium, chromium-driver)")
        sys.exit(77)
    if hasattr(os, "sched_setaffinity"):  # a core, as other tests have: a browser is many processes
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    options = Options()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(service=Service(driver), options=options)
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder / "downloads")}
    )
    browser.set_script_timeout(60)
    return browser


class Page:
    """A page in the browser, looked at again after every step."""

    def __init__(self, browser, path, folder):
        self.browser, self.path, self.folder, self.checks = browser, Path(path).resolve(), folder, 0
        self.resize(1280)
        browser.get_log("performance")
        started = time.monotonic()
        self.open()
        self.seconds = time.monotonic() - started
        self.check("opening")

    def open(self):
        """Until all is drawn: unpacking the data is asynchronous."""
        self.browser.get(self.path.as_uri())
        for _ in range(6000):
            if self.run("return 'ready' in document.documentElement.dataset"):
                break
            time.sleep(0.01)
        else:
            expect(False, "never ready:", self.browser.get_log("browser"))
        self.run(WAIT)

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        found = self.all(selector)
        expect(found, "no", selector)
        return found[0]

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", selector)

    def resize(self, width, theme="light"):
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self.browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        time.sleep(0.2)

    def check(self, what, step="", *arguments):
        """Does the step, a script, waits until all is drawn: no message on the console, no request but for the page itself,
        no number that is none, no sideways scrolling."""
        self.checks += 1
        bad, wide = self.run(STEP, FORBIDDEN.pattern, step, *arguments)
        expect(bad is None, "after", what + ": shows", bad)
        expect(wide <= 0, "after", what + f": {wide} pixels too wide")
        self.check_logs(what)

    def check_logs(self, what):
        messages = [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        expect(not messages, "after", what + ":", messages)
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                own = url.split("#")[0] == self.path.as_uri() or url.startswith(("data:", "blob:"))
                expect(own, "after", what + ": a request for", url)

    def choose(self, control, value):
        """Sets a control by its name in the page's state, as a user would."""
        self.check(
            f"{control} = {value}",
            """
            const host = document.querySelector(`[data-control="${arguments[0]}"]`);
            const value = String(arguments[1]);
            if (host.tagName === "SELECT") {
                host.value = value;
                host.dispatchEvent(new Event("change", { bubbles: true }));
            } else if (host.tagName === "INPUT") {
                host.value = value;
                host.dispatchEvent(new Event("input", { bubbles: true }));
            } else {
                [...host.querySelectorAll("input")].find((input) => input.value === value || input.dataset.value === value || value === "toggle").click();
            }""",
            control,
            value,
        )

    def open_table(self, section, index=0):
        self.run("document.querySelectorAll(`#${arguments[0]} details`)[arguments[1]].open = true", section, index)
        self.run(WAIT)
        return f"#{section} details:nth-of-type({index + 1})"

    def rows(self, where):
        return self.run(
            """return [...document.querySelectorAll(arguments[0] + " tbody tr")]
            .map((row) => [...row.children].map((cell) => cell.textContent))""",
            where,
        )

    def screenshot(self, name):
        if not os.environ.get("PICTURES"):
            return
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return document.documentElement.clientWidth")
        shot = self.browser.execute_cdp_cmd(
            "Page.captureScreenshot",
            {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}},
        )
        (self.folder / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


# ---- every page ----


def use_every_control(page):
    """Each choice of each control, each header of each table, each button, then what it was before."""
    controls = page.run(
        """return [...document.querySelectorAll("select[data-control], input[data-control], [data-control]:not(select, input)")]
        .map((node) => [node.dataset.control, node.tagName,
            node.tagName === "SELECT" ? [...node.options].filter((one) => !one.disabled).map((one) => one.value) :
            node.tagName === "INPUT" ? ["1", "50", "100"] :
            [...node.querySelectorAll("input:not(:disabled)")].map((one) => one.type === "radio" ? one.value : one.dataset.value ?? "toggle"),
            node.tagName === "SELECT" || node.tagName === "INPUT" ? node.value :
            (node.querySelector("input[type=radio]:checked") || {}).value ?? null])"""
    )
    for name, tag, values, before in controls:
        for value in values:
            page.choose(name, value)
            if before is None:  # a switch: back again
                page.choose(name, value)
        if before is not None:
            page.choose(name, before)
    for section, count in page.run(
        "return [...document.querySelectorAll('section')].map((node) => [node.id, node.querySelectorAll('details').length])"
    ):
        for index in range(count):
            page.open_table(section, index)
            page.check(f"table {index} of {section}")
    tables = page.count("table")
    for table in range(tables):
        unsorted = page.run(
            """const table = document.querySelectorAll('table')[arguments[0]];
            return [...table.querySelectorAll('thead button')].findIndex((_, index) => {
                for (let press = 0; press < 2; press++) table.querySelectorAll('thead button')[index].click();
                return !['ascending', 'descending'].includes(table.querySelectorAll('thead th')[index].ariaSort);
            })""",
            table,
        )
        expect(unsorted < 0, "header", unsorted, "of table", table, "does not sort")
        page.check(f"sorting table {table}")
        scopes = page.run(
            """const table = document.querySelectorAll('table')[arguments[0]];
            return table.caption !== null && [...table.querySelectorAll('th')].every((head) => ['row', 'col'].includes(head.scope))""",
            table,
        )
        expect(scopes, "table", table, "without caption or scopes")
    page.run("for (const node of document.querySelectorAll('details')) node.open = false")
    return len(controls), tables


def use_pictures(page):
    """SVG and PNG of every chart that is there."""
    downloads = page.folder / "downloads"
    for section in page.run(
        "return [...document.querySelectorAll('section')].filter((node) => node.querySelector('.figure > svg')).map((node) => node.id)"
    ):
        page.open()  # Chromium stops a page's eleventh download that no user asked for
        for kind in ("SVG", "PNG"):
            page.run("document.querySelector(`#${arguments[0]} [data-export=${arguments[1]}]`).click()", section, kind)
            data = wait_for_file(downloads / f"wherry-{section}.{kind.lower()}")
            expect(data.startswith(b"<svg" if kind == "SVG" else b"\x89PNG"), section, kind, "is no picture")
            width = (
                int.from_bytes(data[16:20], "big") / 2
                if kind == "PNG"
                else float(data.split(b'width="')[1].split(b'"')[0])
            )
            expect(width == page.run(WIDE, section), section, kind, "is not the chart:", width)
            expect(b"var(--" not in data, section, "depends on the page's style")
        page.check(f"pictures of {section}")


def use_themes(page, name):
    """Light and dark by the system and by the switch, wide and narrow."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for width in (1280, 400):
        for theme in ("light", "dark"):
            page.resize(width, theme)
            page.check(f"{theme} at {width}")
            seen[theme] = page.run(paper)
            page.screenshot(f"{name}-{width}-{theme}")
        expect(seen["light"] != seen["dark"], "light and dark are the same")
    page.choose("theme", "light")
    expect(page.run(paper) == seen["light"], "the switch does not make it light")
    page.resize(1280, "light")
    page.choose("theme", "dark")
    expect(page.run(paper) == seen["dark"], "the switch does not make it dark")
    page.choose("theme", "auto")
    expect(page.run(paper) == seen["light"], "automatic is not as the system")


def wait_for_file(path):
    for _ in range(200):
        if path.exists() and path.stat().st_size:
            data = path.read_bytes()
            path.unlink()
            return data
        time.sleep(0.05)
    raise AssertionError(f"no download {path.name}")


# ---- what the numbers have to be ----


def digits(value):
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def si(value, unit):
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")):
        if value >= size * 0.9995:
            return digits(value / size) + "\u00a0" + prefix + unit
    raise ValueError(value)


def seconds(value):
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= size * 0.9995:
            return digits(value / size) + "\u00a0" + unit
    raise ValueError(value)


def kind_of(op):
    return re.sub(r"^layer\.\d+\.", "", op["id"])


def kinds(record, plan, cache="warm", flops=True):
    return {
        (kind_of(op), op["phase"])
        for op in record["ops"]
        if plan in (op["plan"], "all") and op[cache] and (not flops or op["flops"] > 0)
    }


def points(page, where="#roofline"):
    return page.count(where + " path.point")


def test_numbers(page, records):
    everything = list(records.values())
    vulkan = records["h200-vulkan"]
    expected = sum(len(kinds(record, "flash")) for record in everything)
    expect(points(page) == expected, points(page), "points, not", expected)
    expect(page.one("#title").text.startswith("NVIDIA H200 (OpenCL, Vulkan)"), "title:", page.one("#title").text)
    expect("bert-large layer, training, 8 × 512 tokens, f16" in page.one("#subtitle").text, "subtitle")
    expect(
        page.count("#overview tbody tr") == sum(len(record["plans"]) for record in everything), "rows of the overview"
    )

    # Filters: one device, plans, classes, phases, layers, caches, the longest operators.
    for other in (0, 2, 3):
        page.choose("hidden", other)
    expect(points(page) == len(kinds(vulkan, "flash")), "points of one device")
    for plan in ("paper", "unfused", "flash"):
        page.choose("plan", plan)
        expect(points(page) == len(kinds(vulkan, plan)), "points of", plan)
        flopless = len(kinds(vulkan, plan, flops=False)) - len(kinds(vulkan, plan))
        expect(
            (f"{flopless} without any flop" in page.texts("#roofline .charted")[0]) == (flopless > 0),
            "operators without flop",
        )
    for name in ("contraction", "elementwise"):
        page.choose("classes", name)
    expect(
        points(page) == sum(op["class"] == "normalization" for op in vulkan["ops"] if op["plan"] == "flash"),
        "points of a class",
    )
    for name in ("contraction", "elementwise"):
        page.choose("classes", name)
    page.choose("phase", "backward")
    expect(
        points(page) == sum(op["phase"] == "backward" for op in vulkan["ops"] if op["plan"] == "flash"),
        "points of a phase",
    )
    page.choose("phase", "all")
    page.choose("cumulative", 60)
    times = sorted((op["warm"]["median"] for op in vulkan["ops"] if op["plan"] == "flash"), reverse=True)
    needed = next(n for n in range(len(times) + 1) if sum(times[:n]) >= 0.6 * sum(times))
    expect(points(page) == needed, points(page), "points make up 60 % of the time, not", needed)
    page.choose("cumulative", 100)
    page.choose("cache", "cold")
    expect(points(page) == len(kinds(vulkan, "flash", "cold")), "points with cold caches")
    page.choose("cache", "warm")

    # One operator, in the table, in the strip, in the card.
    op = next(op for op in vulkan["ops"] if op["id"] == "layer.0.norm1" and op["plan"] == "flash")
    moved = sum(op["bytes"]["d_model"].values())
    rate = si(moved / op["warm"]["median"], "B/s")
    where = page.open_table("roofline")
    rows = page.rows(where)
    expect(
        len(rows) == sum(one["plan"] == "flash" for one in vulkan["ops"]), len(rows), "rows in the table of operators"
    )
    row = next(row for row in rows if row[0] == "norm1")
    for text in (rate, seconds(op["warm"]["median"]), si(moved, "B"), op["derived"]["warm"]["regime"]):
        expect(text in row, text, "is not in", row)
    expect(rate in page.texts("#strip [data-op=norm1] text"), rate, "is not in the strip")
    page.run("""const at = document.querySelector("#roofline [data-op=norm1]").getBoundingClientRect();
        document.querySelector("#roofline .figure > svg").dispatchEvent(new MouseEvent("click", { bubbles: true,
            clientX: at.x + at.width / 2, clientY: at.y + at.height / 2 }))""")
    card = page.texts("#card")[0]
    for text in ("norm1", rate, seconds(op["warm"]["median"]), "D, counted", "not counted", "layernorm"):
        expect(text in card, text, "is not in the card:", card)
    expect(
        page.count("#strip .row.is-selected") == 1 and page.count("#roofline tr.is-selected") == 1,
        "not marked everywhere",
    )
    page.check("a card")
    page.run("document.querySelector('#card .close').click()")
    expect(not page.one("#card").is_displayed() and page.count(".is-selected") == 0, "the card stays")

    # Over the peak: hollow, and flagged.
    over = [kind_of(op) for op in vulkan["ops"] if op["plan"] == "flash" and op["checks"]["exceeds_peak"]]
    hollow = page.run("return [...document.querySelectorAll('#roofline .point.over')].map((node) => node.dataset.op)")
    expect(sorted(over) == sorted(hollow) and over, "hollow:", hollow, "not", over)
    expect(next(row for row in rows if row[0] == over[0])[16].endswith("!"), "not flagged in the table")

    # Ceilings, sweep, launches: all of them in tables, best ones as lines.
    where = page.open_table("roofline", 1)
    expect(len(page.rows(where)) == len(vulkan["ceilings"]) + 2, "rows of ceilings and two theoretical ones")
    expect(
        page.count("#roofline .roof") == 7 and page.count("#roofline .roof.theory") == 2,
        page.count("#roofline .roof"),
        "lines",
    )
    expect(page.count("#cache circle.point") == len(vulkan["sweep"]), "points of the sweep")
    expect(page.count("#launch circle.point") == len(vulkan["launch"]), "points of launches")
    expect(
        points(page, "#launch") == sum(one["plan"] == "flash" for one in vulkan["ops"]), "operators among the launches"
    )
    for other in (0, 2, 3):
        page.choose("hidden", other)

    # Time: a plan's parts are its kernels' and its gap.
    page.choose("time_scale", "seconds")
    where = page.open_table("time")
    mine = [row for row in page.rows(where) if row[1] == "B" and row[2] == "unfused"]
    contraction = sum(
        op["warm"]["median"]
        for op in vulkan["ops"]
        if op["plan"] == "unfused" and (op["class"], op["phase"]) == ("contraction", "backward")
    )
    expect(
        ["contraction", "B", "unfused", "backward", seconds(contraction)] in [row[:5] for row in mine],
        "time of contractions in",
        mine,
    )
    expect(any(row[0] == "gap" and row[4] == "190\u00a0µs" for row in mine), "gap in", mine)
    page.choose("time_by", "regime")
    plan = next(plan for plan in vulkan["plans"] if plan["plan"] == "flash")
    mine = [row for row in page.rows(where) if row[1] == "B" and row[2] == "flash"]
    expect(
        [row[4] for row in mine if row[0] == "compute"] == [seconds(plan["by_regime"]["compute"])],
        "time by regime in",
        mine,
    )
    page.choose("time_by", "class")

    # Movement: fused against unfused.
    where = page.open_table("movement")
    sums = {
        name: sum(sum(op["bytes"]["q"].values()) for op in vulkan["ops"] if op["plan"] == name)
        for name in ("flash", "unfused")
    }
    row = next(row for row in page.rows(where) if row[:2] == ["flash", "B"])
    less = f"−{100 * (1 - sums['flash'] / sums['unfused']):.0f}\u00a0%"
    expect(row[2] == si(sums["flash"], "B") and row[3] == less, "movement:", row, "not", less)

    # Difference of the two APIs.
    where = page.open_table("diff")
    opencl = {op["id"]: op for op in records["h200-opencl"]["ops"] if op["plan"] == "flash"}
    rows = page.rows(where)
    expect(len(rows) == len(opencl), len(rows), "rows of the difference")
    lost = {
        op["id"]: op["warm"]["median"] - opencl[op["id"]]["warm"]["median"]
        for op in vulkan["ops"]
        if op["plan"] == "flash"
    }
    worst = max(lost, key=lost.get)
    ratio = (
        next(op for op in vulkan["ops"] if op["id"] == worst and op["plan"] == "flash")["warm"]["median"]
        / opencl[worst]["warm"]["median"]
    )
    expect(
        rows[0][0] == worst[len("layer.0.") :] and rows[0][6] == digits(ratio) + "×",
        "first row:",
        rows[0],
        "not",
        worst,
        ratio,
    )
    expect(rows[0][9] == "slower" and rows[0][8] == "+" + seconds(lost[worst]), "first row:", rows[0])
    page.run("for (const node of document.querySelectorAll('details')) node.open = false")


HIDDEN = "return [...document.querySelectorAll('section[hidden]')].map((section) => section.id)"


def test_latency(page, records):
    """A page of loads alone: curves, dots at the percentiles that are known, every number of the table."""
    hidden = ["overview", "roofline", "strip", "time", "movement", "launch", "cache", "diff"]
    expect(page.run(HIDDEN) == hidden, page.run(HIDDEN))
    expect(page.count("#filters fieldset") == 1, "filters of operators, of which there are none")
    loads = [(record, load) for record in records for load in record["loads"]]
    expect(page.count("#latency g[data-clients] path.curve") == len(loads), "curves")
    names = ("p50", "p90", "p99", "p999")
    dots = sum(1 + sum(load[name] is not None for name in names) for _, load in loads)
    expect(page.count("#latency circle.point") == dots, page.count("#latency circle.point"), "dots of", dots)
    page.open_table("latency")
    rows = page.rows("#latency .tables")
    expect(len(rows) == sum(len(record["loads"]) + len(record["idle"]) for record in records), len(rows), "rows")
    for (record, load), row in zip(loads, rows):
        each = record["workload"]["requests"]["sessions"] == "per-client"
        expect(row[1:3] == [str(load["clients"]), "each" if each else "shared"], row)
        values = [load[name] for name in ("min", *names, "max", "mean")]
        shown = ["–" if value is None else seconds(value) for value in values]
        expect(row[6:13] == shown, row, shown)
    for row, one in zip(rows[len(loads) :], [one for record in records for one in record["idle"]]):
        expect(row[3] == seconds(one["idle_seconds"]) and row[6] == row[11] == seconds(one["seconds"]), row)


def test_layers(page, record):
    """Merging over layers, every layer, one, and what is outside of them; sums stay the same."""
    for value, expected in (
        ("merged", len({kind_of(op) for op in record["ops"]})),
        ("each", len(record["ops"])),
        ("2", sum(op["layer"] == 2 for op in record["ops"])),
        ("-1", 2),
    ):
        page.choose("layers", value)
        expect(points(page) == expected, points(page), "points of layers", value, "not", expected)
        expect(len(page.rows(page.open_table("roofline"))) == expected, "rows of layers", value)
    page.choose("layers", "merged")
    merged = [op for op in record["ops"] if kind_of(op) == "qkv"]
    row = next(row for row in page.rows(page.open_table("roofline")) if row[0] == "qkv")
    t = sum(op["warm"]["median"] for op in merged)
    expect(row[5] == seconds(t), "time merged:", row)
    expect(si(sum(sum(op["bytes"]["d_model"].values()) for op in merged) / t, "B/s") in row, "rate merged:", row)


def test_keyboard(page):
    """Tab reaches one point of a chart, arrows the others; Enter keeps the card, Escape closes it."""
    focus = "return [document.activeElement.getAttribute('class') || '', document.activeElement.dataset.op || '', document.activeElement.dataset.key || '']"
    page.run("document.querySelector('#roofline [data-control=roofs] input').focus()")
    for _ in range(12):
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
        kind, name, key = page.run(focus)
        if "point" in kind:
            break
    expect("point" in kind, "Tab does not reach a point")
    expect(page.one("#card").is_displayed() and name in page.one("#card").text, "no card at the focus")
    expect(
        page.run("return getComputedStyle(document.activeElement).stroke")
        == page.run("return getComputedStyle(document.body).color"),
        "the focus is not visible",
    )
    seen = {key}
    for press in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.END, Keys.HOME, Keys.ARROW_UP):
        ActionChains(page.browser).send_keys(press).perform()
        kind, name, key = page.run(focus)
        expect("point" in kind and name in page.one("#card").text, "an arrow key leads off")
        seen.add(key)
    expect(len(seen) >= 4, "arrow keys reach", len(seen), "points")
    expect(page.count("#roofline .point[tabindex='0']") == 1, "more than one point is a stop of Tab")
    ActionChains(page.browser).send_keys(Keys.ENTER).perform()
    expect(page.count("#card.kept") == 1 and page.count("#strip .is-selected") == 1, "Enter does not keep the card")
    ActionChains(page.browser).send_keys(Keys.TAB).perform()
    expect(page.count("#card.kept") == 1, "the card is lost with the focus")
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    expect(not page.one("#card").is_displayed() and page.count(".is-selected") == 0, "Escape does not close the card")
    for section in ("strip", "time", "movement", "launch", "cache", "diff"):
        page.run(
            "document.querySelector(`#${arguments[0]} .figure > svg [tabindex='0']`).focus({ focusVisible: true })",
            section,
        )
        ActionChains(page.browser).send_keys(Keys.ARROW_DOWN, Keys.ENTER).perform()
        expect(page.count("#card.kept") == 1, "no card in", section)
        page.check(f"a card of {section}")
        ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()


def test_pointer(page):
    point = page.one("#roofline .point[data-op=delta]")
    page.run("arguments[0].scrollIntoView({ block: 'center' })", point)
    time.sleep(0.2)
    ActionChains(page.browser).move_to_element(point).perform()
    expect("delta" in page.one("#card").text and page.count("#roofline .wasted") == 1, "nothing shows at the pointer")
    page.check("hovering")
    ActionChains(page.browser).move_to_element(page.one("#roofline h2")).perform()
    expect(not page.one("#card").is_displayed() and page.count("#roofline .wasted") == 0, "the card stays")


def test_downloads(page, records):
    """What comes out is what went in."""
    downloads = page.folder / "downloads"
    page.run("document.querySelector('#header-tools [data-download]').click()")
    made = json.loads(wait_for_file(downloads / "wherry-report.json"))
    expect(made == list(records), "all records are not what they were")
    for index, record in enumerate(records):
        button = page.all(".trust button")[index]
        page.run("arguments[0].click()", button)
        name = re.sub(r"^-+|-+$", "", re.sub(r"[^a-z0-9]+", "-", button.get_attribute("data-download").lower()))[:60]
        expect(json.loads(wait_for_file(downloads / f"{name}.json")) == record, "record", index, "is not what it was")
    page.check("downloads")


def packed_records(text):
    return re.findall(r'<script type="application/gzip" class="record">(.*)</script>', text)


def test_packing(page, records):
    """The data can be had without a browser, is the same in every page of the same records, and is small."""
    text = page.path.read_text(encoding="utf-8")
    packed = packed_records(text)
    plain = [gzip.decompress(base64.b64decode(one, validate=True)) for one in packed]
    expect([json.loads(one) for one in plain] == list(records), "the records in the source are not what they were")
    times = [base64.b64decode(one)[4:8] for one in packed]
    expect(all(time == bytes(4) for time in times), "the time is in the data:", times)
    print(f"{page.path.name}: {len(text)} bytes, records {sum(map(len, packed))} of {sum(map(len, plain))}")


def test_damaged(page, folder):
    """What can't be read is named, and all else drawn; a browser that can unpack nothing says so."""
    text = page.path.read_text(encoding="utf-8")
    packed = packed_records(text)
    middle = len(packed[1]) // 2
    other = "A" if packed[1][middle] != "A" else "B"
    damages = {
        "flipped": packed[1][:middle] + other + packed[1][middle + 1 :],
        "short": packed[1][: middle // 4 * 4],
        "foreign": "?" + packed[1][1:],
        "nothing": "",
    }
    first = json.loads(gzip.decompress(base64.b64decode(packed[0])))["devices"][0]["name"]
    for name, damaged in damages.items():
        path = folder / f"damaged-{name}.html"
        path.write_text(text.replace(packed[1], damaged), encoding="utf-8")
        broken = Page(page.browser, path, folder)
        messages = broken.texts(".problem")
        expect(len(messages) == 1 and f"Record 2 of the {len(packed)}" in messages[0], name, "says", messages)
        expect(broken.count(".trust") == len(packed) - 1 and first in broken.one("#title").text, name, "draws less")
    broken.screenshot("damaged-1280-light")
    script = page.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete self.DecompressionStream"}
    )
    old = Page(page.browser, page.path, folder)
    expect("can't unpack" in old.one(".problem").text, "an old browser says", old.texts(".problem"))
    shown = old.run("return [...document.querySelectorAll('nav, main, footer')].filter((node) => !node.hidden).length")
    expect(shown == 0 and old.count("[data-download]") == 0, "an old browser shows", shown, "parts of nothing")
    old.screenshot("old-1280-light")
    page.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_trust(page, records):
    boxes = page.all(".trust")
    expect(len(boxes) == len(records), len(boxes), "boxes")
    for box, record in zip(boxes, records.values()):
        drift = record["run"]["sentinel"]["drift"]
        for text in (
            "timer ok",
            f"drift {100 * drift:.1f}\u00a0%",
            record["run"]["tool"]["git"],
            "--config",
            record["devices"][0]["driver"],
        ):
            expect(text in box.get_attribute("textContent"), text, "is not in", box.text)
        bad = [badge.text for badge in box.find_elements(By.CSS_SELECTOR, ".badge.bad")]
        expect(any("drift" in text for text in bad) == (drift > 0.03), "drift is judged wrongly:", bad)
        expect(
            any("above" in text for text in bad) == any(op["checks"]["exceeds_peak"] for op in record["ops"]),
            "over-peak:",
            bad,
        )


def test_print(page):
    """Prints, and is as before afterwards."""
    before = page.run("return document.querySelector('#roofline .figure > svg').getAttribute('width')")
    made = base64.b64decode(
        page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})["data"]
    )
    (page.folder / "page.pdf").write_bytes(made)
    expect(made.startswith(b"%PDF") and len(made) < 8e6, "a PDF of", len(made), "bytes")
    sizes = set(re.findall(rb"/MediaBox \[([^\]]*)\]", made))
    expect(
        all(abs(float(size.split()[2]) - 595) < 2 and abs(float(size.split()[3]) - 842) < 2 for size in sizes)
        and sizes,
        "not A4:",
        sizes,
    )
    time.sleep(0.2)
    expect(
        page.run("return document.querySelector('#roofline .figure > svg').getAttribute('width')") == before,
        "printing leaves the page narrow",
    )
    page.check("printing")


def test_names(page):
    """Records of one device are called by what ran; by their type or time where that does not tell them apart."""
    names = page.texts("[data-control=hidden] .name")
    layer = "bert-large layer, 8 × "
    expect(
        names
        == [
            f"Vulkan · {layer}512, f16",
            f"Vulkan · {layer}128",
            f"OpenCL · {layer}512",
            f"Vulkan · {layer}512, f32 · 2026-11-21T03:05:33Z",
            f"Vulkan · {layer}512, f32 · 2026-11-22T03:05:33Z",
        ],
        names,
    )
    chosen = page.run("return ['a', 'b'].map((side) => document.querySelector(`[data-control=diff_${side}]`).value)")
    expect(chosen == ["0", "2"], "the difference at first is between", chosen)


def test_hostile(page, name):
    expect(page.run("return window.hacked === undefined"), "a name was executed")
    expect(page.count("img") == 0 and page.count("script:not(.record)") == 1, "a name became an element")
    expect(name in page.one("#title").get_attribute("textContent"), "the name is not shown as it is")
    page.choose("plan", name)
    expect(name in page.texts("#strip .figure > svg text > title"), "an operator's name is not shown as it is")


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "downloads").mkdir(parents=True)
    folder = folder.resolve()
    browser = open_browser(folder)
    try:
        if os.environ.get("PAGE"):
            page = Page(browser, os.environ["PAGE"], folder)
            use_every_control(page)
            use_pictures(page)
            use_themes(page, "page")
            print(f"{page.checks} checks of {page.path}")
            return
        subprocess.run([sys.executable, HERE / "make_records.py", folder], check=True)
        subprocess.run([sys.executable, HERE / "make_records.py", folder / "many", "--many"], check=True)

        def make(name, *records):
            files = [folder / f"{record}.json" for record in records]
            subprocess.run([os.environ["WRITE_PAGE"], folder / f"{name}.html", *files], check=True)
            loaded = {record: json.loads(file.read_text(encoding="utf-8")) for record, file in zip(records, files)}
            return Page(browser, folder / f"{name}.html", folder), loaded

        page, records = make("main", "h200-opencl", "h200-vulkan", "pocl", "lavapipe")
        test_numbers(page, records)
        test_keyboard(page)
        test_pointer(page)
        test_trust(page, records)
        test_downloads(page, records.values())
        test_packing(page, records.values())
        test_print(page)
        used = use_every_control(page)
        use_pictures(page)
        use_themes(page, "main")
        print(f"main: {used[0]} controls, {used[1]} tables, {page.checks} checks")
        test_damaged(page, folder)

        page, records = make("layers", "lavapipe")
        test_layers(page, records["lavapipe"])

        page, records = make("odd", "roof", "bare", "hostile", "empty")
        test_hostile(page, records["hostile"]["devices"][0]["name"])
        used = use_every_control(page)
        use_themes(page, "odd")
        test_downloads(page, records.values())
        test_packing(page, records.values())
        test_hostile(page, records["hostile"]["devices"][0]["name"])
        print(f"odd: {used[0]} controls, {used[1]} tables, {page.checks} checks")

        for name, changes in (
            ("shorter", {"lengths": [128] * 8}),
            ("again", {"dtype": "f32"}),
            ("later", {"dtype": "f32", "utc": "2026-11-22T03:05:33Z"}),
        ):
            changed = json.loads((folder / "h200-vulkan.json").read_text(encoding="utf-8"))
            changed["run"]["utc"] = changes.pop("utc", changed["run"]["utc"])
            changed["workload"].update(changes)
            (folder / f"{name}.json").write_text(json.dumps(changed), encoding="utf-8")
        page, _ = make("names", "h200-vulkan", "shorter", "h200-opencl", "again", "later")
        test_names(page)
        page.screenshot("names-1280-light")

        for name, changes in (("latency", ["lengths=5,20"]), ("latency-few", ["requests=40", "sessions=per-client"])):
            maker = HERE.parent / "report" / "make_latency.py"
            subprocess.run([sys.executable, maker, folder / f"{name}.json", *changes], check=True)
        page, records = make("loads", "latency", "latency-few")
        test_latency(page, list(records.values()))
        use_every_control(page)
        use_pictures(page)
        use_themes(page, "loads")
        test_downloads(page, records.values())
        page, _ = make("loads-too", "latency", "h200-vulkan")
        expect(page.run(HIDDEN) == [], page.run(HIDDEN))
        use_every_control(page)

        for name in ("roof", "bare", "empty"):
            page, _ = make("only-" + name, name)
            expect(page.run(HIDDEN) == ["latency"], page.run(HIDDEN))
            use_every_control(page)

        page, records = make("many", *[f"many/many-{n}" for n in range(10)])
        ops = sum(len(record["ops"]) for record in records.values())
        expect(page.seconds < 15, "10 records take", page.seconds, "seconds to open")
        started = time.monotonic()
        page.choose("layers", "each")
        slowest = time.monotonic() - started
        expect(slowest < 15, "all layers take", slowest, "seconds")
        expect(points(page) == 4000, points(page), "points")
        page.screenshot("many-1280-light")
        print(f"many: {ops} operators of 10 records, {page.seconds:.1f} s to open, {slowest:.1f} s to show every layer")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
