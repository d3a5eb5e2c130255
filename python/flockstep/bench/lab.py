"""G9: samples per second of the laboratory's `vision` on a GPU that its workers share, over those of plain torch alone there.

Plain torch is one process with one worker's batch: the same network, loss and optimizer, batches that are made beforehand, and
no loss that is read. What `flockstep compare` takes before the first of its evaluations counts for neither: it loads kernels.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flockstep.bench.harness import Spread, Target, print_targets
from flockstep.bench.networks import resnet50

_CLASSES, _SIDE = 10, 28  # of Fashion-MNIST
_BATCHES = 64  # that plain torch takes turns with
_WARM_UP = 20
_PARTS = 4  # of a run of the command: the first is left out


@dataclass(frozen=True)
class Case:
    """What is trained, and by which command."""

    command: str
    device: str
    algorithm: str
    workers: int
    batch: int  # of one worker
    steps: int
    size: str = "paper"
    data: str | None = None


def _network() -> nn.Module:
    """As `vision --size paper`: ResNet-50 for images of one colour and ten classes."""
    network = resnet50()
    assert isinstance(network, nn.Sequential)
    network[0] = nn.Conv2d(1, 64, 7, 2, padding=3, bias=False)
    last = network[-1]
    assert isinstance(last, nn.Linear)
    network[-1] = nn.Linear(last.in_features, _CLASSES)
    return network


def _optimizer(network: nn.Module) -> torch.optim.Optimizer:
    weights = [each for each in network.parameters() if each.dim() > 1]
    others = [each for each in network.parameters() if each.dim() <= 1]
    groups = [{"params": weights, "weight_decay": 1e-4}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Plain:
    """A training of plain torch that goes on with every call."""

    def __init__(self, case: Case) -> None:
        self._device = torch.device(case.device)
        self._batch = case.batch
        self._network = _network().to(self._device)
        self._optimizer = _optimizer(self._network)
        generator = torch.Generator().manual_seed(1)
        self._batches = [self._made(generator) for _ in range(_BATCHES)]
        self._loss = nn.CrossEntropyLoss(label_smoothing=0.1)

    def _made(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        images = torch.randn(self._batch, 1, _SIDE, _SIDE, generator=generator)
        labels = torch.randint(_CLASSES, (self._batch,), generator=generator)
        return (images.pin_memory(), labels.pin_memory()) if self._device.type == "cuda" else (images, labels)

    def _take_steps(self, steps: int) -> None:
        for step in range(steps):
            images, labels = (each.to(self._device, non_blocking=True) for each in self._batches[step % _BATCHES])
            self._optimizer.zero_grad()
            self._loss(self._network(images), labels).backward()
            self._optimizer.step()

    def samples_per_s(self, steps: int) -> float:
        self._take_steps(min(_WARM_UP, steps))
        _wait_for(self._device)
        began = time.perf_counter()
        self._take_steps(steps)
        _wait_for(self._device)
        return steps * self._batch / (time.perf_counter() - began)


def samples_per_s(case: Case) -> float:
    """Of `flockstep compare`, by the times of its evaluations, which themselves do not count."""
    every = max(1, case.steps // _PARTS)
    command = [
        case.command,
        "compare",
        "--task",
        "vision",
        "--size",
        case.size,
        "--device",
        case.device,
        "--engine",
        "threads",
    ]
    command += [
        "--workers",
        str(case.workers),
        "--batch",
        str(case.workers * case.batch),
        "--algorithms",
        case.algorithm,
    ]
    command += ["--steps", str(_PARTS * every), "--evaluate-every", str(every), "--json"]
    command += ["--data", case.data] if case.data else []
    try:
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{case.command} could not be run to its end ({error}): let --command name the laboratory's command")
    curve = json.loads(output)["cases"][0]["rows"][0]["curve"]
    steps, times = curve["steps"], curve["time_s"]
    return float((steps[-1] - steps[1]) * case.workers * case.batch / (times[-1] - times[1]))


def run(case: Case, rounds: int, as_json: bool) -> int:
    torch.set_num_threads(1)
    figures = {"plain torch": [], f"{case.algorithm}, {case.workers} workers": []}  # type: dict[str, list[float]]
    for each in range(rounds):
        plain = Plain(case).samples_per_s(case.steps)
        if case.device != "cpu":
            torch.cuda.empty_cache()  # the workers need room
        ours = samples_per_s(case)
        for values, value in zip(figures.values(), (plain, ours), strict=True):
            values.append(value)
        print(f"round {each + 1}: plain torch {plain:.0f}, flockstep {ours:.0f} samples/s", file=sys.stderr, flush=True)
    plain_all, our_all = (torch.tensor(values) for values in figures.values())
    if not as_json:
        for name, values in figures.items():
            spread = Spread.of(torch.tensor(values))
            print(f"{name}: {spread.median:.0f} ({spread.lower:.0f} to {spread.upper:.0f}) samples/s")
    measure = (
        f"samples/s of {case.algorithm}, {case.workers} workers on {case.device} / plain torch, batch {case.batch}"
    )
    target = Target("G9", measure, Spread.of(our_all / plain_all), 0.85, at_most=False)
    print_targets([target], as_json)
    return 0
