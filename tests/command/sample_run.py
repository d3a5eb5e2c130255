"""A run's folder as training writes it, made up: worker 2 points against the others, and guards have fired.

And ways to damage it, or a comparison's, and a reader of the page that is drawn of it.
"""

import html.parser
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def cosine(i: int, j: int, against: int) -> float:
    if i == j:
        return 1.0
    return (-0.4 if against in (i, j) else 0.5) + 0.05 * math.sin(3 * i + 3 * j)


def meetings_at(step: int) -> dict[str, Any]:
    """How models had met by then; as a run in lockstep tells it before the first step."""
    if step == 0:
        return dict.fromkeys(("fresh_fraction", "alone_share", "mean_staleness", "mean_round_s", "staleness"))
    figures = {"fresh_fraction": 0.5 + 0.3 / step, "alone_share": 0.05, "mean_staleness": 0.625, "mean_round_s": 0.004}
    return {**figures, "staleness": [5 * step, 2 * step, 0, step]}


# 90 steps of 10 ms, nine of 20 and one of 100: 40 bins are ten times as long.
STEP_TIMES = {
    **{"median_s": 0.0103, "p90_s": 0.0106, "p99_s": 0.0212, "longest_s": 0.1},
    **{"first_bin": 160, "counts": [90, *[0] * 11, 9, *[0] * 27, 1]},
}


def write_sample_run(folder: Path, workers: int = 8, meet: bool = False) -> None:
    """Writes 100 steps. With `meet`, as of an algorithm that averages without waiting."""
    steps, against = 100, 2
    draw = random.Random(7)
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = []
    guards = {"skipped_steps": 0, "non_finite": 1, "all_zero": 0, "unsafe": 2, "clipped": 3}
    finding = {"finding": "against", "workers": [against], "first_step": 10, "last_step": steps, "evidence": -0.41}
    finding["sentence"] = f"worker {against} points against the others (mean cosine -0.41)"
    lengths = [40 if worker == against else 5 for worker in range(workers)]
    for step in range(1, steps + 1):
        agreement = [draw.gauss(-0.41 if i == against else 0.4, 0.05) for i in range(workers)]
        positive = [max(value, 0) for value in agreement]
        line: dict[str, Any] = {
            **{"kind": "step", "step": step, "loss": 500 * math.exp(-step / 12) * draw.uniform(0.8, 1.2)},
            **{"seconds": 0.01, "wait_s": draw.uniform(0.002, 0.004), "transfer_s": 0.001, "agreement": agreement},
            "coefficients": [value / sum(positive) for value in positive],
            "norms": [long * math.exp(-step / 60) * draw.uniform(0.9, 1.1) for long in lengths],
        }
        if step == 31:
            line.update(event="non_finite", coefficients=[None] * workers, norms=None, agreement=None)
        if step in (50, 51):
            line["event"] = "unsafe"
        if step in (60, 61, 70):
            line["clipped"] = [against]
        lines.append(line)
        if step % 25 == 0:
            matrix = [[cosine(i, j, against) for j in range(workers)] for i in range(workers)]
            lines.append({"kind": "cosines", "step": step, "steps": 25, "matrix": matrix})
        if step % 10 == 0:
            evaluation = {"kind": "evaluation", "step": step, "time_s": 0.01 * step, "metric": "loss"}
            figures = {"samples_per_s": 1600.0, "wait_share": 0.3, "bytes_sent_per_step": 7000.0}
            line = {**evaluation, "quality": 500 * math.exp(-step / 12), **figures, "guards": guards}
            lines.append({**line, **meetings_at(step if meet else 0)})
    lines.append({"kind": "finding", "step": steps, **finding})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        **{"task": "linear", "algorithm": "adacons", "workers": workers, "engine": "threads", "seed": 1, "batch": 128},
        **{"task_settings": {}, "algorithm_settings": {"beta": "0.9"}, "steps": steps, "requested_steps": steps},
        **{"interrupted": False, "metric": "loss", "lower_is_better": True, "quality": 500 * math.exp(-steps / 12)},
        **{"train_loss": 0.2, "time_s": 1.0, "samples_per_s": 1600.0, "wait_share": 0.3, "bytes_sent_per_step": 7000.0},
        **{"guards": guards, "model_hash": "0123456789abcdef", "replicas_equal": True, "findings": [finding]},
        **meetings_at(steps if meet else 0),
        "step_times": STEP_TIMES,
        "figures": {"success": 0.8125, "actions": None},
    }
    (folder / "summary.json").write_text(json.dumps(summary))


def values(**changed: Any) -> Callable[[str], str]:
    """Damages an object."""
    return lambda text: json.dumps({**json.loads(text), **changed})


def first_row(**changed: Any) -> Callable[[str], str]:
    """Damages the first row of a comparison; None takes the value away."""

    def damage(text: str) -> str:
        saved = json.loads(text)
        row = {**saved["cases"][0]["rows"][0], **changed}
        saved["cases"][0]["rows"][0] = {name: value for name, value in row.items() if value is not None}
        return json.dumps(saved)

    return damage


def meeting_rows(text: str) -> str:
    """A comparison in which all but the first algorithm average without waiting."""
    saved = json.loads(text)
    for case in saved["cases"]:
        for place, row in enumerate(case["rows"][1:]):
            figures = meetings_at(100)
            for name in ("fresh_fraction", "alone_share", "mean_staleness", "mean_round_s"):
                value = figures[name] / (place + 1)
                row[name] = {"mean": value, "deviation": 0.1, "median": value, "min": 0.9 * value, "max": 1.1 * value}
            row["staleness"] = figures["staleness"] + [place] * 20 * place
    return json.dumps(saved)


