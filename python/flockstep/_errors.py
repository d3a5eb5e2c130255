"""The one exception type of the package, and the two under it that a training script may want to catch."""

from __future__ import annotations

import re
import sys

# How python/native/errors.cpp ends a text that comes through torch, which raises a class with a text and nothing else.
_DETAILS = re.compile(r" \[(bad_input|mismatch|deadline|peer_lost|unavailable|bad_file)(?: on (\w+))?\]\Z")


def this_rank() -> int | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank: int = distributed.get_rank()
    return rank


class Error(RuntimeError):
    """Something that went wrong, as one sentence that says what to change.

    Attributes:
        code: ``bad_input`` (a value that the caller can change), ``mismatch`` (workers disagree on something that has
            to be equal), ``deadline``, ``peer_lost``, ``unavailable`` (this build or machine lacks what was asked for)
            or ``bad_file``.
        engine: the engine that was involved, such as ``c10d``; empty where none was.
        rank: that of the process that raised it, as ``torch.distributed.get_rank()`` tells it; None outside of a
            process group.
    """

    _usual_code = "bad_input"

    def __init__(self, sentence: str, *, code: str | None = None, engine: str = "", rank: int | None = None) -> None:
        if code is None and (details := _DETAILS.search(sentence)):
            sentence = sentence[: details.start()]
            code, engine = details[1], details[2] or ""
        super().__init__(sentence)
        self.code = code or self._usual_code
        self.engine = engine
        self.rank = this_rank() if rank is None else rank

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (type(self), str(self), self.code, self.engine, self.rank)


class PeerLost(Error):
    """Another worker failed or vanished. Its code is ``peer_lost``."""

    _usual_code = "peer_lost"


class DeadlineExceeded(Error):
    """A wait lasted longer than allowed. Its code is ``deadline``."""

    _usual_code = "deadline"


def _unpickled(kind: type[Error], sentence: str, code: str, engine: str, rank: int | None) -> Error:
    error = kind(sentence, code=code, engine=engine)
    error.rank = rank
    return error
