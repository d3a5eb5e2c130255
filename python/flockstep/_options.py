"""Options of classes, written once: a TypedDict has their types and, in its docstring, what they mean.

Type checkers read ``**options: Unpack[...]``. People read the signature and the docstring that :func:`takes` makes of it.
"""

from __future__ import annotations

import difflib
import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import get_original_bases, is_typeddict

from flockstep._errors import BadInputError, BadTypeError

ARGUMENTS = "Args:\n"  # the title, in docstrings

_LONGEST_SHOWN = 80
_WORDS: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    bool: "True or False",
    NoneType: "None",
    timedelta: "a datetime.timedelta",
    str: "a path",
    os.PathLike: "a path",
}


def shown(value: object) -> str:
    """A wrong value as errors quote it: only its type where it is long, such as a model."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN and "\n" not in text else f"a {type(value).__name__}"


def nearest_to(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence about a misspelt name."""
    nearest = difflib.get_close_matches(wrong, list(known), 1)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


def check_types(kind: type, given: Mapping[str, Any]) -> None:
    """Raises :class:`flockstep.BadTypeError` for a value that is not of the type that a class has for this option.

    An unknown word among strings is left to the compiled half, which knows the words, as is what a process group is.
    """
    parameters = inspect.signature(kind).parameters
    for name, value in given.items():
        if name not in parameters or name == "process_group":
            continue
        kinds = _alternatives(parameters[name].annotation)
        is_word = isinstance(value, str) and len(kinds) == 1 and get_origin(kinds[0]) is Literal
        if not is_word and not any(_is(value, each) for each in kinds):
            words = dict.fromkeys(_words(each) for each in kinds)  # without repetitions
            *first, last = words
            raise BadTypeError(f"{name} is {', '.join(first)}{' or ' if first else ''}{last}, not {shown(value)}")


def _alternatives(kind: Any) -> list[Any]:
    return list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]


def _is(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind in (int, float):
        return isinstance(value, numbers.Integral if kind is int else numbers.Real) and not isinstance(value, bool)
    return isinstance(value, get_origin(kind) or kind)


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(kind))
    return _WORDS[get_origin(kind) or kind]


def as_text(name: str, value: object) -> str:
    """An option's value as the compiled half reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, timedelta):
        return str(value)
    if value <= timedelta(0):
        raise BadInputError(f"{name} is a datetime.timedelta above 0, not {value!r}")
    return f"{value / timedelta(milliseconds=1)}ms"


class TakesOptions:
    """A class that is made with options."""

    _defaults: ClassVar[Mapping[str, Any]]  # of all of them

    def _completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that were given, and the defaults of the others."""
        for name in given:
            if name not in self._defaults:
                raise BadTypeError(
                    f"{type(self).__name__} has no option {name!r}{nearest_to(name, self._defaults)}; there are "
                    f"{', '.join(self._defaults)}"
                )
        check_types(type(self), given)
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
