"""Options of classes, written once: a TypedDict has their types and, in its docstring, what they mean.

Type checkers read ``**options: Unpack[...]``. People read the signature and the docstring that :func:`takes` makes of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, get_type_hints

from typing_extensions import get_original_bases, is_typeddict

from flockstep._errors import BadTypeError

ARGUMENTS = "Args:\n"  # the title, in docstrings


class TakesOptions:
    """A class that is made with options."""

    _defaults: ClassVar[Mapping[str, Any]]  # of all of them

    def _completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that were given, and the defaults of the others."""
        unknown = next((name for name in given if name not in self._defaults), None)
        if unknown is not None:
            raise BadTypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{unknown}'")
        return {**self._defaults, **given}


_Kind = TypeVar("_Kind", bound=type[TakesOptions])


def takes(options: type, *, before: str = "") -> Callable[[_Kind], _Kind]:
    """Lets ``help()`` and ``inspect.signature()`` show what a class takes.

    Args:
        options: a TypedDict; its docstring tells under ``Args:`` what each option means.
        before: the same for the arguments before the options.
    """

    def described(kind: _Kind) -> _Kind:
        types = get_type_hints(options)
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
            for name, default in kind._defaults.items()
        ]
        _, *others, _ = inspect.signature(kind.__init__).parameters.values()
        kind.__signature__ = inspect.Signature([*others, *named])  # type: ignore[attr-defined]
        kind.__doc__ = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{ARGUMENTS}{before}{_meanings(options)}"
        return kind

    return described


def _meanings(options: type) -> str:
    """Those of a TypedDict's own options, then those of the one that it extends."""
    own = inspect.cleandoc(options.__doc__ or "").partition(ARGUMENTS)[2]
    return "\n".join([own, *(_meanings(base) for base in get_original_bases(options) if is_typeddict(base))])
