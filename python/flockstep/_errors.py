"""The errors of the package: one base, and under it one class per code, which is also what Python has for such a case."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

# How python/native/errors.cpp ends a text that comes through torch, which raises a class with a text and nothing else.
_DETAILS = re.compile(r" \[(\w+)(?: on (\w+))?\]\Z")
_QUOTED_NUMBER = re.compile(r"'([-+]?[\d.]+(?:e[-+]?\d+)?)'")


def this_rank() -> int | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank: int = distributed.get_rank()
    return rank


class Error(RuntimeError):
    """The base of all errors that this package raises. Its text is one sentence that says what to change.

    Attributes:
        code: what went wrong, in one word that the command and the C++ library use too; each class has its own.
        engine: the engine that was involved, such as ``c10d``; empty where none was.
        rank: that of the process that raised it, as ``torch.distributed.get_rank()`` tells it; None outside of a
            process group.
    """

    code: str = ""

    def __init__(self, sentence: str, *, engine: str = "", rank: int | None = None) -> None:
        details = _DETAILS.search(sentence)
        if details and details[1] == self.code:
            sentence, engine = sentence[: details.start()], details[2] or ""
        super().__init__(sentence)
        self.engine = engine
        self.rank = this_rank() if rank is None else rank


class BadInputError(Error, ValueError):
    """A name or a value that the caller can change."""

    code = "bad_input"


class BadTypeError(BadInputError, TypeError):
    """A value of the wrong type, such as a number of seconds where a ``timedelta`` is needed."""


class MismatchError(Error):
    """Workers disagree on something that has to be equal."""

    code = "mismatch"


class DeadlineExceededError(Error, TimeoutError):
    """A wait lasted longer than allowed."""

    code = "deadline"


class PeerLostError(Error):
    """Another worker failed or vanished."""

    code = "peer_lost"


class UnavailableError(Error):
    """This build or machine lacks what was asked for, or it was closed."""

    code = "unavailable"


class BadFileError(Error, OSError):
    """A file cannot be read, written or trusted."""

    code = "bad_file"


# What the compiled half and the report, which know codes, raise.
BY_CODE = {
    kind.code: kind
    for kind in (BadInputError, MismatchError, DeadlineExceededError, PeerLostError, UnavailableError, BadFileError)
}


def in_words_of_python(error: Error, owner: str) -> Error:
    """The compiled half's error about an option of ``owner``, which names options and quotes values as the command does."""
    sentence = _QUOTED_NUMBER.sub(r"\1", str(error).replace(f"--{owner}.", ""))
    return type(error)(sentence, engine=error.engine)


def check_state_dict(state_dict: object, needed: tuple[str, ...], of: str) -> None:
    """Raises :class:`flockstep.BadInputError` for what no ``state_dict()`` of that kind has returned."""
    if not isinstance(state_dict, Mapping):
        raise BadTypeError(
            f"load_state_dict() takes what state_dict() of {of} returned, not a {type(state_dict).__name__}"
        )
    if any(name not in state_dict for name in needed):
        names = [str(name) for name in state_dict]
        has = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else "nothing"
        raise BadInputError(
            f"load_state_dict() takes what state_dict() of {of} returned, which has {', '.join(needed)}: this has {has}"
        )
