"""An optimizer that is another one to everybody who looks at it."""

from __future__ import annotations

import sys
from typing import Any

import torch

from flockstep._errors import check_state_dict
from flockstep._torch_private import make_optimizer_hooks, optimizer_hooks

# Of a state_dict, beside "state" and "param_groups", where plain optimizers do not look. Torch's own tools for
# checkpoints drop it there, and keep what is in a parameter group: for them it is in the first one.
_ENTRY = "flockstep"
_TOOLS = "torch.distributed.checkpoint.state_dict"


class Around(torch.optim.Optimizer):
    """Its ``param_groups``, ``state`` and ``defaults`` are the inner optimizer's at all times; its hooks are its own.

    It has a state of its own beside that, which travels in the inner one's ``state_dict``: plain Python values.
    """

    _inner: torch.optim.Optimizer

    # Not Optimizer.__init__, which would make groups and state.
    def _go_around(self, inner: torch.optim.Optimizer) -> None:
        self._inner = inner
        make_optimizer_hooks(self)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._inner.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self._inner.param_groups = value

    @property
    def state(self) -> Any:
        return self._inner.state

    @state.setter
    def state(self, value: Any) -> None:
        self._inner.state = value

    @property
    def defaults(self) -> dict[str, Any]:
        return self._inner.defaults

    @defaults.setter
    def defaults(self, value: dict[str, Any]) -> None:
        self._inner.defaults = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._inner.zero_grad(set_to_none)

    def _own_state(self) -> dict[str, object]:
        raise NotImplementedError

    def _load_own_state(self, state: dict[str, Any] | None) -> None:
        """None where the loaded one is of an inner optimizer alone."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        for hook in optimizer_hooks(self, "state_dict_pre"):
            hook(self)
        state_dict = self._inner.state_dict()
        place = state_dict["param_groups"][0] if _is_called_by(_TOOLS) else state_dict
        place[_ENTRY] = self._own_state()
        for post_hook in optimizer_hooks(self, "state_dict_post"):
            changed = post_hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        check_state_dict(state_dict, ("state", "param_groups"), "an averager or an optimizer")
        state_dict = {**state_dict}
        for hook in optimizer_hooks(self, "load_state_dict_pre"):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = [{**group} for group in state_dict["param_groups"]]
        entries = [state_dict.pop(_ENTRY, None), *(group.pop(_ENTRY, None) for group in groups)]
        self._inner.load_state_dict({**state_dict, "param_groups": groups})
        self._load_own_state(next((entry for entry in entries if entry is not None), None))
        for post_hook in optimizer_hooks(self, "load_state_dict_post"):
            post_hook(self)


def _is_called_by(module: str) -> bool:
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith("flockstep.") and frame.f_back is not None:
        frame = frame.f_back
    return bool(frame.f_globals.get("__name__") == module)
