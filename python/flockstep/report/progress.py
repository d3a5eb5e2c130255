"""What is being drawn, on a terminal's standard error; nothing when that is piped."""

import sys
from types import TracebackType


class Progress:
    def __init__(self) -> None:
        self._visible = sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def say(self, what: str) -> None:
        if self._visible:
            print(f"\r\033[Kdrawing {what}", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
