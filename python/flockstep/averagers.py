"""The averagers: optimizers that average models instead of gradients, each a form of :class:`Averager`."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import ClassVar, Literal

import torch
from torch import nn
from torch.distributed.algorithms.join import Joinable
from typing_extensions import Unpack

from flockstep import _native
from flockstep._options import takes
from flockstep.averager import COMMON_DEFAULTS, Averager, AveragerOptions

_BEFORE_OPTIONS = """\
    optimizer: updates the model of this worker.
    model: the model that it updates, plain or in DDP.
"""


class ElasticOptions(AveragerOptions, total=False):
    """Options of averagers that can continue without a lost worker.

    Args:
        elastic: True: workers may be lost, come back and be added while the others continue. Start the script with
            ``flockstep launch``; it needs no process group. Making the averager joins the workers that are present: the
            model becomes theirs, and :attr:`steps` their count. No call is collective, and :meth:`consolidate` averages
            the workers that are alive, and counts as a step.
        first_step: with ``elastic``: how many steps the loaded model has been trained for; used when no worker is there
            to join.
        checkpoint: with ``elastic``: the file of :meth:`save_checkpoint`. Model, optimizer and steps are read from it if
            it exists and no worker is there to join.
    """

    elastic: bool
    first_step: int
    checkpoint: str | os.PathLike[str] | None


ELASTIC_DEFAULTS: ElasticOptions = {"elastic": False, "first_step": 0, "checkpoint": None, **COMMON_DEFAULTS}


class RoundOptions(ElasticOptions, total=False):
    """Options of averaging in groups.

    Args:
        group_size: workers in a group, 2 to all; None: the power of two at or above the square root of their number.
        groups: who averages with whom: ``dynamic`` (other groups in every round), ``fixed`` (the same groups in every
            round) or ``nodes`` (the workers of a node, and every ``across``-th round those at the same place in their
            nodes). ``nodes`` does not take ``group_size``.
        across: with ``groups="nodes"``: every ``across``-th round goes across nodes, 2 or more; None: 4.
        workers_per_node: with ``groups="nodes"``: workers of a node, whose ranks are consecutive; None: the value of
            torchrun, mpirun or ``flockstep launch``; if none of them started the workers, all are one node.
        period: steps between rounds over all workers; with ``sync="rolling"`` also the bound on how far one worker may
            be ahead of another.
        activation: what starts a round: the ``first`` worker to arrive, a ``majority`` (half of the workers), a
            ``quorum``, or a ``deadline`` after the first; ``auto``: ``majority``, or with ``overlap`` ``deadline``.
        merge: how a model is merged with an average that was taken without it: ``additive`` or ``published``.
        sync: ``rolling``, or ``barrier``: the last round of a period waits for all workers.
        quorum: how many workers start a round with ``activation="quorum"``; None: all but one.
        deadline: how long after the first a round starts with ``activation="deadline"``; None: twice the median
            lateness.
        overlap: True: a step hands its model over and continues while the round is averaged; the change is added in a
            later step. It needs ``merge="additive"``.
        weights: how much a worker's update counts: ``mean`` (all the same), or by its agreement with the other updates:
            ``direction_consensus`` or ``geometric_median``, which need ``guard=True``.
    """

    group_size: int | None
    groups: Literal["dynamic", "fixed", "nodes"]
    across: int | None
    workers_per_node: int | None
    period: int
    activation: Literal["auto", "first", "majority", "quorum", "deadline"]
    merge: Literal["published", "additive"]
    sync: Literal["barrier", "rolling"]
    quorum: int | None
    deadline: timedelta | None
    overlap: bool
    weights: Literal["mean", "direction_consensus", "geometric_median"]


class PeriodOptions(AveragerOptions, total=False):
    """Options of periodic averaging.

    Args:
        period: steps from one average to the next; 1 averages after every step.
    """

    period: int


class LocalSGDOptions(PeriodOptions, total=False):
    """Options of periodic averaging that can overlap with steps.

    Args:
        overlap: True: steps continue while an average is computed; its change is added in a later step. A worker waits
            only if it reaches the next average before that.
    """

    overlap: bool


class PostLocalSGDOptions(PeriodOptions, total=False):
    """Options of periodic averaging after a start with averaged gradients.

    Args:
        switch_after: steps with averaged gradients before the first local one.
    """

    switch_after: int


class DiLoCoOptions(AveragerOptions, total=False):
    """Options of an outer optimizer over local steps.

    Args:
        period: steps from one outer step to the next, of each fragment.
        rate: learning rate of the outer optimizer.
        momentum: Nesterov momentum of the outer optimizer; with 0 and ``rate=1`` the averager is :class:`LocalSGD`.
        rule: the gradient rule that combines the updates of all workers.
        fragments: fragments of the model, which take turns within a period, so that less is sent at a time.
        delay: steps during which the update of a fragment travels, fewer than ``period / fragments``; the worker's own
            steps meanwhile are kept.
        alpha: share of the outer model in the model that a worker continues with, above 0 up to 1; the rest is its own.
        wire: the format in which updates are sent; the rounding error of ``bfloat16`` and ``int8`` is added to the next
            update.
        wait: False: outer steps do not wait. After each period groups of workers average as in :class:`Flock`, and each
            worker has its own outer momentum. It takes neither ``rule`` nor ``fragments``, ``delay``, ``alpha`` and
            ``wire``.
    """

    period: int
    rate: float
    momentum: float
    rule: Literal["mean", "normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median"]
    fragments: int
    delay: int
    alpha: float
    wire: Literal["float32", "bfloat16", "int8"]
    wait: bool


class DPSGDOptions(AveragerOptions, total=False):
    """Options of averaging with neighbours in a ring.

    Args:
        order: ``adapt_first`` (neighbours average models after the update) or ``combine_first`` (before the update,
            which is then added, as published).
    """

    order: Literal["adapt_first", "combine_first"]


class ADPSGDOptions(AveragerOptions, total=False):
    """Options of averaging in pairs after every step.

    Args:
        partners: with whom every second worker, from the lowest rank on, averages: ``random`` (any of the others) or
            ``fixed`` (those at the distances 1, 3, 5, 9, ... above and below it, in turn).
    """

    partners: Literal["random", "fixed"]


class SwarmOptions(AveragerOptions, total=False):
    """Options of periodic averaging in random pairs.

    Args:
        period: steps from one average to the next; 1 averages after every step.
    """

    period: int


class SGPOptions(AveragerOptions, total=False):
    """Options of stochastic gradient push.

    Args:
        neighbours: how many workers each worker sends to after a step, at most the base-2 logarithm of their number,
            rounded up.
    """

    neighbours: int


@takes(RoundOptions, before=_BEFORE_OPTIONS)
class Flock(Averager):
    """Averages models in wait-avoiding groups: rounds move a shared model, and updates are added to it.

    After every step a group of workers averages its models. The groups change from step to step, so that an update
    reaches all workers within a few steps. A round starts without late workers: their updates are added when they are
    ready, so that nothing is lost or diluted. No worker is ever more than ``period`` steps ahead of the slowest, and
    workers wait for nothing else.

    Example::

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = flockstep.Flock(optimizer, model)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
        optimizer.consolidate()
    """

    _algorithm = "flock"
    _defaults: ClassVar[RoundOptions] = {
        "group_size": None,
        "groups": "dynamic",
        "across": None,
        "workers_per_node": None,
        "period": 10,
        "activation": "auto",
        "merge": "additive",
        "sync": "rolling",
        "quorum": None,
        "deadline": None,
        "overlap": False,
        "weights": "mean",
        **ELASTIC_DEFAULTS,
    }

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[RoundOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(RoundOptions, before=_BEFORE_OPTIONS)
class Wagma(Averager):
    """Wait-avoiding group averaging as published (arXiv 2005.00124).

    After every step a group of workers averages its models. The first to arrive starts the round, and late workers
    contribute the model that they published last. Every ``period`` steps all workers wait for an average over all.

    Example::

        optimizer = flockstep.Wagma(torch.optim.Adam(model.parameters()), model, group_size=4)
    """

    _algorithm = "wagma"
    _defaults: ClassVar[RoundOptions] = {
        "group_size": None,
        "groups": "dynamic",
        "across": None,
        "workers_per_node": None,
        "period": 10,
        "activation": "first",
        "merge": "published",
        "sync": "barrier",
        "quorum": None,
        "deadline": None,
        "overlap": False,
        "weights": "mean",
        **ELASTIC_DEFAULTS,
    }

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[RoundOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(LocalSGDOptions, before=_BEFORE_OPTIONS)
class LocalSGD(Averager):
    """Takes ``period`` local steps, then averages the models of all workers, which wait for each other there.

    With ``overlap=True`` the average is computed in parallel with the next steps.

    Example::

        optimizer = flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, period=16)
    """

    _algorithm = "local_sgd"
    _defaults: ClassVar[LocalSGDOptions] = {"period": 8, "overlap": False, **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[LocalSGDOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(PostLocalSGDOptions, before=_BEFORE_OPTIONS)
class PostLocalSGD(Averager):
    """Averages gradients for ``switch_after`` steps, then continues as :class:`LocalSGD`.

    For a DDP model DDP averages the gradients of the first steps, with its communication hook if it has one, and is
    switched off then. For a plain model :meth:`step` averages them.

    Example::

        optimizer = flockstep.PostLocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, switch_after=1000)
    """

    _algorithm = "post_local_sgd"
    _defaults: ClassVar[PostLocalSGDOptions] = {"switch_after": 100, "period": 8, **COMMON_DEFAULTS}

    def __init__(
        self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[PostLocalSGDOptions]
    ) -> None:
        super().__init__(optimizer, model, **options)

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


@takes(DiLoCoOptions, before=_BEFORE_OPTIONS)
class DiLoCo(Averager):
    """Takes ``period`` local steps, then an outer optimizer moves the common model of all workers.

    It steps along the combined update of all workers with Nesterov momentum (arXiv 2311.08105). Workers wait for each
    other there, or with ``delay`` that many steps later. With ``fragments`` the parts of the model take turns
    (arXiv 2501.18512). With ``period=64`` and ``wire="int8"`` a worker sends 0.4% of what averaging gradients sends.

    Example::

        inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
        optimizer = flockstep.DiLoCo(inner, model, period=64, wire="int8")
    """

    _algorithm = "diloco"
    _defaults: ClassVar[DiLoCoOptions] = {
        "period": 64,
        "rate": 0.7,
        "momentum": 0.9,
        "rule": "mean",
        "fragments": 1,
        "delay": 0,
        "alpha": 1.0,
        "wire": "float32",
        "wait": True,
        **COMMON_DEFAULTS,
    }

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[DiLoCoOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(DPSGDOptions, before=_BEFORE_OPTIONS)
class DPSGD(Averager):
    """Decentralised SGD: after every step a worker averages its model with those of its two neighbours in a ring.

    Neighbours wait for each other (arXiv 1705.09056). With ``order="combine_first"`` they average the models from before
    the step, and each adds its own update to that average.

    Example::

        optimizer = flockstep.DPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "dpsgd"
    _defaults: ClassVar[DPSGDOptions] = {"order": "adapt_first", **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[DPSGDOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(ADPSGDOptions, before=_BEFORE_OPTIONS)
class ADPSGD(Averager):
    """Asynchronous decentralised SGD: models are averaged in pairs, in parallel with computation.

    Of the workers that are present, every second one, from the lowest rank on, has its model averaged after every step
    with that of one of the others, drawn at random unless ``partners="fixed"``. Nobody waits (arXiv 1710.06952).

    Example::

        optimizer = flockstep.ADPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "adpsgd"
    _defaults: ClassVar[ADPSGDOptions] = {"partners": "random", **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[ADPSGDOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(SGPOptions, before=_BEFORE_OPTIONS)
class SGP(Averager):
    """Stochastic gradient push: after every step a worker sends shares of its model to a few others.

    To those at hops of powers of two, in turn; workers wait for the shares that come to them (arXiv 1811.10792).

    Example::

        optimizer = flockstep.SGP(torch.optim.SGD(model.parameters(), lr=0.1), model, neighbours=2)
    """

    _algorithm = "sgp"
    _defaults: ClassVar[SGPOptions] = {"neighbours": 1, **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[SGPOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(SwarmOptions, before=_BEFORE_OPTIONS)
class Swarm(Averager):
    """Takes ``period`` steps, then has the model averaged with that of a random worker; nobody waits.

    Example::

        optimizer = flockstep.Swarm(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "swarm"
    _defaults: ClassVar[SwarmOptions] = {"period": 4, **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[SwarmOptions]) -> None:
        super().__init__(optimizer, model, **options)
