"""An extension of griffe, which reads the package without importing it: docstrings and signatures as people read them.

Options are written once, in a TypedDict (python/flockstep/_options.py). Here each class that takes some gets a signature with
their defaults and the meaning of those that are its own; those that all of its kind take are one link away, and so are all of
those that the short form of a rule takes. Roles, as in :class:`Flock`, become links.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping

import griffe

PACKAGE = "flockstep"
COMMON = {"RuleOptions": "every rule", "AveragerOptions": "every averager", "ElasticOptions": "elastic runs"}
BASES = ("Averager", "GradientState")  # whose members the docstrings of their subclasses speak of
ROLE = re.compile(r":(class|func|meth|attr):`([\w.]+)`")
EXAMPLE = re.compile(r"^Example::\n\n((?:(?:    .*)?\n)+(?:    .*)?|    .*)", re.MULTILINE)
TITLE = "Args:\n"
SHORT_FORM = """

Args:
    ddp_model: a DistributedDataParallel, or a model that ``fully_shard`` was called on.
    options: those of :class:`{0}`.

Returns:
    The state, which tells about the workers' gradients.
"""


class Docstrings(griffe.Extension):
    """Rewrites what griffe has read of the package, once it has read all of it."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """After the whole package is there."""
        if pkg.path != PACKAGE:
            return
        for taker in [*decorated(pkg["rules"], "takes"), *decorated(pkg["averagers"], "takes")]:
            describe(taker)
        for short in decorated(pkg["hooks"], "_described"):
            short.docstring.value += SHORT_FORM.format(short.returns)
        pkg["hooks"]["register"].overloads.clear()  # for type checkers: people read the list of rules
        for thing in everything(pkg):
            for parameter in thing.parameters if thing.is_function else ():
                if parameter.kind is griffe.ParameterKind.var_keyword:
                    parameter.default = None  # which would read as {}
            if thing.docstring:
                thing.docstring.value = as_markdown(thing.docstring.value, thing, pkg)


def decorated(module: griffe.Module, decorator: str) -> Iterator[griffe.Class | griffe.Function]:
    for each in module.members.values():
        decorators = [] if each.is_alias or each.is_attribute else each.decorators
        if decorator in [used.callable_path.rpartition(".")[2] for used in decorators]:
            yield each


def describe(taker: griffe.Class) -> None:
    """Adds its options to the signature and to the docstring of a class."""
    function = taker["__init__"]
    options = family(class_of(str(function.parameters["options"].annotation), taker))
    defaults = value_of(taker["_defaults"])
    del function.parameters["options"]
    for name, default in defaults.items():
        annotation = next(each[name].annotation for each in options if name in each.members)
        function.parameters.add(
            griffe.Parameter(name, annotation=annotation, kind=griffe.ParameterKind.keyword_only, default=repr(default))
        )
    told = [taker.docstring.value]
    links = [f"[options of {COMMON[each.name]}][{each.path}]" for each in options if each.name in COMMON]
    told.append(f"It also takes the {' and the '.join(links)}.")
    own = [TITLE]
    own += [str(value_of(taker.parent["_BEFORE_OPTIONS"]))] if "optimizer" in function.parameters else []
    own += [each.docstring.value.partition(TITLE)[2] + "\n" for each in options if each.name not in COMMON]
    if "".join(own) != TITLE:
        told.append("".join(own))
    taker.docstring.value = "\n\n".join(told)


def class_of(annotation: str, user: griffe.Object) -> griffe.Class:
    """The class that an annotation names, such as Unpack[RuleOptions]."""
    found = user.modules_collection[user.parent.resolve(re.sub(r".*\[|\]", "", annotation))]
    return found.final_target if found.is_alias else found


def family(options: griffe.Class) -> list[griffe.Class]:
    """A TypedDict, and those that it extends."""
    bases = [str(base) for base in options.bases if str(base) != "TypedDict"]
    return [options, *(each for base in bases for each in family(class_of(base, options)))]


class Names(Mapping[str, object]):
    """The names of a module, whose values are found out when they are asked for."""

    def __init__(self, module: griffe.Module) -> None:
        self._module = module

    def __getitem__(self, name: str) -> object:
        if name not in self._module.members:
            raise KeyError(name)
        found = self._module[name]
        return value_of(found.final_target if found.is_alias else found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._module.members)

    def __len__(self) -> int:
        return len(self._module.members)


def value_of(thing: griffe.Attribute | griffe.Function) -> dict[str, object] | object:
    """Of a constant that is made of constants of the package, or a function that needs nothing else."""
    if thing.is_attribute:
        return eval(str(thing.value), {}, Names(thing.module))
    names: dict[str, object] = {}
    exec(f"from __future__ import annotations\n{thing.source}", names)
    return names[thing.name]


def everything(module: griffe.Module) -> Iterator[griffe.Object]:
    for each in list(module.members.values()):
        if not each.is_alias:
            yield each
            if each.is_module or each.is_class:
                yield from everything(each)


def as_markdown(text: str, thing: griffe.Object, package: griffe.Module) -> str:
    """Roles become links, double quotes single ones, examples code blocks."""
    if thing.name in COMMON:
        text = text.replace(TITLE, "Attributes:\n")
    text = EXAMPLE.sub(lambda found: f"```python\n{textwrap.dedent(found[1]).strip()}\n```\n\n", text)
    text = ROLE.sub(lambda role: link(role[1], role[2], thing, package), text)
    return re.sub(r"``(.+?)``", r"`\1`", text)


def link(role: str, name: str, thing: griffe.Object, package: griffe.Module) -> str:
    shown = f"`{name}()`" if role in ("func", "meth") else f"`{name}`"
    public = name.removeprefix(f"{PACKAGE}.")
    if public.split(".")[0] in package.members and not package[public.split(".")[0]].is_module:
        return f"[{shown}][{PACKAGE}.{public}]"
    owner = thing if thing.is_class else thing.parent
    bases = sorted((package[base].final_target for base in BASES), key=lambda base: owner not in base.mro())
    for each in [owner, *bases]:
        if each.is_class and each.name in package.members and name in each.all_members:
            return f"[{shown}][{PACKAGE}.{each.name}.{name}]"
    return shown
