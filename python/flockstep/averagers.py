"""The averagers: optimizers that average models instead of gradients, each a form of :class:`Averager`."""

from __future__ import annotations

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
    """What averagers take that can go on without a lost worker.

    Args:
        elastic: True: workers may be lost, come back and be added while the others go on; the script is started with
            ``flockstep launch`` and needs no process group. Making the averager joins those that are there: the model
            becomes theirs, and :attr:`steps` what they count. Nothing is collective, and :meth:`consolidate` averages
            those who live; in :class:`Flock` and :class:`Wagma` it counts as a step.
        first_step: with ``elastic``: the steps that the model was loaded after, for when nobody is there to join.
    """

    elastic: bool
    first_step: int


ELASTIC_DEFAULTS: ElasticOptions = {"elastic": False, "first_step": 0, **COMMON_DEFAULTS}


class RoundOptions(ElasticOptions, total=False):
    """What averaging in groups takes.

    Args:
        group_size: workers in a group, 2 to all; None: the power of two at or above the square root of their number.
        groups: who averages with whom: ``dynamic`` (other groups in every round), ``fixed`` (the same ones in every
            round) or ``nodes`` (the workers of a node, and every ``across``-th round those at the same place in their
            nodes). With ``nodes``, ``group_size`` is not taken.
        across: with ``groups="nodes"``: every so many rounds one goes across nodes, 2 or more; None: 4.
        workers_per_node: with ``groups="nodes"``: workers of a node, whose ranks are consecutive; None: as torchrun,
            mpirun or ``flockstep launch`` has it. Where none of them has started the workers, all are of one node.
        period: every so many steps the round is over all workers, and with ``sync="rolling"`` nobody is so many steps
            ahead of anybody.
        activation: who starts a round: ``first`` (to arrive), ``majority`` (half of the workers), ``quorum``, or
            ``deadline`` (so long after the first); ``auto``: ``majority``, or with ``overlap`` ``deadline``.
        merge: how a model meets an average that was taken without it: ``additive`` or ``published``.
        sync: ``rolling``, or ``barrier``: the last round of a period waits for all.
        quorum: how many start a round with ``activation="quorum"``; None: all but one.
        deadline: how long after the first a round starts with ``activation="deadline"``; None: twice the median
            lateness.
        overlap: True: a step hands over what it has and goes on while its round is averaged; what the round changes is
            added in a later step. It needs ``merge="additive"``.
        weights: how much a worker's update counts: ``mean``, all alike, or by how well it agrees with the updates of
            others, ``direction_consensus`` or ``geometric_median``, which need ``guard=True``.
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
    """What averaging at times takes.

    Args:
        period: steps from one average to the next; 1 averages after every step.
    """

    period: int


class LocalSGDOptions(PeriodOptions, total=False):
    """What averaging at times takes where steps may go on beside it.

    Args:
        overlap: True: steps go on while an average is made; what it changes is added in a later step. A worker waits only
            where it comes to the next average before that.
    """

    overlap: bool


class PostLocalSGDOptions(PeriodOptions, total=False):
    """What averaging at times after a start with averaged gradients takes.

    Args:
        switch_after: steps with averaged gradients before the first local one.
    """

    switch_after: int


class DiLoCoOptions(AveragerOptions, total=False):
    """What an outer optimizer over local steps takes.

    Args:
        period: steps from one outer step to the next, of each fragment.
        rate: learning rate of the outer optimizer.
        momentum: Nesterov momentum of the outer optimizer; with 0 and ``rate=1`` the averager is :class:`LocalSGD`.
        rule: how the updates of all workers become one: ``mean``, or a gradient rule in its place.
        fragments: fragments of the model, which take turns within a period, so that less is sent at a time.
        delay: steps under which the update of a fragment travels, fewer than ``period / fragments``; what a worker does
            meanwhile is kept.
        alpha: share of the outer model in what a worker goes on with, above 0 up to 1; the rest is its own.
        wire: the format in which updates travel; what ``bfloat16`` and ``int8`` lose of one is added to the next.
        wait: False: outer steps wait for nobody. After each period groups of workers average as in :class:`Flock`, and
            each worker has an outer momentum of its own. It takes neither ``rule`` nor ``fragments``, ``delay``,
            ``alpha`` and ``wire``.
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
    """What averaging with neighbours in a ring takes.

    Args:
        order: ``adapt_first`` (neighbours average models that are updated) or ``combine_first`` (those before the update,
            which is then added, as published).
    """

    order: Literal["adapt_first", "combine_first"]


class ADPSGDOptions(ElasticOptions, total=False):
    """What averaging in pairs after every step takes.

    Args:
        partners: whom a worker of the first half averages with: ``random`` (anybody of the other half) or ``fixed`` (those
            at the distances 1, 3, 5, 9, ... above and below it, in turn).
    """

    partners: Literal["random", "fixed"]


class SwarmOptions(ElasticOptions, total=False):
    """What averaging in random pairs at times takes.

    Args:
        period: steps from one average to the next; 1 averages after every step.
    """

    period: int


class SGPOptions(AveragerOptions, total=False):
    """What stochastic gradient push takes.

    Args:
        neighbours: workers that one sends to after a step, at most the logarithm of their number.
    """

    neighbours: int


@takes(RoundOptions, before=_BEFORE_OPTIONS)
class Flock(Averager):
    """Averages models in groups that wait for nobody: rounds move a shared model, and updates are added to it.

    After every step a group of workers averages its models; which groups there are changes from step to step, so that
    what one has learnt reaches all within a few steps. A round starts without those who are late: their updates are
    added when they are ready, so that nothing is lost or diluted. Nobody is ever more than ``period`` steps ahead of
    the slowest worker, and nobody waits for anything else.

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

    After every step a group of workers averages its models; the first to arrive starts the round, and those who are
    late contribute what they had published last. Every ``period`` steps all wait for an average over everybody.

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
    """Takes ``period`` steps alone, then averages the models of all workers, who wait for each other there.

    With ``overlap=True`` the average is made beside the next steps.

    Example::

        optimizer = flockstep.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, period=16)
    """

    _algorithm = "local_sgd"
    _defaults: ClassVar[LocalSGDOptions] = {"period": 8, "overlap": False, **COMMON_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[LocalSGDOptions]) -> None:
        super().__init__(optimizer, model, **options)


@takes(PostLocalSGDOptions, before=_BEFORE_OPTIONS)
class PostLocalSGD(Averager):
    """Averages gradients for ``switch_after`` steps, then goes on as :class:`LocalSGD`.

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
    """Takes ``period`` steps alone, then an outer optimizer moves the model that all workers go on from.

    It steps along the combined update of all workers with Nesterov momentum (arXiv 2311.08105). Workers wait for each
    other there, or with ``delay`` so many steps later. With ``fragments`` the parts of the model take turns
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
    """Asynchronous decentralised SGD: beside the computing, models are averaged in pairs.

    Every second worker, beginning with the lowest rank of those that are there, has its model averaged after every step
    with that of one of the others, drawn at random unless ``partners="fixed"``; nobody waits (arXiv 1710.06952).

    Example::

        optimizer = flockstep.ADPSGD(torch.optim.SGD(model.parameters(), lr=0.1), model)
    """

    _algorithm = "adpsgd"
    _defaults: ClassVar[ADPSGDOptions] = {"partners": "random", **ELASTIC_DEFAULTS}

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
    _defaults: ClassVar[SwarmOptions] = {"period": 4, **ELASTIC_DEFAULTS}

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, **options: Unpack[SwarmOptions]) -> None:
        super().__init__(optimizer, model, **options)
