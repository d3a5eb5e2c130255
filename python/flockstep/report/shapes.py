"""What the JSON files have to look like. A shape looks at a value and raises Misshapen, which says where it is wrong.

Nothing is converted here. Keys that no shape names are let pass: a newer command may write more.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

LARGEST_COUNT = 2**63 - 1  # what the command's integers can hold
STEP_TIME_BINS = 360  # src/train/step_times.h

Shape = Callable[[Any, str], None]


class Misshapen(ValueError):
    def __init__(self, where: str, trouble: str) -> None:
        super().__init__(f"{where or 'it'} {trouble}")


def _expect(holds: bool, where: str, what: str, value: Any) -> None:
    if not holds:
        raise Misshapen(where, f"should be {what}, not {reprlib.repr(value)}")


def amount(value: Any, where: str) -> None:
    holds = isinstance(value, int | float) and not isinstance(value, bool)
    if holds and isinstance(value, int):  # a float of JSON is at worst infinite; a whole number may be longer than any
        holds = abs(value) <= LARGEST_COUNT
    _expect(holds, where, "a number", value)


def figure(value: Any, where: str) -> None:
    """A number, or the null that stands for one that is not finite."""
    if value is not None:
        amount(value, where)


def count(value: Any, where: str) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT
    _expect(whole, where, "a whole number from 0 on", value)


def text(value: Any, where: str) -> None:
    # JSON can write halves of characters, which no page can hold.
    _expect(isinstance(value, str) and value.encode(errors="replace").decode() == value, where, "a text", value)


def truth(value: Any, where: str) -> None:
    _expect(isinstance(value, bool), where, "true or false", value)


def or_null(shape: Shape) -> Shape:
    def check(value: Any, where: str) -> None:
        if value is not None:
            shape(value, where)

    return check


def scalar(value: Any, where: str) -> None:
    if isinstance(value, str):
        text(value, where)
    else:
        _expect(isinstance(value, int | float), where, "a text or a number", value)


def list_of(shape: Shape, at_least: int = 0) -> Shape:
    def check(value: Any, where: str) -> None:
        _expect(isinstance(value, list), where, "a list", value)
        if len(value) < at_least:
            raise Misshapen(where, "is empty")
        for index, each in enumerate(value):
            shape(each, f"{where}[{index}]")

    return check


def map_of(shape: Shape) -> Shape:
    """Any names, and the same shape behind each."""

    def check(value: Any, where: str) -> None:
        _expect(isinstance(value, dict), where, "an object", value)
        for name, each in value.items():
            text(name, where)
            shape(each, f"{where}.{name}".lstrip("."))

    return check


def object_of(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    def check(value: Any, where: str) -> None:
        _expect(isinstance(value, dict), where, "an object", value)
        for name, shape in required.items():
            if name not in value:
                raise Misshapen(where, f"lacks {name!r}")
            shape(value[name], f"{where}.{name}".lstrip("."))
        for name, shape in (optional or {}).items():
            if name in value:
                shape(value[name], f"{where}.{name}".lstrip("."))

    return check


FINDING = object_of(
    {"finding": text, "workers": list_of(count), "first_step": count, "last_step": count, "sentence": text},
    {"evidence": figure},
)
PACE = object_of(
    {},
    {
        "compute_s": amount,
        "random_stragglers": count,
        "random_delay_s": amount,
        "fixed_stragglers": list_of(object_of({"worker": count, "delay_s": amount})),
        "jitter_sigma": amount,
        "compute_file": object_of({"path": text}),
    },
)

# How models met; null where they meet in lockstep.
MEETING_FIGURES = ("fresh_fraction", "alone_share", "mean_staleness", "mean_round_s")
STALENESS = or_null(list_of(count))

_STEP_TIMES = object_of(
    {
        **dict.fromkeys(("median_s", "p90_s", "p99_s", "longest_s"), figure),
        "first_bin": count,
        "counts": list_of(count),
    }
)


def step_times(value: Any, where: str) -> None:
    _STEP_TIMES(value, where)
    end = value["first_bin"] + len(value["counts"])
    _expect(end <= STEP_TIME_BINS, f"{where}.counts", f"of bins up to {STEP_TIME_BINS}", end)


SUMMARY = object_of(
    {
        **dict.fromkeys(("task", "algorithm", "engine"), text),
        **dict.fromkeys(("workers", "steps"), count),
    },
    {
        # A training that is not the command's own need not tell these.
        **{"metric": text, "quality": figure, "seed": count},
        **dict.fromkeys(("train_loss", "time_s", "samples_per_s", "wait_share", "bytes_sent_per_step"), figure),
        "share_of_ideal": or_null(figure),
        **dict.fromkeys(("batch", "requested_steps"), count),
        **dict.fromkeys(("interrupted", "replicas_equal"), truth),
        **dict.fromkeys(("task_settings", "algorithm_settings"), map_of(scalar)),
        **dict.fromkeys(MEETING_FIGURES, figure),
        "staleness": STALENESS,
        "step_times": step_times,
        "figures": map_of(figure),
        "model_hash": text,
        "guards": map_of(count),
        "pace": PACE,
        "findings": list_of(FINDING),
        "notes": list_of(text),
    },
)

# The lines of metrics.jsonl by their kinds. What a step holds per worker is looked at when it becomes an array.
LINES = {
    "step": object_of(
        {"step": count, **dict.fromkeys(("loss", "seconds", "wait_s", "transfer_s"), figure)}, {"event": text}
    ),
    "evaluation": object_of(
        {"step": count, "time_s": figure, "quality": figure, "metric": text},
        {"guards": map_of(count), "wait_share": figure, "fresh_fraction": figure},
    ),
    "cosines": object_of({"step": count, "steps": count, "matrix": list_of(list_of(figure))}),
    "finding": FINDING,
}

SPREAD = object_of(dict.fromkeys(("mean", "deviation", "median", "min", "max"), figure))
CURVE = object_of(
    {
        "steps": list_of(count),
        "time_s": list_of(figure),
        "quality": object_of(dict.fromkeys(("mean", "min", "max"), list_of(figure))),
    }
)
ROW = object_of(
    {
        **dict.fromkeys(("samples_per_s", "wait_share", "time_s"), SPREAD),
        "runs": count,
        "algorithm": text,
        "bytes_sent_per_step": figure,
        "folders": list_of(text),
        "tried": list_of(object_of({"value": scalar, "quality": SPREAD})),
    },
    {
        **dict.fromkeys(MEETING_FIGURES, or_null(SPREAD)),
        **dict.fromkeys(("target_time_s", "validation", "share_of_ideal"), or_null(SPREAD)),
        "target_reached": or_null(count),
        "staleness": STALENESS,
        "searched": object_of({"name": text, "value": scalar, "edge": truth}, {"by": text, "seeds": count}),
        "curve": CURVE,
    },
)
CASE = object_of(
    {"workers": count, "batch": count, "statistic": text, "verdict": text, "rows": list_of(ROW, 1)}, {"target": figure}
)
HOW = object_of(
    {"engine": text, "task": text},
    {"seeds": count, "first_seed": count, "task_settings": map_of(scalar), "pace": PACE},
)
# What a comparison whose runs have gradients tells as well: first of itself, then of its rows.
METRIC = object_of({"metric": text, "lower_is_better": truth})
QUALITY = object_of({"cases": list_of(object_of({"rows": list_of(object_of({"quality": SPREAD, "diverged": count}))}))})
COMPARISON = object_of(
    {"interrupted": truth, "how": HOW, "cases": list_of(CASE)}, {"metric": text, "lower_is_better": truth}
)

STUDY = object_of(
    {
        **dict.fromkeys(("study", "description"), text),
        "words": list_of(text),
        "tables": list_of(
            object_of(
                {
                    **dict.fromkeys(("name", "title"), text),
                    "columns": list_of(text, 1),
                    "rows": list_of(list_of(text, 1)),
                    "picture": object_of(
                        {
                            **dict.fromkeys(("title", "x_title", "y_title"), text),
                            **dict.fromkeys(("log_x", "log_y"), truth),
                            "series": list_of(
                                object_of(
                                    {"name": text, "mark": text, "x": list_of(figure), "y": list_of(figure)},
                                )
                            ),
                        },
                        {"x_names": list_of(text)},
                    ),
                }
            )
        ),
    }
)
