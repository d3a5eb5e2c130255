"""`flockstep bench` or `python -m flockstep.bench`: measures a target of docs/benchmarks.md on this machine."""

import argparse
import sys
from collections.abc import Sequence

import torch

from flockstep._command import cpp_command
from flockstep.bench import adacons, averager, ddp, elastic, exchange, fsdp, lab, transport
from flockstep.bench.contenders import CONTENDERS, RULES
from flockstep.bench.launch import start_torchrun, under_torchrun
from flockstep.bench.networks import WORKLOADS


class _Count:
    """A whole number, at least so large."""

    def __init__(self, least: int) -> None:
        self._least = least

    def __call__(self, text: str) -> int:
        if not text.isdigit() or int(text) < self._least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {self._least}")
        return int(text)


class _Names:
    """A list such as gpt,resnet50 out of those known."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(self._known)}")
        return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flockstep bench",
        description="Measures a target of docs/benchmarks.md on this machine: under torchrun, or as workers that it starts.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--workers", type=_Count(2), default=4, help="P, where torchrun has not started them [4]")
    common.add_argument("--rounds", type=_Count(1), help="timed rounds [15, on cuda 10 or 7]")
    common.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: ranks may share a GPU [cpu]")
    common.add_argument("--limit", type=_Count(1), default=180, metavar="SECONDS", help="of one row [180]")
    common.add_argument("--json", action="store_true", help="one object per figure: id, figure, bar, at_most, holds")
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    a3 = names.add_parser("adacons", parents=[common], help="aggregation alone against an all-reduce (A3, G1, G2)")
    a3.add_argument("--floats", type=_Count(1), default=25_600_000, help="length of the gradient [25600000]")
    on_cuda = a3.add_argument_group(
        "with --device cuda", "each contender runs in processes of its own, which take turns"
    )
    known, settings = list(exchange.CONTENDERS), list(exchange.SETTINGS)
    on_cuda.add_argument("--contenders", type=_Names(known), default=known, help=f"[{','.join(known)}]")
    on_cuda.add_argument(
        "--settings", type=_Names(settings), default=settings, help=f"of NCCL's sockets [{','.join(settings)}]"
    )
    on_cuda.add_argument("--repeats", type=_Count(1), default=2, help="processes of each, one after the other [2]")
    on_cuda.add_argument("--bucket-mb", type=_Count(1), default=25, help="bucket_cap_mb of DDP [25]")
    a4 = names.add_parser("ddp", parents=[common], help="whole steps of DDP training (A4, A4s, A4g, G3 to G5)")
    a4.add_argument("--model", type=_Names(list(WORKLOADS)), help="[resnet50,gpt, on cuda resnet50,gpt124m]")
    a4.add_argument("--hooks", type=_Names(CONTENDERS), help=f"[{','.join(CONTENDERS)}, on cuda adacons]")
    a4.add_argument(
        "--transfer",
        choices=["exact", "sketch"],
        default="exact",
        help="of Flockstep's rules (sketch: A4s, A4g) [exact]",
    )
    a10 = names.add_parser("fsdp", parents=[common], help="whole steps of FSDP2 training (A10)")
    a10.add_argument("--model", choices=list(WORKLOADS), help="[gpt, on cuda gpt124m]")
    a10.add_argument("--rules", type=_Names(RULES), default=list(RULES), help=f"[{','.join(RULES)}]")
    g6 = names.add_parser("averager", parents=[common], help="steps with Flock, and late workers (G6 to G8)")
    g6.add_argument("--model", choices=list(WORKLOADS), default="resnet50", help="[resnet50]")
    g6.add_argument("--steps", type=_Count(2), default=20, help="in a block, one of which is late [20]")
    g6.add_argument("--late", type=_Count(1), default=300, metavar="MS", help="how late the last rank is then [300]")
    g9 = names.add_parser("lab", help="the laboratory's workers that share a GPU against plain torch alone there (G9)")
    g9.add_argument("--command", metavar="PATH", help="the C++ command [that on the PATH]")
    g9.add_argument("--data", metavar="DIR", help="the files of Fashion-MNIST [what the command has built in]")
    g9.add_argument("--device", choices=["cpu", "cuda"], default="cuda", help="cpu: to try the benchmark itself [cuda]")
    g9.add_argument("--algorithm", default="flock", help="as `flockstep compare` takes it, with options [flock]")
    g9.add_argument("--size", default="paper", help="of the task, for the command alone [paper]")
    g9.add_argument("--workers", type=_Count(1), default=8, help="P [8]")
    g9.add_argument("--batch", type=_Count(2), default=32, help="of one worker [32]")
    g9.add_argument("--steps", type=_Count(4), default=200, help="of a worker, and of plain torch [200]")
    g9.add_argument("--rounds", type=_Count(1), default=3, help="of both in turns [3]")
    g9.add_argument("--json", action="store_true", help="one object per figure: id, figure, bar, at_most, holds")
    f6 = names.add_parser("transport", parents=[common], help="a step of Flock over mesh against one over Gloo (F6)")
    f6.add_argument("--floats", type=_Count(1), default=25_600_000, help="length of the model [25600000]")
    f1 = names.add_parser("elastic", help="workers that are killed and come back, under the launcher (F1 to F4)")
    f1.add_argument("--kills", type=_Count(1), default=100, help="for F1 to F3, in several runs [100]")
    f1.add_argument("--kills-a-run", type=_Count(1), default=20, help="[20]")
    f1.add_argument("--first-seed", type=_Count(1), default=1, help="of the runs for F1 to F3 [1]")
    f1.add_argument("--seeds", type=_Count(0), default=3, help="for F4, each with and without kills; 0: no F4 [3]")
    f1.add_argument("--steps", type=_Count(2), default=4000, help="of each run for F4 [4000]")
    f1.add_argument("--data", default="", metavar="DIR", help="for F4: the files of Fashion-MNIST [made points]")
    f1.add_argument("--json", action="store_true", help="one object per figure: id, figure, bar, at_most, holds")
    f1.set_defaults(device="cpu")
    return parser


def _run_lab(chosen: argparse.Namespace) -> int:
    case = lab.Case(
        command=chosen.command or str(cpp_command() or "flockstep"),
        device=chosen.device,
        algorithm=chosen.algorithm,
        workers=chosen.workers,
        batch=chosen.batch,
        steps=chosen.steps,
        size=chosen.size,
        data=chosen.data,
    )
    return lab.run(case, chosen.rounds, chosen.json)


def _run_adacons(chosen: argparse.Namespace) -> int:
    if chosen.device == "cpu":
        return adacons.run(chosen.floats, chosen.rounds or 15, chosen.json)
    return exchange.run(
        chosen.floats,
        chosen.rounds or 10,
        chosen.json,
        contenders=chosen.contenders,
        settings=chosen.settings,
        repeats=chosen.repeats,
        bucket_mb=chosen.bucket_mb,
        limit_s=chosen.limit,
    )


def _run_ddp(chosen: argparse.Namespace) -> int:
    is_on_gpu = chosen.device == "cuda"
    models = chosen.model or ["resnet50", "gpt124m" if is_on_gpu else "gpt"]
    hooks = chosen.hooks or (["adacons"] if is_on_gpu else CONTENDERS)
    rounds = chosen.rounds or (7 if is_on_gpu else 15)
    return ddp.run(models, hooks, rounds, chosen.limit, chosen.json, chosen.transfer, chosen.device)


def _run_fsdp(chosen: argparse.Namespace) -> int:
    is_on_gpu = chosen.device == "cuda"
    model = chosen.model or ("gpt124m" if is_on_gpu else "gpt")
    rounds = chosen.rounds or (7 if is_on_gpu else 15)
    return fsdp.run(model, chosen.rules, rounds, chosen.limit, chosen.json, chosen.device)


def _run_averager(chosen: argparse.Namespace) -> int:
    rounds = chosen.rounds or (7 if chosen.device == "cuda" else 15)
    return averager.run(
        chosen.model, rounds, chosen.steps, chosen.late, chosen.limit, chosen.json, device=chosen.device
    )


def _run_transport(chosen: argparse.Namespace) -> int:
    return transport.run(chosen.floats, chosen.rounds or 15, chosen.json)


_RUN = {
    "adacons": _run_adacons,
    "ddp": _run_ddp,
    "fsdp": _run_fsdp,
    "averager": _run_averager,
    "transport": _run_transport,
}


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print(
            "--device cuda needs an NVIDIA GPU that torch can use, and there is none: take --device cpu",
            file=sys.stderr,
        )
        return 2
    if chosen.name == "lab":
        return _run_lab(chosen)
    if chosen.name == "elastic":
        return elastic.run(
            chosen.kills,
            chosen.kills_a_run,
            chosen.first_seed,
            chosen.seeds,
            chosen.steps,
            chosen.data,
            chosen.json,
        )
    if not under_torchrun():
        return start_torchrun(chosen.workers, arguments)
    return _RUN[chosen.name](chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
