"""The data and the network of the examples: nothing here knows of workers."""

import gzip
import struct
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

SUBSET = Path(__file__).resolve().parents[2] / "data" / "fashion-mnist"


def _read(path: Path) -> Tensor:
    with gzip.open(path) as file:
        (magic,) = struct.unpack(">I", file.read(4))
        if magic >> 8 != 8:
            raise ValueError(f"{path} is not an IDX file of bytes")
        shape = struct.unpack(f">{magic & 255}I", file.read(4 * (magic & 255)))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(shape)


def images(part: str, folder: str | Path = SUBSET) -> TensorDataset:
    """`train` or `t10k` of MNIST or Fashion-MNIST: gzip'ed IDX files."""
    pixels = _read(Path(folder) / f"{part}-images-idx3-ubyte.gz").float().div_(255).sub_(0.3).div_(0.35)
    return TensorDataset(pixels[:, None], _read(Path(folder) / f"{part}-labels-idx1-ubyte.gz").long())


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip


@torch.no_grad()
def accuracy(net: nn.Module, test: TensorDataset) -> float:
    device = next(net.parameters()).device
    pictures, labels = (tensor.to(device) for tensor in test.tensors)
    was_training = net.training
    net.eval()
    right = (net(pictures).argmax(1) == labels).float().mean().item()
    net.train(was_training)
    return right
