"""Where a rank computes: on a GPU where there is one, else on the CPU."""

import argparse
import os

import torch
import torch.distributed as dist


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=["cpu", "cuda", "auto"], default="auto", help="auto: cuda where there is a GPU"
    )


def join_group(wanted: str) -> torch.device:
    """Makes the default process group, and tells this rank's device: over NCCL each a GPU, over Gloo the CPU."""
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        torch.set_num_threads(1)  # the workers share the processors
        dist.init_process_group("gloo")
        return torch.device("cpu")
    rank, ranks, gpus = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if gpus == 0:
        raise SystemExit("--device cuda needs an NVIDIA GPU that torch can use, and there is none")
    if ranks > gpus:  # NCCL takes two ranks on one GPU only if each says that it is another machine
        own = {"NCCL_HOSTID": f"h{os.environ['RANK']}", "NCCL_SOCKET_IFNAME": "lo"}
        os.environ.update(own, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
    device = torch.device("cuda", rank % gpus)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    return device
