"""How gradients travel: ``exact`` or ``sketch``, which of them a rule takes, and with what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

import torch

from flockstep._errors import BadInputError, BadTypeError
from flockstep._options import shown


def as_words(options: Mapping[str, object]) -> dict[str, str]:
    """Returns options, of checked types, as the words that the command takes."""
    words = {name: str(value) for name, value in options.items()}
    watch = options.get("watch", 0)
    if watch is None or isinstance(watch, bool):
        words["watch"] = "auto" if watch is None else "always" if watch else "never"
    if "sketch_length" in options and options["sketch_length"] is None:
        words["sketch_length"] = "auto"
    return words


def checked_seed(seed: int) -> int:
    """Returns the seed of the sketches, or raises BadInputError."""
    if not 0 <= seed < 1 << 64:
        raise BadInputError(f"seed is a whole number from 0 to 2**64 - 1, not {seed}")
    return seed


def checked_weight(weight: object) -> float:
    """Returns the weight of a rank's gradient, or raises an error."""
    if not isinstance(weight, (Real, torch.Tensor)) or getattr(weight, "ndim", 0) > 0:
        raise BadTypeError(f"weight is a number, 0 or more, not {shown(weight)}")
    if not 0 <= float(weight) < math.inf:
        raise BadInputError(f"weight is a number, 0 or more, not {float(weight):g}")
    return float(weight)


def transfer_of(rule: str, words: Mapping[str, str]) -> str:
    """The one that a rule with these options takes: ``exact`` or ``sketch``."""
    given, needs_exact = words.get("transfer", "auto"), _needs_exact(words)
    if given == "sketch" and needs_exact is not None:
        raise BadInputError(
            f'{needs_exact} needs transfer="exact": sketches know models and buckets, in their own types'
        )
    if given == "auto":
        return "exact" if needs_exact is not None or rule == "adacons" else "sketch"
    return given


def transfer_of_sharded(words: Mapping[str, str]) -> str:
    """The one that rules take on sharded models."""
    exact = 'transfer="exact"' if words.get("transfer") == "exact" else _needs_exact(words)
    if exact is not None:
        raise BadInputError(f'a sharded model takes only transfer="sketch", not {exact}')
    return "sketch"


def _needs_exact(words: Mapping[str, str]) -> str | None:
    for name, value in (("granularity", "tensor"), ("wire", "bfloat16")):
        if words.get(name) == value:
            return f'{name}="{value}"'
    return None
