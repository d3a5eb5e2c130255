"""The averagers: optimizers that average models instead of gradients, each a form of :class:`Averager`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import torch
from torch import nn
from torch.distributed.algorithms.join import Joinable
from typing_extensions import Unpack

from flockstep import _native
from flockstep.averager import Averager, Common

Activation = Literal["first", "majority", "quorum", "deadline"]
Merge = Literal["published", "additive"]
Sync = Literal["barrier", "rolling"]


class Flock(Averager):
    r"""Averages models in groups that wait for nobody: rounds move a shared model, and updates are added to it.

    After every step a group of workers averages its models; which groups there are changes from step to step, so that
    what one has learnt reaches all within a few steps. A round starts without those who are late: their updates are
    added when they are ready, so that nothing is lost or diluted. Nobody is ever more than ``period`` steps ahead of
    the slowest worker, and nobody waits for anything else.

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        group_size (int, optional): workers in a group, 2 to the number of workers (default: the power of two at or
            above its square root)
        period (int): every so many steps the round is over all workers, and nobody is so many steps ahead of anybody
            (default: 10)
        activation (str): who starts a round: ``"first"``, the first to arrive; ``"majority"``, half of the workers;
            ``"quorum"``; ``"deadline"``, so long after the first (default: ``"majority"``)
        merge (str): how a model meets an average that was taken without it: ``"additive"`` or ``"published"``
            (default: ``"additive"``)
        sync (str): ``"rolling"``, or ``"barrier"``: the last round of a period waits for all (default: ``"rolling"``)
        quorum (int, optional): how many start a round with ``activation="quorum"`` (default: all but one)
        deadline (datetime.timedelta, optional): how long after the first a round starts with
            ``activation="deadline"`` (default: twice the median lateness)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> optimizer = flockstep.Flock(optimizer, model)
        >>> for inputs, targets in loader:
        >>>     optimizer.zero_grad()
        >>>     loss_fn(model(inputs), targets).backward()
        >>>     optimizer.step()
        >>> optimizer.consolidate()
    """

    _algorithm = "flock"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        group_size: int | None = None,
        period: int = 10,
        activation: Activation = "majority",
        merge: Merge = "additive",
        sync: Sync = "rolling",
        quorum: int | None = None,
        deadline: timedelta | None = None,
        **common: Unpack[Common],
    ) -> None:
        options: dict[str, object] = {
            "group_size": group_size,
            "period": period,
            "merge": merge,
            "sync": sync,
            "activation": activation,
            "quorum": quorum,
            "deadline": deadline,
        }
        super().__init__(optimizer, model, options, **common)


class Wagma(Averager):
    r"""Wait-avoiding group averaging as published (arXiv 2005.00124).

    After every step a group of workers averages its models; the first to arrive starts the round, and those who are
    late contribute what they had published last. Every ``period`` steps all wait for an average over everybody.

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        group_size (int, optional): workers in a group, 2 to the number of workers (default: the power of two at or
            above its square root)
        period (int): every so many steps all workers average their models (default: 10)
        activation (str): who starts a round: ``"first"``, ``"majority"``, ``"quorum"`` or ``"deadline"``
            (default: ``"first"``)
        merge (str): how a model meets an average that was taken without it: ``"published"`` or ``"additive"``
            (default: ``"published"``)
        sync (str): ``"barrier"``: the last round of a period waits for all; ``"rolling"``: nobody is a period ahead of
            anybody (default: ``"barrier"``)
        quorum (int, optional): how many start a round with ``activation="quorum"`` (default: all but one)
        deadline (datetime.timedelta, optional): how long after the first a round starts with
            ``activation="deadline"`` (default: twice the median lateness)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.Wagma(torch.optim.Adam(model.parameters()), model, group_size=4)
    """

    _algorithm = "wagma"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        group_size: int | None = None,
        period: int = 10,
        activation: Activation = "first",
        merge: Merge = "published",
        sync: Sync = "barrier",
        quorum: int | None = None,
        deadline: timedelta | None = None,
        **common: Unpack[Common],
    ) -> None:
        options: dict[str, object] = {
            "group_size": group_size,
            "period": period,
            "merge": merge,
            "sync": sync,
            "activation": activation,
            "quorum": quorum,
            "deadline": deadline,
        }
        super().__init__(optimizer, model, options, **common)


class LocalSGD(Averager):
    r"""Takes ``period`` steps alone, then averages the models of all workers, who wait for each other there.

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        period (int): steps from one average to the next; 1 averages after every step (default: 8)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, period=16)
    """

    _algorithm = "local_sgd"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        period: int = 8,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(optimizer, model, {"period": period}, **common)


class PostLocalSGD(Averager):
    r"""Averages gradients for ``switch_after`` steps, then goes on as :class:`LocalSGD`.

    For a DDP model DDP averages the gradients of the first steps, with its communication hook if it has one, and is
    switched off then. For a plain model :meth:`step` averages them.

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        switch_after (int): steps with averaged gradients before the first local one (default: 100)
        period (int): from then on, steps from one average of the models to the next (default: 8)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.PostLocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, switch_after=1000)
    """

    _algorithm = "post_local_sgd"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        switch_after: int = 100,
        period: int = 8,
        **common: Unpack[Common],
    ) -> None:
        options: dict[str, object] = {"switch_after": switch_after, "period": period}
        super().__init__(optimizer, model, options, **common)

    def _check_ddp(self) -> None:
        """A communication hook has its use in the first steps."""

    def _averages_gradients(self) -> bool:
        return not self._ddp.modules

    def _follow(self, native: _native.ModelAverager) -> None:
        if native.gradients_are_due:
            self._ddp.restore()
        else:
            self._ddp.off()

    def _joinables(self) -> list[Joinable]:
        return [*self._ddp.modules]


class DPSGD(Averager):
    r"""Decentralised SGD: after every step a worker averages its model with those of its two neighbours in a ring.

    Neighbours wait for each other (arXiv 1705.09056).

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.DPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "dpsgd"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(optimizer, model, {}, **common)


class ADPSGD(Averager):
    r"""Asynchronous decentralised SGD: beside the computing, models are averaged in random pairs.

    After every step a worker of even rank has its model averaged with that of a random worker of odd rank; nobody
    waits (arXiv 1710.06952).

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.ADPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "adpsgd"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(optimizer, model, {}, **common)


class SGP(Averager):
    r"""Stochastic gradient push: after every step a worker sends shares of its model to a few others.

    To those at hops of powers of two, in turn; workers wait for the shares that come to them (arXiv 1811.10792).

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        neighbours (int): workers that one sends to after a step, at most the logarithm of their number (default: 1)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.SGP(torch.optim.SGD(model.parameters(), lr=0.1), model, neighbours=2)
    """

    _algorithm = "sgp"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        neighbours: int = 1,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(optimizer, model, {"neighbours": neighbours}, **common)


class Swarm(Averager):
    r"""Takes ``period`` steps, then has the model averaged with that of a random worker; nobody waits.

    Args:
        optimizer (torch.optim.Optimizer): updates the model of this worker
        model (torch.nn.Module): the model that it updates, plain or in DDP

    Keyword Args:
        period (int): steps from one average with a random worker to the next (default: 4)
        process_group (ProcessGroup, optional): whose members are the workers (default: DDP's, or all)
        timeout (datetime.timedelta, optional): how long any single wait may last (default: the process group's)
        run_dir (str, optional): where to write what :func:`flockstep.report` draws (default: nowhere)

    Example::

        >>> optimizer = flockstep.Swarm(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "swarm"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: nn.Module,
        *,
        period: int = 4,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(optimizer, model, {"period": period}, **common)
