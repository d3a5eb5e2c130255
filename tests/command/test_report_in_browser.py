"""The page of a real comparison in a real browser, as wide as a phone and as a desk: all of it is there and can be seen."""

import json
import os
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest
from conftest import run, run_json
from paths import HANG_S
from sample_run import page_of

pytestmark = pytest.mark.thorough

# scripts/setup.sh --all installs the first; elsewhere any of its kin will do.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (390, 1280)
ALGORITHMS = "mean,adacons,local_sgd,wagma"

# Looks around once all is drawn, and tells the page around it what it has seen.
PROBE = """<script>addEventListener("load", () => {
  const size = (each) => each.getBoundingClientRect();
  const smallest = (each) => parseFloat(getComputedStyle(each).fontSize);
  const seen = {
    width: innerWidth, content: document.scrollingElement.scrollWidth,
    pictures: [...document.querySelectorAll("svg.plot")].map((each) => ({alt: each.getAttribute("aria-label"),
      drawn: each.querySelectorAll("path").length > 3, cut: [...each.querySelectorAll("text")].filter((text) =>
        size(text).right > size(each).right + 2 || size(text).left < size(each).left - 2).map((text) => text.textContent),
      width: size(each).width, height: size(each).height, right: size(each).right})),
    tables: [...document.querySelectorAll("table")].map((each) => ({rows: each.rows.length, height: size(each).height,
      cells: [...each.rows].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, " ").trim()))})),
    letters: Math.min(...[...document.querySelectorAll("p, li, td, th, figcaption, small, button")].map(smallest)),
  };
  parent.postMessage(JSON.stringify(seen), "*");
});</script>"""

# Shows the page in a frame, since a window of some browsers is never narrower than 500 pixels, and leaves what the page's
# probe has seen where --dump-dom shows it.
FRAME = """<!DOCTYPE html><title>nothing seen</title><body style="margin: 0">
<script>addEventListener("message", (event) => { document.title = "seen:" + encodeURIComponent(event.data); });</script>
<iframe src="probed.html" style="border: 0; width: %dpx; height: 900px"></iframe>"""

# Does what a reader does, and notes what the page answers.
HANDS = """<script>addEventListener("load", () => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = () => one(".tip").hidden ? null : [...one(".tip").children].map((each) => each.textContent);
  const rows = () => all("tbody tr", one("table")).map((row) => row.cells[0].innerText.trim());
  const svg = all("svg.plot").find((each) => each.getAttribute("aria-label").includes("against steps"));
  const point = (x, y) => {
    const frame = svg.dataset.frame.split(" ").map(Number), range = svg.dataset.range.split(" ").map(Number);
    return new DOMPoint(frame[0] + frame[2] * (x - range[0]) / (range[1] - range[0]),
      frame[1] + frame[3] * (range[3] - y) / (range[3] - range[2])).matrixTransform(svg.getScreenCTM());
  };
  const move = (at, target = svg) =>
    target.dispatchEvent(new PointerEvent("pointermove", {clientX: at.x, clientY: at.y, bubbles: true}));
  const press = (key) => svg.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const line = one('[data-series="adacons"][data-y]', svg);
  const last = (name) => Number(line.dataset[name].split(" ").pop());
  const seen = {dark: matchMedia("(prefers-color-scheme: dark)").matches,
    colours: ["color", "backgroundColor"].map((name) => getComputedStyle(document.body)[name]),
    letters: getComputedStyle(one("text", svg)).fill};
  move(point(last("x"), last("y")));
  seen.hovered = tip();
  seen.dimmed = all(".series", svg).filter((each) => getComputedStyle(each).opacity < 0.5).map((each) => each.dataset.series);
  press("ArrowLeft");
  seen.before = tip();
  seen.expected = ["x", "y"].map((name) => Number(line.dataset[name].split(" ").at(-2)));
  press("ArrowDown");
  seen.below = tip()[0];
  press("Escape");
  seen.escaped = tip();
  const entry = one('.legend [data-series="adacons"] button', svg.closest("figure"));
  entry.click();
  seen.hidden = [entry.ariaPressed, getComputedStyle(line).visibility];
  move(point(last("x"), last("y")));
  seen.instead = tip()[0];
  entry.click();
  seen.shown = [entry.ariaPressed, getComputedStyle(line).visibility];
  const bar = all("svg.plot").find((each) => each.getAttribute("aria-label").includes(": Throughput"));
  const box = one('[data-series="wagma"]', bar).getBoundingClientRect();
  move({x: box.x + box.width / 2, y: box.y + box.height / 2}, bar);
  seen.bar = tip();
  const head = all("th").find((each) => each.innerText.includes("accuracy"));
  seen.orders = [rows()];
  seen.sorts = [];
  for (let click = 0; click < 3; ++click) {
    one("button", head).click();
    seen.orders.push(rows());
    seen.sorts.push(head.getAttribute("aria-sort"));
  }
  parent.postMessage(JSON.stringify(seen), "*");
});</script>"""


