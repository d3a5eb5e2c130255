"""One worker of `python -m flockstep.bench elastic`: trains a small network, and notes in a file what happens and when.

Started by the launcher, and started again after it was killed. All clocks of one machine agree (time.monotonic).
"""

import gzip
import json
import os
import struct
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flockstep

_INPUTS, _CLASSES, _SAMPLES, _TESTED = 32, 10, 20_000, 4_000
_BATCH = 16


def _made() -> tuple[Tensor, Tensor]:
    """Points that another network has put into classes."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(_SAMPLES + _TESTED, _INPUTS, generator=generator)
    first, second = (torch.randn(a, b, generator=generator) for a, b in ((_INPUTS, 64), (64, _CLASSES)))
    return points, (torch.relu(points @ first) @ second).argmax(1)


def _read(path: Path) -> Tensor:
    with gzip.open(path) as file:
        (magic,) = struct.unpack(">I", file.read(4))
        shape = struct.unpack(f">{magic & 255}I", file.read(4 * (magic & 255)))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def _images(folder: Path) -> tuple[Tensor, Tensor, int]:
    """Those to train with, then those to test with; and how many the former are."""
    pixels = [_read(folder / f"{part}-images-idx3-ubyte.gz").float() for part in ("train", "t10k")]
    labels = [_read(folder / f"{part}-labels-idx1-ubyte.gz").long() for part in ("train", "t10k")]
    return torch.cat(pixels).flatten(1).div_(255).sub_(0.3).div_(0.35), torch.cat(labels), len(labels[0])


class _Notes:
    def __init__(self, folder: Path, rank: int) -> None:
        self._file = open(folder / f"worker-{rank}.jsonl", "a", buffering=1)  # noqa: SIM115 (open to the end)

    def add(self, what: str, **more: object) -> None:
        self._file.write(json.dumps({"at": time.monotonic(), "what": what, **more}) + "\n")


def main(folder: str, steps: str, step_ms: str, every: str, seed: str, data: str) -> None:
    torch.set_num_threads(1)
    notes = _Notes(Path(folder), int(os.environ["FLOCKSTEP_RANK"]))
    if data:
        points, labels, trained = _images(Path(data))
    else:
        (points, labels), trained = _made(), _SAMPLES
    torch.manual_seed(int(seed))
    model = nn.Sequential(nn.Linear(points.shape[1], 64), nn.ReLU(), nn.Linear(64, _CLASSES))
    inner = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    notes.add("connects")
    optimizer = flockstep.Flock(inner, model, elastic=True)
    notes.add("joined", incarnation=optimizer.incarnation, step=optimizer.steps)
    while optimizer.steps < int(steps):
        if optimizer.steps > 0 and optimizer.steps % int(every) == 0:
            notes.add("consolidates", step=optimizer.steps)
            optimizer.consolidate()
        drawn = torch.Generator().manual_seed(
            hash((int(seed), optimizer.rank, optimizer.incarnation, optimizer.steps)) % 2**63
        )
        chosen = torch.randint(trained, (_BATCH,), generator=drawn)
        began = time.monotonic()
        optimizer.zero_grad()
        cross_entropy(model(points[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
        time.sleep(int(step_ms) / 1e3)
        optimizer.step()
        notes.add("step", step=optimizer.steps, seconds=time.monotonic() - began)
    notes.add("consolidates", step=optimizer.steps)
    optimizer.consolidate()
    with torch.no_grad():
        quality = (model(points[trained:]).argmax(1) == labels[trained:]).float().mean().item()
    notes.add("done", step=optimizer.steps, quality=quality)
    optimizer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
