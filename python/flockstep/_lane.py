"""A thread beside the backward pass that takes what it is handed over in order."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import torch
from torch import Tensor
from torch.futures import Future

from flockstep import _native
from flockstep._errors import DeadlineExceededError, Error, PeerLostError

Summed = Future[list[Tensor]]
Summing = tuple[Summed, Callable[[Summed], Tensor]]  # what is under way, and what makes a result of it
_PLACE = re.compile(r"^\[\S+:\d+\] ")  # in the sources of Gloo
_GRACE_S = 2.0
_WAITS = 4  # the most that one errand waits for others, each within the deadline


def lost(what: str, error: Exception, loss: Callable[[], str]) -> Error:
    """An error of ours for one that a collective of Gloo raises, which names no rank.

    ``loss`` returns a sentence about the peer that is lost, or nothing.
    """
    text = _PLACE.sub("", str(error).splitlines()[0]).split(". ")[0]
    if sentence := loss():
        return PeerLostError(f"{sentence} ({text})")
    kind = DeadlineExceededError if "imed out" in text or "timeout" in text else PeerLostError
    return kind(f"{what}: {text}")


def _fail(future: Future[Tensor], error: Exception) -> None:
    text = str(error)
    if isinstance(error, Error):
        text += f" [{error.code}{f' on {error.engine}' if error.engine else ''}]"
    _native.fail(future, type(error), text)


class _Errands:
    """What thread and owner share: the thread must not keep its owner alive."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.done = 0
        self.process = os.getpid()

    def run(self) -> None:
        torch.set_grad_enabled(False)
        while (errand := self.queue.get()) is not None:
            errand()
            del errand  # and what it holds, before the next one is waited for
            self.done += 1

    def end(self) -> None:
        if os.getpid() == self.process:
            self.queue.put(None)


class Lane:
    """The thread, which the first errand starts.

    Args:
        timeout_s: of every wait of an errand's for the others.
        loss: what is known of a lost peer.
    """

    def __init__(self, timeout_s: float, loss: Callable[[], str]) -> None:
        self._loss = loss
        self._timeout_s = min(_WAITS * timeout_s + _GRACE_S, threading.TIMEOUT_MAX)
        self._errands = _Errands()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._is_closed = False

    def check(self) -> None:
        """Raises what has gone wrong."""
        if self._failure is not None:
            raise self._failure

    def carry(self, start: Callable[[], Summing]) -> Future[Tensor]:
        """Has ``start`` called in its turn; the future holds what comes of that, or raises what it has."""
        self.check()
        future: Future[Tensor] = Future()
        self._send(lambda: self._start(start, future))
        return future

    def _start(self, start: Callable[[], Summing], future: Future[Tensor]) -> None:
        try:
            self.check()
            summing, result_of = start()
            summing.add_done_callback(lambda summed: self._complete(future, summed, result_of))
        except Exception as error:  # whatever it is, backward raises it
            self._break(future, error)

    # On a thread of Gloo's.
    def _complete(self, future: Future[Tensor], summed: Summed, result_of: Callable[[Summed], Tensor]) -> None:
        try:
            result = result_of(summed)
        except Exception as error:
            self._break(future, error)
        else:
            future.set_result(result)

    # What comes first is what all that follow raise.
    def _break(self, future: Future[Tensor], error: Exception) -> None:
        if self._failure is None:
            is_of_torch = isinstance(error, RuntimeError) and not isinstance(error, Error)
            self._failure = (
                lost("the gradients of all workers were not summed", error, self._loss) if is_of_torch else error
            )
        _fail(future, self._failure)

    def call(self, function: Callable[[], None]) -> None:
        """Waits until all before it has been handed over and ``function`` was called.

        Where there is no thread it is called at once; in a forked child, never.
        """
        if os.getpid() != self._errands.process:
            return
        if self._thread is None or self._is_closed:
            function()
            return
        called = threading.Event()
        raised: list[Exception] = []

        def errand() -> None:
            try:
                function()
            except Exception as error:  # whatever it is, the caller raises it
                raised.append(error)
            called.set()

        done = self._errands.done
        self._send(errand)
        while not called.wait(self._timeout_s):
            if self._errands.done == done:
                raise DeadlineExceededError("the gradients were not exchanged in time")
            done = self._errands.done
        if raised:
            raise raised[0]

    def _send(self, errand: Callable[[], None]) -> None:
        if self._thread is None:
            # A daemon, since the interpreter waits for others before it calls those who would close this one.
            self._thread = threading.Thread(target=self._errands.run, name="flockstep-gradients", daemon=True)
            weakref.finalize(self, self._errands.end).atexit = False  # close() comes first
            self._thread.start()
        self._errands.queue.put(errand)

    def close(self) -> None:
        """Ends the thread, unless it waits for others. A second call does nothing, nor does one in a forked child."""
        if self._thread is None or self._is_closed or os.getpid() != self._errands.process:
            return
        self._is_closed = True
        self._errands.end()
        self._thread.join(_GRACE_S)
