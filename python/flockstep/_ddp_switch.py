"""How an averager keeps DDP from synchronising beside it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from flockstep import _native
from flockstep._errors import BadInputError
from flockstep._torch_private import (
    STATIC_GRAPH_IS_KNOWN,
    SYNCHRONISES_NOTHING,
    comm_hooks,
    delays_all_reduce,
    forward_pre_hooks,
    parameters_of_half_made,
    reducer_of,
)


def check_ddp(module: DistributedDataParallel, holder: str) -> None:
    """Raises :class:`flockstep.BadInputError` for a DDP module that cannot be kept from what it does beside ``holder``."""
    if module.mixed_precision is not None:
        raise BadInputError(
            f"DDP's mixed_precision moves parameters behind {holder}'s back: use torch.autocast instead"
        )
    if delays_all_reduce(module):
        raise BadInputError(
            f"DDP's delay_all_reduce_named_params waits for all workers in every backward pass, beside {holder}: leave it out"
        )


def check_no_hook(module: DistributedDataParallel, holder: str) -> None:
    """Raises :class:`flockstep.BadInputError` for a communication hook, which would never run."""
    if comm_hooks(module):
        raise BadInputError(
            f"the DDP model has a communication hook, which would never run, because {holder} averages models and "
            "not gradients: use one of them"
        )


def is_off(module: DistributedDataParallel) -> bool:
    """Whether an averager keeps it from synchronising."""
    return any(isinstance(hook, _Off) and hook.is_in_force() for hook in forward_pre_hooks(module).values())


class _Off:
    """Keeps one DDP module from synchronising.

    A forward pre-hook, so that whatever a script writes to the module between forward passes does not count. In a copy of
    the module it does nothing.
    """

    def __init__(self, module: DistributedDataParallel, before: dict[str, Any] | None = None) -> None:
        self.module = module
        self.before = before  # None as long as it was never written to
        self._handle: RemovableHandle | None = module.register_forward_pre_hook(self)

    def __getstate__(self) -> dict[str, object]:
        return {"_handle": None}

    def is_in_force(self) -> bool:
        return self._handle is not None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: DistributedDataParallel, inputs: object) -> None:
        if self.is_in_force():
            self.write()

    def write(self) -> None:
        if self.before is None:
            self.before = {
                name: getattr(self.module, name) for name in SYNCHRONISES_NOTHING if hasattr(self.module, name)
            }
        for name in self.before:
            setattr(self.module, name, SYNCHRONISES_NOTHING[name])

    def end(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        for name, value in (self.before or {}).items():
            setattr(self.module, name, value)
        if not (self.before or {}).get(STATIC_GRAPH_IS_KNOWN, True):
            warnings.warn(
                "a DDP model with static_graph has had its first backward passes without synchronisation, and would not "
                "synchronise correctly now: wrap its module in DDP again before you train it without an averager",
                stacklevel=2,
            )


class _OffForGood(_Off):
    """Of a DDP module that the averager was not given.

    One that is new, so just being made, is looked at when it is called: by then a script may have written to it.
    """

    def __init__(self, module: DistributedDataParallel, holder: str, *, is_new: bool) -> None:
        super().__init__(module)
        self._holder = holder
        self._is_new = is_new

    def write(self) -> None:
        if self.before is not None:
            return super().write()
        check_ddp(self.module, self._holder)
        check_no_hook(self.module, self._holder)
        super().write()
        if self._is_new:
            self.before = {
                **(self.before or {}),
                "require_backward_grad_sync": True,
                "require_forward_param_sync": True,
            }


class DdpSwitch:
    """Whether DDP synchronises gradients and buffers of a model, which waits for everybody.

    Attributes:
        modules: the DDP modules in the model. Others that have its parameters, such as the one around it where
            ``ddp.module`` was given, or one that is made later, are off from :meth:`watch` to :meth:`end`.
    """

    def __init__(self, model: nn.Module, holder: str) -> None:
        self.modules = [module for module in model.modules() if isinstance(module, DistributedDataParallel)]
        self._holder = holder
        self._parameters: set[int] = set()  # identities
        self._off: list[_Off] = []
        self._before: list[dict[str, Any] | None] = []  # of a copy whose modules were off
        self._others: list[_OffForGood] = []
        self._registration: RemovableHandle | None = None

    def __getstate__(self) -> dict[str, Any]:
        before = [each.before for each in self._off]
        return {**self.__dict__, "_off": [], "_before": before, "_others": [], "_registration": None}

    def check_no_hook(self) -> None:
        for module in self.modules:
            check_no_hook(module, self._holder)

    def watch(self, model: nn.Module) -> None:
        """Finds the others."""
        self._parameters = {id(parameter) for parameter in model.parameters()}
        # A search through everything there is, which takes a moment: only where there may be some.
        found = self._find_others() if _native.have_hooks(list(model.parameters())) else []
        if found:
            gc.collect()  # they may be garbage
            found = self._find_others()
        for module in found:
            self._others.append(_OffForGood(module, self._holder, is_new=False))
            self._others[-1].write()
        self._registration = register_module_module_registration_hook(self._take_new)

    # Nobody keeps a list of DDP modules. By their exact types, which is faster than isinstance().
    def _find_others(self) -> list[DistributedDataParallel]:
        kinds = [DistributedDataParallel]
        for kind in kinds:
            kinds.extend(kind.__subclasses__())
        known = frozenset(kinds)
        found = [each for each in gc.get_objects() if type(each) in known and each not in self.modules]
        return [each for each in found if self._shares(parameters_of_half_made(each))]

    # As soon as it has got its module, before it has a reducer.
    def _take_new(self, module: nn.Module, name: str, submodule: nn.Module | None) -> None:
        parameters = () if submodule is None else submodule.parameters()
        if isinstance(module, DistributedDataParallel) and self._shares(parameters):
            self._others.append(_OffForGood(module, self._holder, is_new=True))

    def _shares(self, parameters: Iterable[nn.Parameter]) -> bool:
        return any(id(parameter) in self._parameters for parameter in parameters)

    def off(self) -> None:
        if self._off:
            return
        before = self._before or [None] * len(self.modules)
        self._off = [_Off(module, values) for module, values in zip(self.modules, before, strict=True)]
        for each in self._off:
            each.write()

    def check_off(self) -> None:
        """Raises :class:`flockstep.BadInputError` where DDP has synchronised all the same, which it keeps a note of."""
        for each in [*self._off, *self._others]:
            if reducer_of(each.module) is None:
                continue  # its making has failed
            if each.before is not None and each.module.require_forward_param_sync:
                raise BadInputError(
                    f"DDP has synchronised gradients beside {self._holder}, which waits for all workers: call the model "
                    "as model(inputs), not model.forward(inputs)"
                )
            each.write()

    def restore(self) -> None:
        """DDP modules in the model synchronise as before."""
        for each in self._off:
            each.end()
        self._off, self._before = [], []

    def end(self) -> None:
        """All of them do."""
        if self._registration is not None:
            self._registration.remove()
        self._registration = None
        self.restore()
        for other in self._others:
            other.end()
        self._others = []
