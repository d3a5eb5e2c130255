"""Real text that every Python brings along: the docstrings of its own library; and a bigram model of it, to be beaten."""

import ast
import sysconfig
import warnings
from pathlib import Path

import torch
from torch import Tensor

BYTES = 256  # a token is a byte
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstrings(file: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd escapes in old files
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # not of this version of Python
        return ""
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
    return "".join(f"{text}\n\n" for text in found if text)


def read() -> tuple[Tensor, Tensor]:
    """Training and validation text as bytes; every eighth file is for validation. The same on every worker."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    parts: tuple[list[str], list[str]] = ([], [])
    for index, file in enumerate(files):
        parts[index % 8 == 7].append(_docstrings(file))
    train, validation = (torch.frombuffer(bytearray("".join(part), "utf-8"), dtype=torch.uint8) for part in parts)
    return train.long(), validation.long()


def bigram_loss(train: Tensor, validation: Tensor) -> float:
    """The loss, in nats per byte, of predicting each byte from the one before: counts of the training text plus one."""
    counts = torch.ones(BYTES, BYTES, dtype=torch.float64)
    counts.index_put_((train[:-1], train[1:]), torch.ones((), dtype=torch.float64), accumulate=True)
    chances = counts / counts.sum(1, keepdim=True)
    return -chances[validation[:-1], validation[1:]].log().mean().item()
