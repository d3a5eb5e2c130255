"""The gradient rules, as states for communication hooks of DistributedDataParallel; hooks.py registers them."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import Unpack

from flockstep._gradient_state import GradientState
from flockstep._options import takes
from flockstep._rule_options import (
    AdaConsOptions,
    DirectionConsensusOptions,
    GeometricMedianOptions,
    MeanOptions,
    RuleOptions,
    common_defaults,
)


@takes(MeanOptions)
class MeanState(GradientState):
    """Plain averaging: the same result as DDP's own, up to rounding, with the reports of the other rules."""

    _algorithm = "mean"
    _defaults: ClassVar[MeanOptions] = {"divide_by_initial_world_size": None, **common_defaults("mean")}

    def __init__(self, **options: Unpack[MeanOptions]) -> None:
        super().__init__(**options)


@takes(RuleOptions)
class WeightedMeanState(GradientState):
    """The mean over all samples, for batches of different sizes.

    Set ``state.weight`` to the number of samples of this rank's batch before each backward pass.
    """

    _algorithm = "weighted_mean"
    _defaults: ClassVar[RuleOptions] = common_defaults("weighted_mean")

    def __init__(self, **options: Unpack[RuleOptions]) -> None:
        super().__init__(**options)


@takes(RuleOptions)
class NormalizedMeanState(GradientState):
    """The mean of directions: every gradient is divided by its norm first."""

    _algorithm = "normalized_mean"
    _defaults: ClassVar[RuleOptions] = common_defaults("normalized_mean")

    def __init__(self, **options: Unpack[RuleOptions]) -> None:
        super().__init__(**options)


@takes(AdaConsOptions)
class AdaConsState(GradientState):
    """AdaCons (arXiv 2411.03742): workers are weighted by the agreement of their directions with the sum of gradients."""

    _algorithm = "adacons"
    _defaults: ClassVar[AdaConsOptions] = {
        "beta": 0.99,
        "negative": "keep",
        "permutation": "inverse",
        **common_defaults("adacons"),
    }

    def __init__(self, **options: Unpack[AdaConsOptions]) -> None:
        super().__init__(**options)


@takes(DirectionConsensusOptions)
class DirectionConsensusState(GradientState):
    """Each worker is weighted by the agreement of its direction with the other directions, whatever its norm."""

    _algorithm = "direction_consensus"
    _defaults: ClassVar[DirectionConsensusOptions] = {"beta": 0.9, **common_defaults("direction_consensus")}

    def __init__(self, **options: Unpack[DirectionConsensusOptions]) -> None:
        super().__init__(**options)


@takes(GeometricMedianOptions)
class GeometricMedianState(GradientState):
    """The geometric median, which a minority of faulty workers cannot move far."""

    _algorithm = "geometric_median"
    _defaults: ClassVar[GeometricMedianOptions] = {"on": "directions", **common_defaults("geometric_median")}

    def __init__(self, **options: Unpack[GeometricMedianOptions]) -> None:
        super().__init__(**options)


@takes(RuleOptions)
class AdasumState(GradientState):
    """Adasum over a tree of pairs: orthogonal gradients add up, parallel ones are averaged."""

    _algorithm = "adasum"
    _defaults: ClassVar[RuleOptions] = common_defaults("adasum")

    def __init__(self, **options: Unpack[RuleOptions]) -> None:
        super().__init__(**options)