def replaced(old: str, new: str) -> Callable[[str], str]:
    """Damages a text at its first `old`."""
    return lambda text: text.replace(old, new, 1)


def blown_up(text: str, huge: str) -> str:
    """With `huge` for every third number that has a fraction."""
    at = iter(range(len(text)))
    return re.sub(r"(?<=[:\[ ])-?[0-9]+\.[0-9]+(e-?[0-9]+)?", lambda found: found[0] if next(at) % 3 else huge, text)


DEEP = "[" * 100_000
DAMAGED_RUNS = [
    ("metrics.jsonl", lambda text: text.replace('"loss"', '"los'), "metrics.jsonl line 1 is damaged"),
    ("metrics.jsonl", replaced('"seconds"', '"second"'), "line 1 is damaged: object missing required field `seconds`"),
    ("metrics.jsonl", lambda text: "[1]\n" + text, "line 1 is damaged: expected `object`, got `array`"),
    ("metrics.jsonl", replaced('"kind"', '"kin"'), "line 1 is damaged: it should have a kind"),
    ("metrics.jsonl", replaced('"norms": [', '"norms": [1, '), "norms, agreement are of 8, 9, 8 workers"),
    ("metrics.jsonl", replaced('"matrix": [[1.0, ', '"matrix": [['), "inhomogeneous shape"),
    ("metrics.jsonl", replaced('"matrix": [[', '"matrix": [], "x": [['), "its matrix is not square"),
    ("metrics.jsonl", replaced('"step": 1,', '"step": null,'), "expected `int`, got `null`, at step"),
    ("metrics.jsonl", replaced('"seconds": 0.01', '"seconds": 1e999'), "Number out of range, at seconds"),
    ("metrics.jsonl", lambda text: f'{{"x": {DEEP}\n{text}', "line 1 is damaged: it is nested too deeply"),
    ("summary.json", lambda text: text[:-20], "summary.json is damaged"),
    ("summary.json", replaced('"sentence"', '"word"'), "object missing required field `sentence`, at findings[0]"),
    ("summary.json", values(time_s="a"), "expected a number, got `str`, at time_s"),
    ("summary.json", values(staleness=[1, -2]), "expected `int` >= 0, at staleness[1]"),
    ("summary.json", values(step_times={"counts": [1]}), "missing required field `median_s`, at step_times"),
    ("summary.json", values(step_times={**STEP_TIMES, "first_bin": 320}), "step times have 360 bins, not 361"),
    ("summary.json", values(algorithm="\ud800"), "summary.json is damaged: JSON is malformed"),
]
DAMAGED_COMPARISONS = [
    (lambda text: '{"metric": "loss"}', "object missing required field `interrupted`"),
    (first_row(samples_per_s=None), "object missing required field `samples_per_s`, at cases[0].rows[0]"),
    (replaced('"quality": {', '"quality": null, "x": {'), "expected `object`, got `null`"),
    (first_row(fresh_fraction=0.5), "got `float`, at cases[0].rows[0].fresh_fraction"),
    (replaced('"time_s": [', '"time_s": [1, '), "its columns are of different lengths, at cases[0].rows[0].curve"),
    (first_row(folders=["\0"]), "at cases[0].rows[0].folders[0]"),
    (first_row(algorithm="another"), "its table is not of the algorithms of its rows, at cases[0]"),
    (replaced('"columns": [', '"columns": ["x", '), "its rows are not as long as its columns are many"),
    (replaced('"rows": [', '"rows": [], "x": ['), "cases[0]"),
    (replaced('"seeds": 1', '"seeds": "x"'), "expected `int`, got `str`, at how.seeds"),
]


class Page(html.parser.HTMLParser):
    """What a page says and shows; fails on tags that are not closed in order and on an id that is there twice."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.pictures: list[str] = []
        self.panels: list[str] = []
        self.marks: list[list[dict[str, str | None]]] = []  # of each picture, those that tell their series
        self.legends: list[list[str]] = []  # of each picture, the series with an entry
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href", "srcset", "data")]
        self.ids += [given["id"] or ""] if "id" in given else []
        if given.get("role") == "img":
            assert given["aria-label"]
            (self.pictures if given["class"] == "plot" else self.panels).append(given["aria-label"])
        if given.get("class") == "plot":
            self.marks.append([])
            self.legends.append([])
        if given.get("class") == "series":
            self.marks[-1].append(given)
        if tag == "li" and "data-series" in given:
            self.legends[-1].append(given["data-series"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script", "svg"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def place_of(self, picture: str) -> int:
        """The place of the first picture that is told so."""
        return next(place for place, alt in enumerate(self.pictures) if picture in alt)

    def legend_of(self, picture: str) -> list[str]:
        return self.legends[self.place_of(picture)]

    def series_of(self, picture: str) -> dict[str, dict[str, str | None]]:
        """The marks of a picture by the names of their series; of several the last."""
        return {mark["data-series"] or "": mark for mark in self.marks[self.place_of(picture)]}


def page_of(folder: Path) -> Page:
    """The page in a folder, after a look at whether it is self-contained."""
    text = (folder / "report.html").read_text()
    page = Page(text)
    for address in page.addresses:  # of what is defined on the page, or of pixels in it
        assert address.removeprefix("#") in page.ids or re.match("data:image/png;base64,[A-Za-z0-9+/=\\s]+$", address)
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(page.ids)
    assert text.count("url(") == text.count("url(#")
    assert "http:" not in text.replace("&lt;script src=http://elsewhere&gt;", "")
    assert "https:" not in text
    assert "@import" not in text
    assert text.count("<script") == 1
    assert 'name="viewport"' in text
    return page
