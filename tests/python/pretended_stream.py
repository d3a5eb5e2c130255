"""The exchange in the order of a CUDA stream, without one: what would be put into a stream happens at once."""

import contextlib

import torch
from flockstep._exchange import StreamExchange


class Stream:
    cuda_stream = 0

    def wait_stream(self, other): ...

    def wait_event(self, event): ...


class Event:
    def record(self, stream): ...

    def query(self):
        return True


class Native:
    """Decides when it is told to, as the driver's thread would."""

    def __init__(self, native):
        self._native = native

    def __getattr__(self, name):
        return getattr(self._native, name)

    def decide_in_stream(self, stream, records, factors):
        self._native.decide(records)
        factors.copy_(torch.tensor(self._native.factors(), dtype=torch.float64))


@contextlib.contextmanager
def replaced(**values):
    before = {name: getattr(torch.cuda, name) for name in values}
    for name, value in values.items():
        setattr(torch.cuda, name, value)
    pin = torch.Tensor.pin_memory
    torch.Tensor.pin_memory = lambda tensor: tensor
    try:
        yield
    finally:
        torch.Tensor.pin_memory = pin
        for name, value in before.items():
            setattr(torch.cuda, name, value)


def pretended():
    """A block within which there are streams."""
    return replaced(
        Stream=lambda device: Stream(),
        Event=Event,
        current_stream=lambda device: Stream(),
        stream=lambda stream: contextlib.nullcontext(),
    )


def put_in_stream(state):
    """The exchange of a state whose hook was not called so far."""
    hook = state._hook
    old = hook._exchange
    group = state._model().process_group
    hook._lane, hook._group = None, group
    hook._exchange = StreamExchange(Native(old._native), group, old._device, old._timeout)
