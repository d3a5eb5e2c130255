"""Averagers around models on CUDA devices, against the same training on the CPU.

torchrun --nproc-per-node 2 tests/cuda/averagers.py [--device cpu] [CASE ...]

Prints a line for each check, and ends with 1 if one fails: see common.py. The default group is of NCCL.
"""

import functools
import pickle
import sys
import time
import warnings

import common  # first: it tells Python where the tests are
import flockstep
import torch
import torch.distributed as dist
from common import BUSY_MS, DEVICE, MOST_MS, ON_GPU, RANK, WORKERS, check, cpu_group, is_same_everywhere
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CPU = torch.device("cpu")
NEAR = 2e-4  # convolutions add in another order than on the CPU
LR = 0.05

# In lockstep, so that a training repeats; what a guard has heard where agents tell it does not.
REPEATING = {
    "Flock": {"period": 1, "sync": "barrier", "guard": False},
    "Wagma": {"period": 1, "guard": False},
    "LocalSGD": {"period": 2},
    "PostLocalSGD": {"switch_after": 2, "period": 2},
    "DPSGD": {},
    "SGP": {},
    "DiLoCo": {"period": 2},
    "DiLoCo, in fragments": {"period": 4, "fragments": 2, "delay": 1},
}
# Who meets whom is up to the clock.
FREE = {
    "Flock": {},
    "Flock, in pairs": {"group_size": 2, "period": 4, "activation": "first"},
    "Flock, published": {"merge": "published"},
    "Flock, a quorum": {"activation": "quorum"},
    "Wagma": {},
    "Wagma, additive": {"merge": "additive", "sync": "rolling"},
    "ADPSGD": {},
    "Swarm": {"period": 2},
    "Flock, weighed": {"weights": "direction_consensus"},
    "DiLoCo, in bytes": {"period": 2, "wire": "int8"},
    "DiLoCo, nobody waits": {"period": 2, "wait": False},
}
OVERLAPPED = {
    "Flock, overlap": {"overlap": True},
    "Flock, overlap over all": {"overlap": True, "period": 1},
    "LocalSGD, overlap": {"overlap": True, "period": 2},
}


