"""What `python -m flockstep.bench` trains: ResNet-50, and GPTs of ten and of 124 million parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_GPT2_TOKENS = 50257


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut (He et al., 2015), the stride in the middle one."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.path = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)),
        )
        self.shortcut: nn.Module = nn.Identity()
        if channels != out or stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride=2 if stage > 0 and block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class GPT(nn.Module):
    """Tokens (batch x length) to scores of the next one: 10.1M parameters."""

    def __init__(
        self, vocabulary: int = 256, context: int = 128, layers: int = 8, width: int = 320, heads: int = 5
    ) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions.weight[:length], mask=mask, is_causal=True)
        return self.scores(self.norm(x)).transpose(1, 2)  # type: ignore[no-any-return]


def gpt124m() -> nn.Module:
    """Of the size of GPT-2: its scores share the weights of the tokens, which has them small at the start."""
    network = GPT(vocabulary=_GPT2_TOKENS, context=512, layers=12, width=768, heads=12)
    nn.init.normal_(network.tokens.weight, std=0.02)
    network.scores.weight = network.tokens.weight
    return network


@dataclass(frozen=True)
class Workload:
    """A network, and a batch for one worker, on the CPU or for a GPU: inputs and the classes that they should give.

    With `autocast` the forward pass computes in that type. Modules of type `block` are sharded one by one.
    """

    name: str
    network: Callable[[], nn.Module]
    batch: Callable[[torch.Generator, str], tuple[Tensor, Tensor]]
    autocast: torch.dtype | None = None
    block: type[nn.Module] = nn.TransformerEncoderLayer


def _images(generator: torch.Generator, device: str) -> tuple[Tensor, Tensor]:
    number, side = (16, 224) if device == "cuda" else (4, 64)
    return torch.randn(number, 3, side, side, generator=generator), torch.randint(1000, (number,), generator=generator)


def _text(generator: torch.Generator, device: str) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(256, (4, 129), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def _longer_text(generator: torch.Generator, device: str) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(_GPT2_TOKENS, (4, 513), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def _vectors(generator: torch.Generator, device: str) -> tuple[Tensor, Tensor]:
    return torch.randn(8, 64, generator=generator), torch.randint(10, (8,), generator=generator)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("resnet50", resnet50, _images, block=Bottleneck),
        Workload("gpt", GPT, _text),
        Workload("gpt124m", gpt124m, _longer_text, torch.bfloat16),
        # To try the benchmark itself: too small to tell anything.
        Workload(
            "tiny", lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), _vectors, block=nn.Linear
        ),
    )
}
