"""A run's folder as training writes it, made up: worker 2 points against the others, and guards have fired."""

import json
import math
import random
from pathlib import Path
from typing import Any


def cosine(i: int, j: int, against: int) -> float:
    if i == j:
        return 1.0
    return (-0.4 if against in (i, j) else 0.5) + 0.05 * math.sin(3 * i + 3 * j)


def write_sample_run(folder: Path, workers: int = 8, steps: int = 100, against: int = 2) -> dict[str, Any]:
    """Returns the summary that it has written."""
    draw = random.Random(7)
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = []
    guards = {"skipped_steps": 0, "non_finite": 1, "all_zero": 0, "unsafe": 2}
    finding = {
        "finding": "against",
        "workers": [against],
        "first_step": 10,
        "last_step": steps,
        "evidence": -0.41,
        "sentence": f"worker {against} points against the others (mean cosine -0.41)",
    }
    for step in range(1, steps + 1):
        agreement = [draw.gauss(-0.41 if i == against else 0.4, 0.05) for i in range(workers)]
        positive = [max(value, 0) for value in agreement]
        line: dict[str, Any] = {
            "kind": "step",
            "step": step,
            "loss": 500 * math.exp(-step / 12) * draw.uniform(0.8, 1.2),
            "seconds": 0.01,
            "wait_s": draw.uniform(0.002, 0.004),
            "transfer_s": 0.001,
            "coefficients": [value / sum(positive) for value in positive],
            "norms": [
                (40 if i == against else 5) * math.exp(-step / 60) * draw.uniform(0.9, 1.1) for i in range(workers)
            ],
            "agreement": agreement,
        }
        if step == 31:
            line.update(event="non_finite", coefficients=[None] * workers, norms=None, agreement=None)
        if step in (50, 51):
            line["event"] = "unsafe"
        lines.append(line)
        if step % 25 == 0:
            matrix = [[cosine(i, j, against) for j in range(workers)] for i in range(workers)]
            lines.append({"kind": "cosines", "step": step, "steps": 25, "matrix": matrix})
        if step % 10 == 0:
            evaluation = {"kind": "evaluation", "step": step, "time_s": 0.01 * step, "metric": "loss"}
            figures = {"samples_per_s": 1600.0, "wait_share": 0.3, "bytes_sent_per_step": 7000.0}
            lines.append({**evaluation, "quality": 500 * math.exp(-step / 12), **figures, "guards": guards})
    lines.append({"kind": "finding", "step": steps, **finding})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        **{"task": "linear", "algorithm": "adacons", "workers": workers, "engine": "threads", "seed": 1, "batch": 128},
        **{"task_settings": {}, "algorithm_settings": {"beta": "0.9"}, "steps": steps, "requested_steps": steps},
        **{"interrupted": False, "metric": "loss", "lower_is_better": True, "quality": 500 * math.exp(-steps / 12)},
        **{"train_loss": 0.2, "time_s": 1.0, "samples_per_s": 1600.0, "wait_share": 0.3, "bytes_sent_per_step": 7000.0},
        **{"guards": guards, "model_hash": "0123456789abcdef", "replicas_equal": True, "findings": [finding]},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return summary