@pytest.fixture(scope="module")
def browser():
    """Its absence fails the test: scripts/setup.sh --all installs one."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert found, f"no browser to look at the report with (one of {', '.join(BROWSERS)}): run scripts/setup.sh --all"
    return found


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "comparison"
    flags = ["--task", "images", "--steps", 40, "--seeds", 2, "--workers", 4, "--straggler", "1x3ms"]
    run_json("compare", *flags, "--algorithms", ALGORITHMS, "--search", "images.learning_rate=0.1,0.2", "--out", out)
    return out


def seen_by(browser, page, width, tmp_path, probe=PROBE, *flags):
    """Returns what the probe sees of the page in a frame of this width."""
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME % width)
    (tmp_path / "probed.html").write_text(page.read_text().replace("</head>", probe + "</head>"))
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,900"),
            *("--virtual-time-budget=20000", *flags, "--dump-dom", frame.as_uri()),
        ],
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    left = re.search(r"<title>seen:([^<]*)</title>", done.stdout)
    assert left, done.stderr[-2000:]
    return json.loads(unquote(left[1]))


def check_layout(seen, width):
    assert seen["width"] == width
    assert seen["content"] <= width, "the page scrolls sideways"
    assert seen["letters"] >= 14
    for picture in seen["pictures"]:
        assert picture["drawn"], picture["alt"]
        assert picture["cut"] == [], picture["alt"]
        assert picture["width"] >= 300, picture["alt"]
        assert picture["height"] >= 80, picture["alt"]
        assert picture["right"] <= width, picture["alt"]
    for table in seen["tables"]:
        assert table["rows"] > 1
        assert table["height"] > 40


@pytest.mark.parametrize("width", WIDTHS)
def test_a_browser_shows_every_picture_and_table_of_a_comparison(browser, comparison, tmp_path, width):
    seen = seen_by(browser, comparison / "report.html", width, tmp_path)
    check_layout(seen, width)
    alts = [picture["alt"] for picture in seen["pictures"]]
    assert alts == page_of(comparison).pictures
    beginnings = [
        r"Lines, one per algorithm.*: Accuracy against time\.",
        r"Lines, one per algorithm.*: Accuracy against steps\.",
        r"Bars, one per algorithm \(mean .*: Time to accuracy 0\.[0-9]+;",
        r"Lines, one per algorithm: Accuracy for each value tried of learning_rate",
        r"Bars, one per algorithm \(mean .*: Throughput;",
        r"Bars, one per algorithm \(mean .*: Waiting;",
        r"Histogram: How long steps of mean computed, waiting left out, 2 seeds\.",
        r"Bars, one per algorithm \(wagma .*: Fresh",
        r"Bars, a panel for each of wagma: how many iterations old",
        r"Lines, one per worker: adacons: how much each worker's gradient counts\.",
        *(
            rf"Timeline, a row for each worker: computing, waiting.* {name}: 4 workers"
            for name in ALGORITHMS.split(",")
        ),
    ]
    assert len(alts) == len(beginnings), alts
    for alt, beginning in zip(alts, beginnings, strict=True):
        assert re.match(beginning, alt), alt
    # The tables of the page are those that --text prints, cell by cell.
    printed = run("report", comparison, "--text").stdout
    lines = [re.split(r"\s{2,}", line) for line in printed.splitlines()]
    assert len(seen["tables"]) == 2
    for table in seen["tables"]:
        for row in table["cells"]:
            assert row in lines, row


@pytest.mark.parametrize("width", WIDTHS)
def test_a_browser_shows_every_picture_and_table_of_a_run(browser, comparison, tmp_path, width):
    folder = next(comparison.glob("runs/wagma*"))
    assert run("report", folder).returncode == 0
    seen = seen_by(browser, folder / "report.html", width, tmp_path)
    check_layout(seen, width)
    assert len(seen["tables"]) == 1
    alts = [picture["alt"] for picture in seen["pictures"]]
    for what in (
        "Accuracy: ",
        "Training loss",
        "time spent waiting and in transfers",
        "fresh steps",
        "old",
        "Timeline",
    ):
        assert any(what in alt for alt in alts), what


def luminance(colour):
    """Of rgb(r, g, b), as WCAG defines it."""
    channels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_answers_to_pointer_and_keys(browser, comparison, tmp_path, scheme):
    flags = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    seen = seen_by(browser, comparison / "report.html", 1280, tmp_path, HANDS, *flags)
    assert seen["dark"] == (scheme == "dark")
    for letters in (seen["colours"][0], seen["letters"]):
        brighter, darker = sorted(map(luminance, (letters, seen["colours"][1])))[::-1]
        assert (brighter + 0.05) / (darker + 0.05) > 7, "as readable as letters can be"
    (case,) = json.loads((comparison / "compare.json").read_text())["cases"]
    quality = {row["algorithm"]: row["quality"]["mean"] for row in case["rows"]}
    assert seen["hovered"] == ["adacons", f"accuracy: {quality['adacons']:.4g}", "step: 40"]
    assert set(seen["dimmed"]) == set(quality) - {"adacons"}
    step, before = seen["expected"]
    assert seen["before"] == ["adacons", f"accuracy: {before:.4g}", f"step: {step}"]
    assert seen["below"] in set(quality) - {"adacons"}
    assert seen["escaped"] is None
    assert seen["hidden"] == ["false", "hidden"]
    assert seen["instead"] in set(quality) - {"adacons"}
    assert seen["shown"] == ["true", "visible"]
    assert re.match(r"wagma: \d+; seeds from \d+ to \d+$", seen["bar"][0])
    came, up, down, again = seen["orders"]
    assert came == again == ALGORITHMS.split(",")
    column = case["table"]["columns"].index("accuracy")
    told = {row[0]: float(row[column].split()[0]) for row in case["table"]["rows"]}
    assert [told[name] for name in up] == sorted(told.values())
    assert [told[name] for name in down] == sorted(told.values(), reverse=True)
    assert seen["sorts"] == ["ascending", "descending", None]
