"""The exchange in the order of a CUDA stream, without one: streams whose work is done late.

What stands in a stream is done when something waits for it: another stream, or the host, which asks an event a few times.
Torch works in the current stream at once, but for copies that do not block. So code that does not wait finds what was there
before. `calls` has a line for each call.
"""

import collections
import contextlib

import flockstep._exchange
import torch
from flockstep._exchange import StreamExchange

QUESTIONS = 3  # that an event answers with no
calls = []


class Stream:
    """Work that is done in its order, as far as something waits for it."""

    def __init__(self, name):
        self.name, self.asked, self._done = name, 0, 0
        self._work = collections.deque()

    @property
    def cuda_stream(self):
        return self

    def put(self, line, work):
        calls.append(f"{self.name}: {line}")
        self._work.append(work)
        self.asked += 1

    def has_done(self, count):
        return self._done >= count

    def run(self, count):
        while not self.has_done(count):
            self._work.popleft()()
            self._done += 1

    def wait_stream(self, other):
        self.put(f"wait for {other.name}", lambda count=other.asked: other.run(count))

    def wait_event(self, event):
        if self is CURRENT:  # which goes on at once
            calls.append(f"{self.name}: wait for {event.name}")
            event.run()
        else:
            self.put(f"wait for {event.name}", event.run)


class Event:
    """A place in a stream; nothing waits for one that was never recorded."""

    def __init__(self):
        self._stream, self._count, self._questions = None, 0, 0

    @property
    def name(self):
        return f"an event of {self._stream.name}" if self._stream else "no event"

    def record(self, stream):
        calls.append(f"{stream.name}: event")
        self._stream, self._count, self._questions = stream, stream.asked, 0

    def run(self):
        if self._stream:
            self._stream.run(self._count)

    def query(self):
        if not self._questions:
            calls.append(f"host: wait for {self.name}")
        self._questions += 1
        if self._questions > QUESTIONS:
            self.run()
        return self._stream is None or self._stream.has_done(self._count)


CURRENT = Stream("current")
COLLECTIVES = Stream("collectives")  # a process group's own
_entered = [CURRENT]


def _gather(output, mine, group, *, async_op):
    """As NCCL does: after what stands in the current stream so far, and nothing waits for it unless it is told to."""
    assert async_op
    COLLECTIVES.wait_stream(_entered[-1])
    COLLECTIVES.put("gather", lambda: GATHER(output, mine, group))
    return _Gathering()


GATHER = flockstep._exchange.all_gather_single


class _Gathering:
    def wait(self):
        _entered[-1].wait_stream(COLLECTIVES)


def _copy(tensor, source, non_blocking=False):
    if not non_blocking:
        return COPY(tensor, source)
    kind = str(source.dtype).removeprefix("torch.")
    _entered[-1].put(f"copy {kind}", lambda: COPY(tensor, source))
    return tensor


COPY = torch.Tensor.copy_


class Native:
    """Decides in the order of a stream, as the driver's thread would."""

    def __init__(self, native):
        self._native = native

    def __getattr__(self, name):
        return getattr(self._native, name)

    def decide_in_stream(self, stream, records, factors):
        def decide():
            self._native.decide(records)
            decided = torch.tensor(self._native.factors(), dtype=torch.float64)
            factors[: decided.numel()] = decided[: factors.numel()]

        stream.put("decide", decide)


@contextlib.contextmanager
def _within(stream):
    _entered.append(stream)
    try:
        yield
    finally:
        _entered.pop()


@contextlib.contextmanager
def pretended():
    """A block within which there are streams."""
    places = [(torch.cuda, "Stream", lambda device: Stream("side")), (torch.cuda, "Event", Event)]
    places += [(torch.cuda, "current_stream", lambda device: _entered[-1]), (torch.cuda, "stream", _within)]
    places += [(torch.Tensor, "pin_memory", lambda tensor: tensor), (torch.Tensor, "copy_", _copy)]
    places += [(flockstep._exchange, "all_gather_single", _gather)]
    before = [getattr(place, name) for place, name, _ in places]
    for place, name, value in places:
        setattr(place, name, value)
    try:
        yield
    finally:
        for (place, name, _), value in zip(places, before, strict=True):
            setattr(place, name, value)


def put_in_stream(state):
    """The exchange of a state whose hook was not called so far."""
    hook = state._hook
    old = hook._exchange
    group = state._model().process_group
    hook._lane, hook._group = None, group
    hook._exchange = StreamExchange(Native(old._native), group, old._device, old._timeout)
