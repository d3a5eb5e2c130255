"""What a gradient rule remembers from step to step, and carries over a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flockstep._errors import BadInputError, check_state_dict
from flockstep._hook import Hook
from flockstep._warning import Line, warn


class RemembersRule:
    """The part of :class:`GradientState` that goes on from an earlier training: rule, step and memory."""

    _hook: Hook | None
    _rule: str
    _step: int
    _memory: list[list[float]]
    _memory_transfer: str  # the transfer that the memory belongs to
    _transfer: str  # of the hook
    _line: Line

    @property
    def rule(self) -> str:
        """The name of the rule that the last step followed; before the first one, of the rule that was asked for."""
        return self._rule if self._hook is None else str(self._hook.report()["rule"])

    @property
    def step(self) -> int:
        """How many gradients have been combined."""
        return self._step if self._hook is None else int(self._hook.report()["step"])

    def _kept(self) -> list[list[float]]:
        return self._memory if self._memory_transfer == self._transfer else self._without_memory()

    # The other transfer's means nothing here.
    def _without_memory(self) -> list[list[float]]:
        if self._memory:
            other = self._memory_transfer
            warn(
                f'what {self._rule} remembers was saved with transfer="{other}" and starts anew with "{self._transfer}": '
                f'take transfer="{other}" to go on with it',
                self._line,
            )
        self._memory, self._memory_transfer = [], self._transfer
        return []

    def _transfer_of_memory(self) -> str:
        return self._memory_transfer if self._hook is None else self._transfer

    # The rule that the memory belongs to, and the memory. A new rule counts once all ranks have asked for it.
    def _current_memory(self) -> tuple[str, list[list[float]]]:
        return (self._rule, self._memory) if self._hook is None else self._hook.memory()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs of the rule.

        Returns:
            Plain values, the same on all ranks, for a checkpoint.
        """
        rule, memory = self._current_memory()
        return {"rule": rule, "step": self.step, "memory": memory, "transfer": self._transfer_of_memory()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from a :meth:`state_dict`, on all ranks alike.

        What a rule remembers of another number of workers is re-sampled if it belongs to places in an order (``adacons``),
        and starts anew if it belongs to workers.

        Args:
            state_dict: what :meth:`state_dict` returned, of the same rule.

        Raises:
            BadInputError: for the state of another rule, or of something else.
        """
        check_state_dict(state_dict, ("rule", "step", "memory"), "a gradient rule")
        if state_dict["rule"] != self._rule:
            raise BadInputError(
                f"this is the state of {state_dict['rule']}, and the rule is {self._rule}: make a state of that rule, "
                "or call set_rule() first"
            )
        try:
            memory = [[float(value) for value in section] for section in state_dict["memory"]]
            self._step, self._memory = int(state_dict["step"]), memory
        except (TypeError, ValueError):
            raise BadInputError(
                "load_state_dict() takes what state_dict() of a gradient rule returned: step and memory of this one are no "
                "numbers"
            ) from None
        self._memory_transfer = state_dict.get("transfer", "exact")
        if self._hook is not None:
            is_ours = self._memory_transfer == self._transfer
            self._hook.remember(self._step, self._memory if is_ours else self._without_memory())
