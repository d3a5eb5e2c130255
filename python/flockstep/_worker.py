"""Makes this process a worker: with Gloo groups of our own over the ranks of a process group, or in an elastic run."""

from __future__ import annotations

import atexit
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from flockstep import _native
from flockstep._errors import BadInputError, PeerLostError
from flockstep._log import forward, logger
from flockstep._meeting import Agreed, meet, tell_failure
from flockstep._torch_private import default_store, timeout_of

# Gloo copies every byte on one thread per group, which is slower than what memory allows: three groups for data take half
# to two thirds of the time of one where there are cores for them. Where there are none, nothing is lost.
_DATA_LANES = 3

_MOMENT_S = 0.1
_PATIENCE = timedelta(minutes=5)  # a rank may prepare data before it comes
_FORWARD_S = 1.0
_LONGEST = timedelta(days=11574)  # clocks count nanoseconds in 64 bits
_ELASTIC_TIMEOUT = timedelta(minutes=5)

# Those that are not closed yet, oldest first.
_attached: list[weakref.ref[Attached]] = []
_has_been_attached = False
_meetings = 0  # that this process has come to


class Attached:
    """One worker of this process.

    Attributes:
        native: the compiled worker, which gradient rules and averagers are made on.
        rank: of this worker among those of its process group.
        size: the number of workers.
    """

    def __init__(self, native: _native.Worker, make_group: Callable[[str], dist.ProcessGroupGloo] | None) -> None:
        self.native = native
        self._make_group = make_group
        self.rank = native.rank
        self.size = native.size
        self.is_closed = False
        self.served: _native.Store | None = None  # where workers find each other, if this one keeps it

    def make_group(self, name: str) -> dist.ProcessGroupGloo:
        """One more Gloo group over the same ranks, all of which call this in the same order."""
        assert self._make_group is not None, "workers of a process group"
        return self._make_group(name)

    def close(self) -> None:
        """Ends the worker's part: says farewell to its peers, ends its threads, closes its connections.

        Not collective, and never long. A peer that still waits for this worker raises :class:`flockstep.PeerLostError`.
        A second call does nothing, and neither does one in a forked child.
        """
        self.is_closed = True
        self.native.close()
        forward(self.native)


def attach(
    process_group: dist.ProcessGroup | None = None,
    *,
    deadline: timedelta | None = None,
    what: str = "become a worker",
    agreed: Agreed | None = None,
) -> Attached:
    """Makes this process a worker among the members of ``process_group``, all of which call this in the same order.

    Args:
        process_group: whose members are the workers; the default group if None.
        deadline: of every single wait for a peer; the timeout of ``process_group`` if None. Then members that do not come
            are waited for no longer than five minutes.
        what: this process has done, such as ``made Flock``, as errors tell it.
        agreed: names and values that have to be the same on all members.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise BadInputError(
            "there is no process group: call torch.distributed.init_process_group() first, and start with torchrun"
        )
    group = dist.group.WORLD if process_group is None else process_group
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise BadInputError("this process is not a member of the process group that it was given")
    timeout = _checked(timeout_of(group) if deadline is None else deadline)
    transport = _transport()
    ranks = dist.get_process_group_ranks(group)
    prefix = _prefix_of(ranks)
    patience = min(timeout, _PATIENCE) if deadline is None else timeout

    def make_group(name: str) -> dist.ProcessGroupGloo:
        try:
            return _make_group(f"{prefix}/{name}", group, timeout)
        except RuntimeError as error:
            raise _unreachable(timeout, error) from error

    global _meetings
    _meetings += 1
    number = meet(default_store(), prefix, dist.get_rank(group), ranks, patience.total_seconds(), what, agreed or [])
    prefix = f"{prefix}/{number}"
    try:
        if transport == "mesh":
            return _attach_mesh(PrefixStore(f"{prefix}/mesh", default_store()), group, make_group, timeout)
        data = [_make_group(f"{prefix}/data{lane}", group, timeout) for lane in range(_DATA_LANES)]
        control = _make_group(f"{prefix}/control", group, timeout)
    except RuntimeError as error:
        raise _unreachable(timeout, error) from error

    global _has_been_attached
    _has_been_attached = True
    return _kept(_native.Worker(data, control, timeout.total_seconds()), make_group, timeout)


@contextmanager
def telling_failure(model: object, options: Mapping[str, Any], what: str) -> Iterator[None]:
    """Has the other ranks raise, too, if this one raises before it has come to the meeting of :func:`attach`.

    Args:
        model: whose process group meets, unless the options have one; without either, the default group does.
        options: as they were given, right or wrong.
        what: as :func:`attach` takes it.
    """
    before = _meetings
    try:
        yield
    except Exception as error:
        meets = dist.is_available() and dist.is_initialized() and not options.get("elastic")
        if meets and _meetings == before:
            groups = (options.get("process_group"), getattr(model, "process_group", None), dist.group.WORLD)
            group = next(each for each in groups if isinstance(each, dist.ProcessGroup))
            ranks = dist.get_process_group_ranks(group)
            if dist.get_rank() in ranks:
                tell_failure(default_store(), _prefix_of(ranks), dist.get_rank(), what, error)
        raise


# Where torchrun starts workers again, the store still has the addresses of those before.
def _prefix_of(ranks: list[int]) -> str:
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"flockstep/{attempt}/{','.join(map(str, ranks))}"


def _transport() -> str:
    chosen = os.environ.get("FLOCKSTEP_TRANSPORT", "gloo")
    if chosen not in ("gloo", "mesh"):
        raise BadInputError(f"FLOCKSTEP_TRANSPORT is gloo or mesh, not {chosen!r}")
    return chosen


def _attach_mesh(
    store: PrefixStore,
    members: dist.ProcessGroup,
    make_group: Callable[[str], dist.ProcessGroupGloo],
    timeout: timedelta,
) -> Attached:
    """Workers that connect to each other themselves; those of one host read from each other's memory."""
    rank, size = dist.get_rank(members), dist.get_world_size(members)
    served = None
    if rank == 0:
        secret = _native.make_secret()
        served = _native.Store(_own_host(), secret, size)
        store.set("address", f"{served.address} {secret}")
    store.wait(["address"], timeout)
    address, secret = store.get("address").decode().split()
    native = _native.Worker.of_store(address, secret, rank, size, timeout.total_seconds())
    attached = _kept(native, make_group, timeout)
    attached.served = served
    return attached


