"""How gradients travel: ``exact`` or ``sketch``, which of them a rule takes, and with what."""

from __future__ import annotations

from collections.abc import Mapping

from flockstep._errors import BadInputError, BadTypeError


def as_words(options: Mapping[str, object]) -> dict[str, str]:
    """Options as the command takes them, which also checks their values."""
    words = {name: str(value) for name, value in options.items()}
    if "watch" in options:
        words["watch"] = _watch(options["watch"])
    if "sketch_length" in options:
        words["sketch_length"] = _length(options["sketch_length"])
    if "guard" in options:
        words["guard"] = _guard(options["guard"])
    if "non_finite_patience" in options:
        patience = options["non_finite_patience"]
        if isinstance(patience, bool) or not isinstance(patience, int):
            raise BadTypeError(f"non_finite_patience is a number of steps, 0 or more, not {patience!r}")
    return words


def _watch(watch: object) -> str:
    if watch is None:
        return "auto"
    if isinstance(watch, bool):
        return "always" if watch else "never"
    if not isinstance(watch, int):
        raise BadTypeError(f"watch is True, False, None or a number of steps, not {watch!r}")
    return str(watch)


def _length(length: object) -> str:
    if length is None:
        return "auto"
    if isinstance(length, bool) or not isinstance(length, int):
        raise BadTypeError(f"sketch_length is None or a power of two, not {length!r}")
    return str(length)


def _guard(guard: object) -> str:
    if guard == "count":
        return "count"
    if isinstance(guard, bool) or not isinstance(guard, (int, float)):
        raise BadTypeError(f'guard is a number, 0 or more, or "count", not {guard!r}')
    return str(guard)


def checked_seed(seed: object) -> int:
    """Of the sketches."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadTypeError(f"seed is a whole number, 0 or more, not {seed!r}")
    if not 0 <= seed < 1 << 64:
        raise BadInputError(f"seed is a whole number from 0 to 2**64 - 1, not {seed}")
    return seed


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
