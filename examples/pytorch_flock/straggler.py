"""One worker is late in every step, now this one, now that. Plain DDP waits for it each time; Flock does not.

torchrun --standalone --nproc-per-node 4 straggler.py [--epochs N] [--late-ms N]
"""

import argparse
import random
import sys
import time
from pathlib import Path

import flockstep
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.append(str(Path(__file__).resolve().parents[1] / "pytorch_ddp"))  # the same data and network
from fashion import Net, accuracy, images

BATCH = 16


def train(algorithm: str, epochs: int, late_s: float) -> tuple[float, float]:
    """Samples per second of all workers together, until the last of them is done, and the accuracy."""
    torch.manual_seed(1)
    data, test = images("train"), images("t10k")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler, drop_last=True)
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    model: nn.Module = network
    if algorithm == "flock":
        optimizer = flockstep.Flock(optimizer, network)
    else:
        model = DistributedDataParallel(network)

    late = random.Random(1)  # the same on every worker: all agree on who is late
    dist.barrier()
    began = time.perf_counter()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            if late.randrange(dist.get_world_size()) == dist.get_rank():
                time.sleep(late_s)
            optimizer.zero_grad()
            cross_entropy(model(pictures), labels).backward()
            optimizer.step()
    if algorithm == "flock":
        optimizer.consolidate()  # one model, the same on every worker; waits for the last
        optimizer.close()
    dist.barrier()
    seconds = time.perf_counter() - began
    return epochs * len(loader) * BATCH * dist.get_world_size() / seconds, accuracy(network, test)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--late-ms", type=float, default=50)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)  # the workers share the processors
    for algorithm in ("plain DDP", "flock"):
        throughput, quality = train(algorithm, arguments.epochs, arguments.late_ms / 1e3)
        if dist.get_rank() == 0:
            print(f"{algorithm:9}  {throughput:6.0f} samples/s  accuracy {quality:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
