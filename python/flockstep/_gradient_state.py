"""What stands behind every gradient rule: the state that a communication hook of DistributedDataParallel is given."""

from __future__ import annotations

import copy
import itertools
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, cast

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from flockstep import _native
from flockstep._errors import BadInputError, DeadlineExceededError, Error, UnavailableError, in_words_of_python
from flockstep._gradient_report import TellsOfWorkers
from flockstep._gradient_states import open_states, uncalled
from flockstep._hook import BucketHook, Hook
from flockstep._meeting import Agreed
from flockstep._options import TakesOptions, check_types, nearest_to
from flockstep._rule_memory import RemembersRule
from flockstep._rule_options import RuleOptions, common_defaults
from flockstep._sharded_hook import ShardedHook
from flockstep._sketched_hook import SketchedHook
from flockstep._telemetry import Recorder
from flockstep._torch_private import (
    GradBucket,
    ShardedGroup,
    divides_by_initial_world_size,
    local_used_map,
    reduced_parameters,
    timeout_of,
    zero_buckets,
)
from flockstep._transfer import as_words, checked_seed, checked_weight, transfer_of, transfer_of_sharded
from flockstep._warning import users_line, warn
from flockstep._worker import Attached, attach

REGISTERED = "registered a gradient rule"  # as errors tell what a rank has done, or has not
_ANY_NUMBER_OF_WORKERS = 2**31 - 1
_numbers = itertools.count()


def check_rule(rule: str, options: dict[str, str]) -> None:
    try:
        _native.check_rule(rule, options, _ANY_NUMBER_OF_WORKERS)
    except Error as error:
        raise in_words_of_python(error, rule) from None


def _decided(hook: Hook | _native.SketchedHook) -> Callable[[], int]:
    """Returns a function that counts steps as the thread that carries gradients does, which may be behind."""
    return lambda: int(hook.report()["step"])


# No reference to the state, which what asks for a loss may outlive.
def _loss(attached: Attached, steps: Callable[[], int], *, can_join: bool) -> Callable[[], str]:
    """Returns a function that says which peer is lost, and in which step; an empty text if none is known to be."""
    return lambda: attached.native.loss(steps() + 1, can_join)


def _check_capturing(gradient: torch.Tensor) -> None:
    if gradient.is_cuda and torch.cuda.is_current_stream_capturing():
        raise BadInputError(
            "a CUDA graph is being captured, and coefficients change from step to step: capture forward and backward "
            "under no_sync(), or register no gradient rule"
        )


def _granularity(options: Mapping[str, str]) -> str:
    return options.get("granularity", "model")