class Net(nn.Module):
    """Convolutions, running statistics and a counter; a layer that nobody trains, and 10 classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU()),
        )
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.last = nn.Linear(16, 10)

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(self.features(x).mean((2, 3)))))


def made(device=DEVICE, seed=0):
    torch.manual_seed(seed)
    return Net().to(device)


def batch(step, rank=None):
    generator = torch.Generator().manual_seed(100 * step + (RANK if rank is None else rank))
    x = torch.randn(16, 1, 8, 8, generator=generator)
    return x, (5 * x.mean((1, 2, 3)) + 5).long().clamp(0, 9)


def loss_of(model, step):
    x, y = batch(step)
    device = next(model.parameters()).device
    return nn.functional.cross_entropy(model(x.to(device)), y.to(device))


def train(model, optimizer, step):
    optimizer.zero_grad()
    loss_of(model, step).backward()
    optimizer.step()


def kind_of(name):
    return getattr(flockstep, name.split(",")[0])


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)


def averaged(name, device=DEVICE, seed=RANK, wrap=lambda model: model, **options):
    """A model that no other rank has, and what averages it."""
    model = wrap(made(device, seed))
    return model, kind_of(name)(sgd(model), model, **options)


def numbers(model):
    tensors = [*model.parameters(), *model.buffers()]
    return torch.cat([tensor.detach().double().cpu().flatten() for tensor in tensors])


def trained(name, options, device, steps=6):
    model, optimizer = averaged(name, device, **options)
    for step in range(steps):
        train(model, optimizer, step)
    optimizer.consolidate()
    train(model, optimizer, steps)
    optimizer.consolidate()
    result = numbers(model)
    optimizer.close()
    return result


def distance(one, other):
    return float((one - other).abs().max())


def is_equal_everywhere(model):
    return is_same_everywhere(numbers(model).to(DEVICE))


def as_on_the_cpu():
    for name, options in REPEATING.items():
        got, want = (trained(name, options, device) for device in (DEVICE, CPU))
        same = is_same_everywhere(got.to(DEVICE))
        check(f"{name} {options}", distance(got, want) < NEAR and same, f"distance {distance(got, want):.1e}")


def without_waiting(variants):
    for name, options in variants.items():
        if WORKERS == 1 and "quorum" in str(options):
            continue
        model, optimizer = averaged(name, **options)
        first = loss_of(model, 99).item()
        for step in range(20):
            train(model, optimizer, step)
        optimizer.consolidate()
        same = is_equal_everywhere(model)
        last = loss_of(model, 99).item()  # which moves running statistics
        holds = same and last < first and model.last.weight.device == DEVICE
        optimizer.close()
        check(f"{name} {options}", holds, f"loss {first:.2f} to {last:.2f}")


def guarded():
    """The last rank goes wrong after three steps: it takes -50 times its steps, or those of NaN."""
    for name in ("Flock", "Wagma", "LocalSGD", "DPSGD", "ADPSGD") if WORKERS >= 4 else ():
        for fault in (-50.0, float("nan")):
            model, optimizer = averaged(name)
            first = loss_of(model, 99).item()
            for step in range(20):
                optimizer.zero_grad()
                loss = loss_of(model, step)
                (loss * fault if step >= 3 and RANK == WORKERS - 1 else loss).backward()
                optimizer.step()
            optimizer.consolidate()
            last = loss_of(model, 99).item()
            optimizer.close()
            check(f"{name}, a rank at {fault} g", last < first, f"loss {first:.2f} to {last:.2f}")


def scaled():
    """In step 1 the gradient of the last rank overflows: it takes no step of its own, and backs off alone."""
    for name in ("Flock", "DPSGD", "PostLocalSGD"):
        model, optimizer = averaged(name)
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=1024.0)
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast(DEVICE.type, torch.float16 if ON_GPU else torch.bfloat16):
                loss = loss_of(model, step)
            if step == 1 and RANK == WORKERS - 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if step == 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        optimizer.consolidate()
        finite = bool(torch.isfinite(numbers(model)).all())
        scale = scaler.get_scale()
        # Before the local phase of PostLocalSGD everybody has the last rank's overflow, but no scaler sees it.
        right = scale == (512.0 if RANK == WORKERS - 1 else 1024.0)
        holds = finite and right and is_equal_everywhere(model)
        optimizer.close()
        check(f"GradScaler with {name}", holds, f"finite {finite}, scale {scale}")


def paused():
    for name in ("Flock", "ADPSGD", "DPSGD"):
        model, optimizer = averaged(name)
        train(model, optimizer, 0)
        optimizer.pause()
        time.sleep(0.05 * RANK)
        optimizer.resume()
        train(model, optimizer, 1)
        if RANK == 0 and name != "DPSGD":
            optimizer.pause()
        else:
            for step in range(2, 8):
                train(model, optimizer, step)
        if name == "DPSGD":
            dist.barrier()
        optimizer.consolidate()
        same = is_equal_everywhere(model)
        optimizer.close()
        check(f"pause() and resume() of {name}", same)


def joined():
    for name in ("Flock", "Swarm", "LocalSGD", "PostLocalSGD", "SGP"):
        model, optimizer = averaged(name)
        with optimizer.join():
            for step in range(4 + 3 * RANK):
                train(model, optimizer, step)
        optimizer.consolidate()
        same = is_equal_everywhere(model)
        optimizer.close()
        check(f"join() of {name} with uneven batches", same)


def in_ddp():
    """Which does not synchronise, but for the first steps of PostLocalSGD; and does again in the end."""

    def wrap(module):
        return DistributedDataParallel(module, device_ids=[DEVICE.index] if ON_GPU else None)

    for name in ("Flock", "PostLocalSGD"):
        options = {"switch_after": 2} if name == "PostLocalSGD" else {}
        model, optimizer = averaged(name, wrap=wrap, **options)
        for step in range(5):
            train(model, optimizer, step)
        optimizer.zero_grad()
        loss_of(model, 5).backward()
        apart = not is_same_everywhere(model.module.last.bias.grad)
        optimizer.consolidate()
        same = is_equal_everywhere(model)
        with optimizer.join():
            for step in range(6, 8 + RANK):
                train(model, optimizer, step)
        optimizer.consolidate()
        optimizer.close()
        check(f"{name} around DDP", same and (apart or WORKERS == 1), f"gradients apart {apart}")


def resumed():
    """Three steps and three more in another life, as six in one; and a plain optimizer takes the state."""
    for name in ("DPSGD", "LocalSGD", "PostLocalSGD"):
        options = REPEATING[name]
        through, whole = averaged(name, **options)
        for step in range(6):
            train(through, whole, step)
        whole.close()
        model, optimizer = averaged(name, **options)
        for step in range(3):
            train(model, optimizer, step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # models are not consolidated
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        saved = {key: pickle.loads(pickle.dumps(value)) for key, value in saved.items()}
        optimizer.close()
        again, other = averaged(name, seed=7 + RANK, **options)
        again.load_state_dict(saved["model"])
        other.load_state_dict(saved["optimizer"])
        for step in range(3, 6):
            train(again, other, step)
        worst = distance(numbers(again), numbers(through))
        other.close()
        sgd(again).load_state_dict(saved["optimizer"])
        momentum = next(iter(other.state.values()))["momentum_buffer"]
        check(f"state_dict() of {name}", worst < NEAR and momentum.device == DEVICE, f"distance {worst:.1e}")


def pickled():
    model, optimizer = averaged("LocalSGD", period=2)
    train(model, optimizer, 0)
    model_again, again = pickle.loads(pickle.dumps((model, optimizer)))
    optimizer.close()
    train(model_again, again, 1)
    again.consolidate()
    holds = is_equal_everywhere(model_again) and model_again.last.weight.device == DEVICE
    again.close()
    check("a pickled LocalSGD goes on", holds)


def closed():
    model, optimizer = averaged("Flock")
    train(model, optimizer, 0)
    optimizer.consolidate()
    before = numbers(model)
    optimizer.close()
    weight = model.last.weight
    own = weight.untyped_storage().nbytes() == weight.nbytes
    check("close() gives tensors their own memory", own and torch.equal(before, numbers(model)))


def refused():
    sentences = []
    model = made()
    model.last.to("cpu" if ON_GPU else "meta")
    try:
        flockstep.Flock(sgd(model), model)
    except flockstep.BadInputError as error:
        sentences.append(str(error))
    check("a model on two devices is refused", "keep the module on one device" in "".join(sentences), sentences)
    if not ON_GPU:
        return
    model = made()
    optimizer = flockstep.DPSGD(torch.optim.SGD(model.parameters(), lr=LR), model)
    train(model, optimizer, 0)
    dist.barrier()
    model.cpu()
    sentence = ""
    try:
        train(model, optimizer, 1)
    except flockstep.BadInputError as error:
        sentence = str(error)
    optimizer.close()
    check("a model that was moved is refused", "when training began: make another DPSGD" in sentence, sentence)


def out_of_memory():
    """A model that fits once and not twice, as it has to for a moment."""
    if not ON_GPU or WORKERS > 1:
        return
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    model = nn.Linear(1 << 20, int(0.6 * free) >> 22, bias=False, device=DEVICE)
    sentence = ""
    try:
        flockstep.Flock(torch.optim.SGD(model.parameters()), model)
    except flockstep.UnavailableError as error:
        sentence = str(error)
    del model
    torch.cuda.empty_cache()
    check("device memory too small", "there is no memory for" in sentence and "\n" not in sentence, sentence)


def host_never_waits():
    """With the stream busy, step() returns at once where overlap is on and the round of the step before has ended."""
    if not ON_GPU or WORKERS == 1:
        return
    for name, options in OVERLAPPED.items():
        model, optimizer = averaged(name, **options)
        for step in range(12):
            train(model, optimizer, step)
        worst = waited = 0.0
        for step in range(12, 16):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            time.sleep(0.2)
            torch.cuda._sleep(int(BUSY_MS * 1e-3 * 1.7e9))
            began = time.perf_counter()
            optimizer.step()
            worst = max(worst, 1e3 * (time.perf_counter() - began))
            began = time.perf_counter()
            torch.cuda.synchronize()
            waited = 1e3 * (time.perf_counter() - began)
        optimizer.consolidate()
        same = is_equal_everywhere(model)
        optimizer.close()
        check(
            f"step() of {name} returns at once",
            worst < MOST_MS < waited and same,
            f"{worst:.1f} ms, then {waited:.0f} ms",
        )


class Wide(nn.Module):
    """100 MB of parameters, hardly any activations."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(24)))

    def forward(self, x):
        return self.layers(x)


