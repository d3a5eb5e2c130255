"""The base of hooks whose coefficients come from sketches: begins and ends backward passes, and reports on them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from flockstep import _native
from flockstep._exchange import Records, exchange_for
from flockstep._scaling import Pass, multiply

PassKind = TypeVar("PassKind", bound=Pass[Any])


class Sketching:
    """One backward pass after the other.

    Args:
        native: what holds the state and decides.
        group: over all workers, whose collectives carry the records.
        device: of the gradients.
        timeout: of every wait for the others.
        loss: what is known of a lost peer.
    """

    def __init__(
        self,
        native: _native.SketchedHook,
        group: dist.ProcessGroup,
        device: torch.device,
        timeout: timedelta,
        loss: Callable[[], str],
    ) -> None:
        self._native = native
        self._group = group
        # Either kind goes with passes of its own.
        self._exchange: Any = exchange_for(native, group, device, timeout)
        self._exchange.loss = self._loss = loss
        self._records: Records | None = None
        self._has_agreed = self._has_passed = False

    def _begin_pass(
        self, kind: type[PassKind], buckets: int, has_gradient: bool, weight: float, divides_by_all: bool
    ) -> PassKind:
        self._exchange.begin()
        self._raise_failure()
        if not self._has_agreed:
            self._native.agree()
            self._has_agreed = True
        plan = self._native.plan()
        self._exchange.set_factors()
        self._records = self._exchange.records(buckets, (buckets if plan.by_bucket else 1) if plan.sketches else 0)
        if not plan.uses_weights:
            weight = float(has_gradient)
        share: float | None = 1.0
        if plan.is_blind:
            share = 1 / self._group.size() if divides_by_all and not plan.uses_weights else None
        begun = kind(plan, buckets, weight, share, self._records.sketches, self._records.norms)
        if share is None:
            weights = self._exchange.weights(weight)
            summing = self._group.allreduce([weights])
            begun.total = self._exchange.scaling.total_before(), weights, summing
        return begun

    def _end_pass(self, current: Pass[Any], end: int) -> None:
        self._native.end_pass(current.sizes, current.known)
        self._has_passed = True
        head = self._native.head(current.weight, end)
        self._exchange.end(current, self._records, head)

    def _raise_failure(self) -> None:
        if self._exchange.failure is not None:
            raise self._exchange.failure
        self._native.check()

    # What goes wrong is kept for the next pass.
    def _finish(self) -> None:
        self._exchange.finish()

    def set_rule(self, rule: str, options: dict[str, str]) -> None:
        """Asks for another rule: from the step on after the first by which all have asked."""
        self._native.set_rule(rule, options)

    def remember(self, step: int, memory: list[list[float]]) -> None:
        """Goes on from there."""
        self._finish()
        self._native.remember(step, memory)
        self._exchange.forget()

    def report(self) -> dict[str, Any]:
        """What the last step told."""
        self._finish()
        return self._native.report()

    def findings(self) -> list[str]:
        """What is suspicious so far."""
        self._finish()
        return self._native.findings()

    def raised(self) -> list[str]:
        """The same, as it was said first, as far as it is known: waits for nothing."""
        return self._native.raised()

    def memory(self) -> tuple[str, list[list[float]]]:
        """Returns what a resumed training needs, and the rule that it belongs to."""
        self._finish()
        return self._native.memory()

    def close(self) -> None:
        """Waits for what is under way. A second call does nothing."""
        with suppress(RuntimeError):
            self._finish()


def divide_anew(result: Tensor, current: Pass[Any]) -> None:
    """By the sum of this pass's weights, where that of the last one's was divided by: it was not known then."""
    assert current.total is not None
    before, weights, summing = current.total
    summing.wait()
    multiply(result, torch.where(weights > 0, before / weights, 0))