class GradientState(RemembersRule, TellsOfWorkers, TakesOptions):
    """The state of a gradient rule: what :func:`register` returns, or one of its subclasses.

    It can be pickled and copied, with what the rule remembers, and gets a worker of its own where it is used next; not
    with a ``process_group`` of its own. A copy of a DDP model has lost its communication hook. It says so in its next
    forward pass outside of ``torch.no_grad()`` if the hook was registered with :func:`register`; with
    ``register_comm_hook``, ``copy.deepcopy(ddp_model)`` warns, but a model from a pickle is silent.
    """

    _algorithm: ClassVar[str]
    _defaults: ClassVar[RuleOptions]

    def __init__(self, **given: Any) -> None:
        options = self._completed(given)
        process_group = options.pop("process_group")
        self._start_step, self._run_dir, self._timeout = map(options.pop, ("start_step", "run_dir", "timeout"))
        self._divide_by_initial_world_size: bool | None = options.pop("divide_by_initial_world_size", None)
        if self._start_step < 0:
            raise BadInputError(f"start_step is a number of steps, 0 or more, not {self._start_step}")
        self._seed = checked_seed(options.pop("seed"))
        self._rule, self._options = self._algorithm, as_words(options)
        transfer_of(self._rule, self._options)
        check_rule(self._rule, self._options)
        self._step = 0
        self._memory: list[list[float]] = []
        self._memory_transfer = "exact"  # the transfer that the memory belongs to
        self._weight = 1.0
        self._line = users_line()
        self._number = next(_numbers)
        uncalled[self._number] = (type(self).__name__, self._rule, self._line)
        self._forget_worker(process_group)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{nearest_to(name, known)}")
        super().__setattr__(name, value)

    def _forget_worker(self, process_group: dist.ProcessGroup | None = None) -> None:
        self._process_group = process_group
        self._attached: Attached | None = None
        self._hook: Hook | None = None
        self._sharded_hook: ShardedHook | None = None  # the same, where it is one
        self._transfer = ""  # of the hook
        self._loss: Callable[[], str] = str
        self._model: weakref.ref[DistributedDataParallel] | None = None
        self._warnings = 0
        self._closed = False

    # What a copy or another process needs: no worker, no model.
    def __getstate__(self) -> dict[str, object]:
        if self._process_group not in (None, dist.group.WORLD):
            raise BadInputError(
                f"this state of {self._rule} has a process_group of its own, which cannot be copied or pickled with it: "
                "make another state and give it the state_dict() of this one"
            )
        self._settle()  # the copy may be the one that is used, in another process
        kept = {"_rule", "_options", "_start_step", "_run_dir", "_timeout", "_divide_by_initial_world_size", "_weight"}
        kept |= {"_seed", "_line", "_number"}
        values = {name: value for name, value in self.__dict__.items() if name in kept}
        rule, memory = self._current_memory()
        memory = memory if rule == self._rule else []
        return {**values, "_step": self.step, "_memory": memory, "_memory_transfer": self._transfer_of_memory()}

    def __deepcopy__(self, memo: dict[int, object]) -> GradientState:
        is_of_a_model = any(isinstance(each, DistributedDataParallel) for each in memo.values())
        if is_of_a_model and self._hook is not None and self._model is None:
            warnings.warn(
                "this copy of a DDP model has lost its communication hook and would train with plain averages: register "
                "one on it again",
                RuntimeWarning,
                stacklevel=2,
            )
        other = object.__new__(type(self))
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other

    def __setstate__(self, values: dict[str, object]) -> None:
        self.__dict__.update(values)
        self._forget_worker()

    def _attach(self, device: torch.device, model: DistributedDataParallel | None = None) -> BucketHook:
        self._transfer = transfer_of(self._rule, self._options)
        numbers = 0
        group = self._process_group
        more = [("gradients on", device.type)]
        if model is not None:
            self._model = weakref.ref(model)
            group = group or model.process_group
            numbers = sum(parameter.numel() for _, _, parameter in reduced_parameters(model))
            more.append(("parameters in all", str(numbers)))
        attached = self._connect(group, more)
        group = group or dist.group.WORLD
        assert group is not None
        hook: BucketHook
        if self._transfer == "exact":
            worker, recording = attached.native, self._recorder.native
            arguments = (worker, self._rule, self._options, self._start_step, self._step, self._kept(), recording)
            is_streamed = device.type == "cuda" and "cuda:nccl" in dist.get_backend_config(group)
            hook = _native.StreamHook(*arguments, device) if is_streamed else _native.CommunicationHook(*arguments)
            self._loss = _loss(attached, _decided(hook), can_join=True)
        else:
            carrying, is_ours = self._carrying(group, device, attached)
            timeout = self._timeout or timeout_of(group)
            native = self._deciding(attached, numbers)
            self._loss = _loss(attached, _decided(native), can_join=True)
            hook = SketchedHook(native, carrying, device, timeout=timeout, is_ours=is_ours, loss=self._loss)
        self._hook = hook
        open_states.add(self)
        return hook

    def _attach_sharded(self, device: torch.device, group: dist.ProcessGroup, named: dict[str, ShardedGroup]) -> None:
        """The same for a sharded model, whose modules have these parameters."""
        self._transfer = transfer_of_sharded(self._options)
        groups = [*named.values()]
        sizes = [(f"parameters in sharded {name}:", str(each.numbers)) for name, each in named.items()]
        attached = self._connect(
            group, [("gradients on", device.type), ("modules under fully_shard():", str(len(groups))), *sizes]
        )
        carrying, _ = self._carrying(group, device, attached)
        timeout = self._timeout or timeout_of(group)
        native = self._deciding(attached, sum(each.numbers for each in groups))
        self._loss = _loss(attached, native.passes, can_join=False)
        self._hook = self._sharded_hook = ShardedHook(
            native, carrying, device, timeout=timeout, groups=groups, loss=self._loss
        )
        open_states.add(self)

    # Of what workers agree on, only the step may change before the first backward pass: that is compared again there.
    def _connect(self, group: dist.ProcessGroup | None, more: Agreed) -> Attached:
        if self._closed:
            raise UnavailableError(f"this state of {self._rule} was closed")
        agreed = [("rule", self._rule), *self._options.items(), ("start_step", str(self._start_step))]
        agreed += [("seed", str(self._seed)), ("divide_by_initial_world_size", str(self._divide_by_initial_world_size))]
        agreed += [*more, ("step", str(self._step))]
        try:
            attached = self._attached = attach(group, deadline=self._timeout, what=REGISTERED, agreed=agreed)
        except DeadlineExceededError as error:
            if group is not None:
                raise
            raise DeadlineExceededError(
                f"{error}; a model that has a process group of its own needs it here, too: "
                f"{type(self).__name__}(process_group=...)"
            ) from error
        self._recorder = Recorder(attached, self._run_dir, self._rule, self._options)
        return attached

    def _deciding(self, attached: Attached, numbers: int) -> _native.SketchedHook:
        return _native.SketchedHook(
            attached.native,
            self._rule,
            self._options,
            self._start_step,
            self._step,
            self._kept(),
            self._recorder.native,
            self._seed,
            numbers,
        )

    # A group that carries what sketches need, and whether it is of our own.
    def _carrying(
        self, group: dist.ProcessGroup, device: torch.device, attached: Attached
    ) -> tuple[dist.ProcessGroup, bool]:
        if device.type != "cpu" or "cpu:gloo" not in dist.get_backend_config(group):
            return group, False
        # It has the collectives of a ProcessGroup, whatever torch's type hints say.
        return cast(dist.ProcessGroup, attached.make_group("buckets")), True

    # Nothing to be said about it at the end.
    def _settle(self) -> None:
        uncalled.pop(self._number, None)

    # The hook.
    def _add(self, bucket: GradBucket) -> Future[torch.Tensor]:
        self._settle()
        _check_capturing(bucket.buffer())
        hook = cast(BucketHook, self._hook) if self._hook is not None else self._attach(bucket.buffer().device)
        if bucket.index() == 0:
            self._warn(hook)
        return hook.add(bucket, self._weight, self._divides_by_all())

    # What scales the gradients of a sharded model.
    def _sharded(self, gradient: torch.Tensor) -> ShardedHook:
        self._settle()
        _check_capturing(gradient)
        if self._sharded_hook is None or self._closed:
            raise UnavailableError(
                f"this state of {self._rule} was closed: to train on, shard a new model and register a rule on it"
            )
        if not self._sharded_hook.is_under_way:
            self._warn(self._sharded_hook)
        return self._sharded_hook

    # Only plain averaging asks; every rule can be set to that, or begin with it.
    def _divides_by_all(self) -> bool:
        if self._divide_by_initial_world_size is not None:
            return self._divide_by_initial_world_size
        return divides_by_initial_world_size(self._model() if self._model is not None else None)

    def _begin(self) -> None:
        if self._hook is not None:
            self._hook.begin()

    # The next forward pass begins. If the backward pass before it broke off, the others still wait for its rest: for
    # buckets, and for what DDP itself exchanges behind them. Whether that pass has failed, which it has on all ranks.
    def _abandon(self, model: DistributedDataParallel, broke_off: bool) -> bool:
        if self._hook is None:
            return False
        hook = cast(BucketHook, self._hook)
        if not broke_off:
            return hook.abandon()
        zeros = zero_buckets(model)
        is_whole = hook.handed_over() == len(zeros)
        hook.break_off(zeros)
        if model.find_unused_parameters and not model.static_graph and not is_whole:
            model.process_group.allreduce(local_used_map(model)).wait()
        return True

    # All workers find the same; one says it.
    def _warn(self, hook: Hook) -> None:
        raised = hook.raised()
        new, self._warnings = raised[self._warnings :], len(raised)
        if self._attached is not None and self._attached.rank == 0:
            for sentence in new:
                warn(sentence, self._line)

    @property
    def weight(self) -> float:
        """How much this rank's gradient counts for ``weighted_mean``, 0 or more; set it before each backward pass.

        Other rules count every rank the same, and refuse a weight.
        """
        return self._weight

    @weight.setter
    def weight(self, value: float) -> None:
        weight = checked_weight(value)
        if weight != 1 and "weighted_mean" not in (self._rule, self.rule):
            raise BadInputError(
                f"{self._rule} counts all ranks the same, so that a weight has no effect: register weighted_mean, or set none"
            )
        self._weight = weight

    def set_rule(self, name: str, **options: object) -> None:
        """Goes on with another rule, or with other options: from the first step on that all ranks have asked for it.

        A communication hook cannot be replaced; this is how to change the rule during training. What the rule remembers
        is kept where only its options change, other than ``granularity``.

        Args:
            name: of the rule, such as ``"adacons"``.
            options: its options, as :func:`flockstep.register` takes them, but for ``start_step``, ``process_group``,
                ``run_dir`` and ``timeout``; those not given are at their defaults.

        Raises:
            BadInputError: for an unknown rule, a value that an option does not take, or another ``transfer`` or
                ``sketch_length`` than the state has.

        Example::

            state = flockstep.mean(model)
            ...  # some steps
            state.set_rule("adacons", beta=0.95)
        """
        for kind in GradientState.__subclasses__():
            if kind._algorithm == name:
                check_types(kind, options)
        divides_by_all: Any = options.pop("divide_by_initial_world_size", None) if name == "mean" else None
        defaults = common_defaults(name)
        taken = ("watch", "magnitude", "guard", "non_finite_patience", "transfer", "sketch_length")
        words = as_words({**{key: value for key, value in defaults.items() if key in taken}, **options})
        self._check_stays(words)
        check_rule(name, words)
        if self._hook is not None:
            self._hook.set_rule(name, words)
        if (name, _granularity(words)) != (self._rule, _granularity(self._options)):
            self._memory = []
        self._rule, self._options, self._start_step = name, words, 0
        self._divide_by_initial_world_size = divides_by_all

    # A hook carries buckets in one way, and sketches of one length.
    def _check_stays(self, words: dict[str, str]) -> None:
        given = words["transfer"]
        if self._hook is None:
            transfer_of(self._rule, words)
            return
        if given not in ("auto", self._transfer):
            raise BadInputError(
                f'the transfer of this state is "{self._transfer}", and set_rule() cannot change it: register the rule on '
                "another model"
            )
        if self._sharded_hook is not None:
            transfer_of_sharded(words)
        transfer_of(self._rule, {**words, "transfer": self._transfer})
        if words["sketch_length"] not in ("auto", self._options.get("sketch_length", "auto")):
            raise BadInputError("set_rule() cannot change sketch_length: register the rule on another model")
        words["sketch_length"] = self._options.get("sketch_length", "auto")

    def close(self) -> None:
        """Ends the worker's part and writes what is left for ``run_dir``. Not collective.

        A second call does nothing. Where it is forgotten, the end of the process does it.
        """
        if self._closed or self._hook is None or self._attached is None:
            return
        with suppress(Error):  # of an exchange that has failed no more is known
            self._step = self.step
            rule, memory = self._current_memory()
            self._memory = memory if rule == self._rule else []
            self._memory_transfer = self._transfer
        self._closed = True
        try:
            self._hook.close()
            self._recorder.close()
        finally:
            self._attached.close()
        self._warn(self._hook)