def peak_of(make):
    """Beyond what was there before, of a few steps of training."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    model = Wide().to(DEVICE)
    optimizer = make(torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), model)
    x = torch.randn(4, 1024, device=DEVICE)
    for step in range(4):
        if step == 2:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    if hasattr(optimizer, "close"):
        optimizer.consolidate()
        optimizer.close()
    return peak, sum(parameter.nbytes for parameter in model.parameters())


def memory():
    if not ON_GPU:
        return
    plain, model_bytes = peak_of(lambda optimizer, model: optimizer)
    for name, options in {**REPEATING, **FREE, **OVERLAPPED}.items():
        if WORKERS == 1 and "quorum" in str(options):
            continue
        peak, _ = peak_of(functools.partial(kind_of(name), **options))
        models = (peak - plain) / model_bytes
        check(f"device memory of {name}", models <= 1.01, f"{models:.2f} models beyond none")


CASES = {
    "as_on_the_cpu": as_on_the_cpu,
    "without_waiting": functools.partial(without_waiting, FREE),
    "overlapped": functools.partial(without_waiting, OVERLAPPED),
    "guarded": guarded,
    "scaled": scaled,
    "paused": paused,
    "joined": joined,
    "in_ddp": in_ddp,
    "resumed": resumed,
    "pickled": pickled,
    "closed": closed,
    "refused": refused,
    "out_of_memory": out_of_memory,
    "host_never_waits": host_never_waits,
    "memory": memory,
}


def main():
    common.begin()
    cpu_group()
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    chosen = [name for name in sys.argv[1:] if name in CASES]
    common.run({name: case for name, case in CASES.items() if not chosen or name in chosen})
    common.finish()


if __name__ == "__main__":
    main()
