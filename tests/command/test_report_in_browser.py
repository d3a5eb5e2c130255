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

# scripts/setup.sh installs the first; elsewhere any of its kin will do.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (390, 1280)
ALGORITHMS = "mean,adacons,local_sgd,wagma"

# Looks around once all is drawn, and leaves what it has seen where --dump-dom shows it.
PROBE = """<script>addEventListener("load", () => {
  const size = (each) => each.getBoundingClientRect();
  const smallest = (each) => parseFloat(getComputedStyle(each).fontSize);
  const seen = {
    width: innerWidth, content: document.scrollingElement.scrollWidth,
    pictures: [...document.images].map((each) => ({alt: each.alt, drawn: each.complete && each.naturalWidth > 0,
      width: size(each).width, height: size(each).height, right: size(each).right})),
    tables: [...document.querySelectorAll("table")].map((each) => ({rows: each.rows.length, height: size(each).height,
      cells: [...each.rows].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, " ").trim()))})),
    letters: Math.min(...[...document.querySelectorAll("p, li, td, th, figcaption, small")].map(smallest)),
  };
  document.title = "seen:" + encodeURIComponent(JSON.stringify(seen));
});</script>"""


@pytest.fixture(scope="module")
def browser():
    """Its absence fails the test: whoever has run scripts/setup.sh has one."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert found, f"no browser to look at the report with (one of {', '.join(BROWSERS)}): run scripts/setup.sh"
    return found


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "comparison"
    flags = ["--task", "images", "--steps", 40, "--seeds", 2, "--workers", 4, "--straggler", "1x3ms"]
    run_json("compare", *flags, "--algorithms", ALGORITHMS, "--search", "images.learning_rate=0.1,0.2", "--out", out)
    return out


def seen_by(browser, page, width, tmp_path):
    """What the probe sees of the page in a window of this width."""
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</head>", PROBE + "</head>"))
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"),
            *("--virtual-time-budget=20000", "--dump-dom", probed.as_uri()),
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
            assert [re.sub(r"^\W ", "", row[0]), *row[1:]] in lines, row


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
        "time spent waiting and transferring",
        "fresh steps",
        "old",
        "Timeline",
    ):
        assert any(what in alt for alt in alts), what
