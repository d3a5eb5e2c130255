"""Files of JSON: what cannot be read or taken apart becomes a ReportError that names the file and the line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from flockstep._schema import SCHEMA
from flockstep.report.errors import MissingFileError, ReportError

Result = TypeVar("Result")


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(f"cannot read {path}: {error.strerror}") from error
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path} is damaged: it is not text") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _require_known_schema(path: Path, value: dict[str, Any]) -> None:
    """What has none was written before there was one."""
    schema = value.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise ReportError(
            f"{path} has schema {schema}, and this version of flockstep reads up to {SCHEMA}: use the version that wrote it, or a later one"
        )


def read_object(path: Path) -> dict[str, Any]:
    try:
        value = _parsed(read_text(path))
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ReportError(f"{path} is damaged: it should hold a JSON object")
    _require_known_schema(path, value)
    return value


def understood(path: Path, where: str, make: Callable[[], Result]) -> Result:
    """What `make` makes of the text at `where` in the file; what it cannot make sense of is damage."""
    try:
        return make()
    except KeyError as error:
        raise ReportError(f"{path}{where} is damaged: it lacks {error}") from error
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise ReportError(f"{path}{where} is damaged: {error}") from error


def read_lines(path: Path, only: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a metrics file with their places. A run that was killed may leave half a line at the end."""
    text = read_text(path)
    whole = text.endswith("\n")
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if only not in line:
            continue
        try:
            value = _parsed(line)
        except ValueError as error:
            if index + 1 == len(lines) and not whole:
                return
            raise ReportError(f"{path} line {index + 1} is damaged: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            raise ReportError(f"{path} line {index + 1} is damaged: it should be an object with a kind")
        _require_known_schema(path, value)
        yield f" line {index + 1}", value
