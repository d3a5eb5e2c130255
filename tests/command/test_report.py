"""`flockstep report`: one page that needs nothing but itself, and one sentence where there is none to draw."""

import base64
import html.parser
import json
import os
import pty
import re
import subprocess

import pytest
from conftest import COMMAND, run, run_json
from sample_run import write_sample_run


class Page(html.parser.HTMLParser):
    """What a page says and shows; fails on tags that are not closed in order."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.words, self.pictures, self.addresses, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "srcset", "data")]
        if tag == "img":
            assert given["alt"]
            self.pictures.append(given["alt"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(folder):
    """The page in a folder, after a look at whether it is self-contained."""
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert not any(re.match(r"\s*(https?:)?//", address) for address in page.addresses)
    assert "url(" not in text
    assert "<script" not in text
    for address in page.addresses:
        kind, _, data = address.partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(data)
    assert 'name="viewport"' in text
    return page


def report(folder):
    done = run("report", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == f"{folder / 'report.html'}\n"
    return page_of(folder)


def test_a_run_gets_a_page(tmp_path):
    out = tmp_path / "run"
    summary = run_json("train", "--workers", 3, "--steps", 40, "--straggler", "1x1ms", "--out", out)
    page = report(out)
    assert "mean on linear: loss" in page.text
    assert "3 workers on threads, seed 1, 40 steps" in page.text
    assert "Nothing suspicious was found." in page.text
    assert summary["model_hash"] in page.text
    assert "1 random workers 1 ms late" in page.text
    assert len(page.pictures) >= 3


def test_a_comparison_draws_its_own_page(tmp_path):
    out = tmp_path / "comparison"
    arguments = ["--workers", 2, "--batch", "8,16", "--steps", 20, "--seeds", 3, "--search", "local_sgd.period=2,4,8"]
    done = run("compare", *arguments, "--algorithms", "mean,local_sgd,local_sgd:period=5", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"The report is {out / 'report.html'}." in done.stdout
    page = page_of(out)
    assert len(page.pictures) == 2 * 4  # quality against step and time, the search, throughput; twice
    # Every cell of the printed tables is on the page, and so are the verdicts.
    for line in done.stdout.splitlines()[2:]:
        for cell in re.split(r"\s{2,}", line.strip()):
            if cell.strip("-") and not line.startswith(("linear,", "Metrics", "The report", "(edge)")):
                assert cell in page.text, line
    first = (out / "report.html").read_bytes()
    report(out)
    assert (out / "report.html").read_bytes() == first, "the same numbers give the same bytes"


def test_a_comparison_in_json_prints_nothing_else(tmp_path):
    done = run("compare", "--steps", 5, "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["cases"]
    page_of(tmp_path / "out")


@pytest.mark.parametrize("workers", [8, 16, 40])
def test_findings_come_first_and_workers_are_drawn(tmp_path, workers):
    out = tmp_path / "run"
    write_sample_run(out, workers)
    page = report(out)
    assert page.text.index("Worker 2 points against the others") < page.text.index("Figures")
    assert "steps 10 to 100" in page.text
    assert "1 step had a gradient that was not finite" in page.text
    assert "Nothing suspicious" not in page.text
    for what in ("gradient counts", "gradient is", "Against the others: worker 2", "Heat map", "guard fired", "waited"):
        assert any(what in picture for picture in page.pictures), what


def test_a_killed_run_is_drawn_from_what_it_left(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    (out / "summary.json").unlink()
    metrics = out / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"kind":"step","st')
    page = report(out)
    assert "has not ended" in page.text
    assert "Worker 2 points against the others" in page.text


def test_numbers_that_are_none_are_said_and_survived(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    summary.update(quality=None, findings=[])
    (out / "summary.json").write_text(json.dumps(summary))
    metrics = out / "metrics.jsonl"
    metrics.write_text(re.sub(r'"(quality|loss)": [0-9.e-]+', r'"\1": null', metrics.read_text()))
    assert "The run diverged" in report(out).text


def test_names_cannot_break_the_page(tmp_path):
    out = tmp_path / "run"
    summary = write_sample_run(out)
    summary["algorithm"] = "<script src=http://elsewhere>"
    (out / "summary.json").write_text(json.dumps(summary))
    assert "<script src=http://elsewhere> on linear" in report(out).text


DAMAGED = [
    ("metrics.jsonl", lambda text: text.replace('"loss"', '"los'), "metrics.jsonl line 1 is damaged"),
    ("metrics.jsonl", lambda text: text.replace('"seconds"', '"second"', 1), "is damaged: it lacks 'seconds'"),
    ("metrics.jsonl", lambda text: "[1]\n" + text, "line 1 is damaged: it should be an object with a kind"),
    (
        "metrics.jsonl",
        lambda text: text.replace('"norms": [', '"norms": [1, ', 1),
        "its norms are of 8 and of 9 workers",
    ),
    ("metrics.jsonl", lambda text: text.replace('"matrix": [[', '"matrix": [[2, ', 1), "is damaged"),
    ("summary.json", lambda text: text[:-20], "summary.json is damaged"),
    ("summary.json", lambda text: "[]", "summary.json is damaged: it should hold a JSON object"),
    ("summary.json", lambda text: text.replace('"sentence"', '"word"'), "summary.json is damaged: it lacks 'sentence'"),
]


@pytest.mark.parametrize(("name", "damage", "sentence"), DAMAGED, ids=[case[2] for case in DAMAGED])
def test_a_damaged_file_is_named(tmp_path, name, damage, sentence):
    out = tmp_path / "run"
    write_sample_run(out)
    (out / name).write_text(damage((out / name).read_text()))
    done = run("report", out)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.startswith("flockstep: ")
    assert done.stderr.count("\n") == 1
    assert not (out / "report.html").exists()


def test_a_comparison_that_lost_a_run_or_its_sense_is_told(tmp_path):
    out = tmp_path / "comparison"
    run_json("compare", "--steps", 5, "--out", out)
    (out / "runs" / "mean-seed-1" / "metrics.jsonl").unlink()
    done = run("report", out)
    assert done.returncode == 1
    assert "cannot read" in done.stderr
    assert "mean-seed-1/metrics.jsonl" in done.stderr
    (out / "compare.json").write_text('{"metric": "loss"}')
    done = run("report", out)
    assert done.returncode == 1
    assert "compare.json is damaged: it lacks 'lower_is_better'" in done.stderr


def test_a_wrong_folder_is_a_wrong_call(tmp_path):
    for folder, sentence in ((tmp_path / "nowhere", "is not a folder"), (tmp_path, "holds neither a comparison")):
        done = run("report", folder)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def test_without_python_or_matplotlib_one_sentence_says_how_to_get_it(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    done = run("report", out, env={**os.environ, "FLOCKSTEP_PYTHON": "/nowhere/python"})
    assert done.returncode == 1
    assert "cannot start /nowhere/python" in done.stderr
    assert done.stderr.count("\n") == 1
    without = tmp_path / "python"
    without.write_text('#!/bin/sh\nexec python3 -S "$@"\n')  # -S: without the packages of any environment
    without.chmod(0o755)
    environment = {**os.environ, "FLOCKSTEP_PYTHON": str(without)}
    done = run("report", out, env=environment)
    assert done.returncode == 1
    assert "the report needs numpy" in done.stderr or "the report needs matplotlib" in done.stderr
    assert "pip install matplotlib" in done.stderr
    assert done.stderr.count("\n") == 1
    # A comparison goes on without its pictures.
    done = run("compare", "--steps", 5, "--out", tmp_path / "comparison", env=environment)
    assert done.returncode == 0
    assert "pip install matplotlib" in done.stderr
    assert "Metrics, traces and results are in" in done.stdout
    assert "The report is" not in done.stdout


def test_a_terminal_sees_what_is_drawn(tmp_path):
    out = tmp_path / "run"
    write_sample_run(out)
    terminal, inside = pty.openpty()
    process = subprocess.Popen([COMMAND, "report", out], stderr=inside, stdout=subprocess.DEVNULL)
    os.close(inside)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    assert process.wait() == 0
    assert b"drawing quality" in shown
    assert shown.endswith(b"\r\x1b[K")