def _own_host() -> str:
    """The address of this host that those reach who reach the process group's first rank. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((os.environ.get("MASTER_ADDR", "127.0.0.1"), 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def attach_elastic(*, deadline: timedelta | None = None) -> Attached:
    """Makes this process a worker of the run whose launcher has started it; not collective.

    Args:
        deadline: of every single wait for the others; five minutes if None.
    """
    timeout = _checked(_ELASTIC_TIMEOUT if deadline is None else deadline)
    attached = _kept(_native.Worker.from_environment(timeout.total_seconds()), None, timeout)
    # A worker may wait long in one step, as for a peer that it cannot reach, and has to say so meanwhile.
    threading.Thread(target=_forward_meanwhile, args=(weakref.ref(attached),), daemon=True).start()
    return attached


def _forward_meanwhile(reference: weakref.ref[Attached]) -> None:
    while (attached := reference()) is not None and not attached.is_closed:
        forward(attached.native)
        del attached
        time.sleep(_FORWARD_S)


def _checked(timeout: timedelta) -> timedelta:
    if timeout <= timedelta(0):
        raise BadInputError(f"a timeout is longer than 0, and {timeout} is not")
    if timeout > _LONGEST:
        raise BadInputError(f"a timeout is at most {_LONGEST.days} days, not {timeout}: every wait comes to an end")
    return timeout


def _kept(
    native: _native.Worker, make_group: Callable[[str], dist.ProcessGroupGloo] | None, timeout: timedelta
) -> Attached:
    attached = Attached(native, make_group)
    _attached.append(weakref.ref(attached, _attached.remove))
    logger.info("worker %d of %d, deadline %g s", attached.rank, attached.size, timeout.total_seconds())
    return attached


def _unreachable(timeout: timedelta, error: RuntimeError) -> PeerLostError:
    return PeerLostError(
        f"rank {dist.get_rank()} could not connect to all of its peers within {timeout.total_seconds():g} s "
        f"({str(error).splitlines()[0]})"
    )


# Not new_group(): only members of the group come here, and the names that it gives for that depend on how many groups a
# process has at the moment, which may differ from member to member; one that is used again finds its former addresses.
def _make_group(name: str, members: dist.ProcessGroup, timeout: timedelta) -> dist.ProcessGroupGloo:
    store = PrefixStore(name, default_store())
    return dist.ProcessGroupGloo(store, dist.get_rank(members), dist.get_world_size(members), timeout)


# Runs after whatever registered itself later, such as what works on a worker, and before the interpreter ends.
@atexit.register
def _close_all() -> None:
    for reference in reversed(_attached[:]):
        attached = reference()
        if attached is not None:
            attached.close()
    # A thread of torch's own that still holds the tensors of a program's last collective on Gloo aborts the process once
    # the interpreter has ended. It lets go of them within a moment.
    if _has_been_attached:
        time.sleep(_MOMENT_S)


os.register_at_fork(after_in_child=_attached.clear)
