"""How the ranks of a process group meet before they make something together: through the group's store.

Every rank but the first posts a call, which says what it makes and with what. The first rank compares all calls with its
own and answers each: with a number that no meeting before has had, with what differs, or with the ranks that are missing.

:func:`host` and :func:`guest` are state machines without I/O: they yield operations on the store and are sent the results.
A rank writes no call but its own. So a call may still be read after its answer: the host knows those that it has answered,
and a guest takes no answer but that to the call with which it waits.

A rank that raises an error before it comes to a meeting notes the error in the store, and does not wait. The ranks that
meet read the note and raise at once. Attempts are counted from the last meeting in which all ranks agreed, and a note counts
for one attempt: often all ranks raise alike, no rank meets, and the note stays.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore, Store

from flockstep._errors import DeadlineExceededError, Error, MismatchError, PeerLostError

Agreed = list[tuple[str, str]]
Operation = tuple[str, ...]

_GLANCE_S = 0.005
_NOTHING = " "
_MOST_NOTED = 1000  # characters of an error


@dataclass(frozen=True)
class Call:
    """A rank's message at a meeting.

    Attributes:
        id: of this call alone.
        what: the rank has done, such as ``made Flock``.
        agreed: names and values that have to be the same on all ranks, in the order in which differences are looked for.
        attempt: which of the rank's attempts it is, as :class:`Past` counts them.
        is_over: whether the rank has given up.
    """

    id: str
    what: str
    agreed: Agreed
    attempt: str
    is_over: bool = False


@dataclass(frozen=True)
class Verdict:
    """How a meeting has ended: with a number, or with an error's kind and sentence."""

    number: int = 0
    is_late: bool = False
    sentence: str = ""

    @property
    def error(self) -> Error | None:
        """The error that all ranks raise, or None."""
        return (DeadlineExceededError if self.is_late else MismatchError)(self.sentence) if self.sentence else None


@dataclass
class Past:
    """What a rank remembers of its meetings under one prefix.

    Attributes:
        answered: by place, the id of the last call that this rank has answered as the host.
        number: of the last meeting in which all ranks agreed.
        attempts: of this rank since then.
        notes: keys of the errors that it has noted since then.
    """

    answered: dict[int, str] = field(default_factory=dict)
    number: int = 0
    attempts: int = 0
    notes: list[str] = field(default_factory=list)

    def begin(self) -> str:
        """Counts a new attempt, and returns its name."""
        self.attempts += 1
        return f"{self.number}.{self.attempts}"

    def call(self, what: str, agreed: Agreed) -> Call:
        """A call for a new attempt."""
        return Call(os.urandom(8).hex(), what, agreed, self.begin())


_pasts: dict[str, Past] = {}  # by the prefix of the store

Course = Generator[Operation, Any, Verdict]


def _text(*values: object) -> str:
    return json.dumps(values)


def _call_in(text: str | None) -> Call | None:
    return None if text is None else Call(*json.loads(text))


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} {'have' if len(ranks) > 1 else 'has'}"


def _late(missing: list[int], mine: Call, rank: int, patience_s: float) -> Verdict:
    return Verdict(
        is_late=True,
        sentence=f"{_ranks(missing)} not {mine.what} within {patience_s:g} s, as rank {rank} has: do so on all ranks of the "
        "process group, in the same order, or give a longer timeout",
    )


def difference(calls: list[Call], ranks: list[int]) -> str:
    """A sentence about the first value that differs from the first rank's; empty if all are the same."""
    values = [{"": call.what, **{f"{name} ": value for name, value in call.agreed}} for call in calls]
    for name in dict.fromkeys(name for each in values for name in each):
        first, *others = (each.get(name, "none") for each in values)
        differing = [rank for rank, value in zip(ranks[1:], others, strict=True) if value != first]
        if differing:
            other = next(value for value in others if value != first)
            return f"{_ranks(differing)} {name}{other} where rank {ranks[0]} has {first}: give all ranks the same"
    return ""


def _note(attempt: str) -> str:
    return f"failure/{attempt}"


def host(mine: Call, ranks: list[int], patience_s: float, answered: dict[int, str]) -> Course:
    """The course of the first of the ranks.

    Args:
        mine: its own call.
        ranks: all of them, as sentences name them.
        patience_s: how long it waits for the others.
        answered: by place in ``ranks``, the id of the last call that was answered.
    """
    yield "set", "call/0", _text(mine.id, mine.what, mine.agreed, mine.attempt)
    keys = [f"call/{place}" for place in range(1, len(ranks))]
    begin = yield ("time",)
    while True:
        is_late = (yield ("time",)) - begin >= patience_s
        calls: dict[int, Call] = {}
        if is_late or not keys or (yield "check", *keys):
            for place, key in enumerate(keys, 1):
                call = _call_in((yield "get", key))
                if call is None or answered.get(place) == call.id:
                    continue
                # A rank that has yet to read the note of an earlier attempt waits in that one.
                if call.attempt == mine.attempt or (yield "get", _note(call.attempt)) is None:
                    calls[place] = call
        here = {place: call for place, call in calls.items() if not call.is_over}
        failed = yield "get", _note(mine.attempt)  # after the calls: a rank may have raised, and called anew
        if failed or is_late or len(here) == len(keys):
            break
        yield ("pause",)
    if failed:
        yield "delete", "call/0"
        return Verdict(sentence=failed)
    if len(here) == len(keys):
        sentence = difference([mine, *(here[place] for place in sorted(here))], ranks)
        verdict = Verdict(0 if sentence else (yield "add", "number"), False, sentence)
    else:
        missing = [rank for place, rank in enumerate(ranks) if place not in {0, *calls}]
        gone = [rank for place, rank in enumerate(ranks) if place not in {0, *here}]
        verdict = _late(missing or gone, mine, ranks[0], patience_s)
    for place, call in here.items():
        answered[place] = call.id
        yield "set", f"answer/{place}", _text(call.id, verdict.number, verdict.is_late, verdict.sentence)
    yield "delete", "call/0"
    return verdict


def guest(mine: Call, place: int, ranks: list[int], patience_s: float) -> Course:
    """The course of any other rank, which stands at this place among the ranks."""
    yield "set", f"call/{place}", _text(mine.id, mine.what, mine.agreed, mine.attempt)
    begin = yield ("time",)
    while True:
        waited_s = (yield ("time",)) - begin
        # A host that is there names the missing ranks to all, once it has waited as long itself.
        is_late = waited_s >= 2 * patience_s or (waited_s >= patience_s and not (yield "check", "call/0"))
        text = yield "get", f"answer/{place}"
        if text is not None and json.loads(text)[0] == mine.id:
            yield "delete", f"call/{place}"
            yield "delete", f"answer/{place}"
            return Verdict(*json.loads(text)[1:])
        if failed := (yield "get", _note(mine.attempt)):
            yield "delete", f"call/{place}"
            return Verdict(sentence=failed)
        if is_late:
            break
        yield ("pause",)
    missing = []
    for other, rank in enumerate(ranks):
        if not (yield "check", f"call/{other}"):
            missing.append(rank)
    yield (
        "set",
        f"call/{place}",
        _text(mine.id, mine.what, mine.agreed, mine.attempt, True),
    )  # the host is not to name this rank
    return _late(missing or ranks[:1], mine, ranks[place], patience_s)


def absentee(past: Past, rank: int, what: str, error: Exception) -> Course:
    """The course of a rank that raises an error in place of coming. The first of several such ranks is named."""
    sentence = (str(error).splitlines() or [""])[0][:_MOST_NOTED]
    past.notes.append(_note(past.begin()))
    yield "put", past.notes[-1], f"rank {rank} has not {what}: {type(error).__name__}: {sentence}"
    return Verdict()


def after(past: Past, verdict: Verdict) -> Course:
    """What follows each course: all ranks that agree have left the attempts before."""
    if verdict.number:
        for key in past.notes:
            yield "delete", key
        past.number, past.attempts, past.notes = verdict.number, 0, []
    return verdict


def _carry_out(store: PrefixStore, operation: Operation) -> Any:
    name, *arguments = operation
    if name == "time":
        return time.monotonic()
    if name == "pause":
        return time.sleep(_GLANCE_S)
    if name == "set":
        return store.set(*arguments)
    if name == "check":
        return store.check(arguments)
    if name == "add":
        return store.add(arguments[0], 1)
    if name == "put":  # unless it is there
        return store.compare_set(arguments[0], "", arguments[1])
    if name == "delete":
        with suppress(NotImplementedError):
            store.delete_key(arguments[0])
        return None
    text = store.compare_set(arguments[0], _NOTHING, _NOTHING).decode()  # get() would wait for the key
    return None if text == _NOTHING else text


def meet(store: Store, prefix: str, place: int, ranks: list[int], patience_s: float, what: str, agreed: Agreed) -> int:
    """Returns the number of the meeting, once all ranks are there and agree; raises the same error on all of them else.

    Args:
        store: of the process group.
        prefix: under which only these ranks write to it.
        place: of this rank among them.
        ranks: all of them, as sentences name them.
        patience_s: how long to wait for the others.
        what: this rank has done, such as ``made Flock``.
        agreed: names and values that have to be the same on all ranks.
    """
    under, past = PrefixStore(prefix, store), _pasts.setdefault(prefix, Past())
    mine = past.call(what, agreed)
    course = guest(mine, place, ranks, patience_s) if place else host(mine, ranks, patience_s, past.answered)
    try:
        verdict = _run(after(past, _run(course, under)), under)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise PeerLostError(f"rank {ranks[place]} cannot reach the store of the process group ({reason})") from error
    except BaseException:  # such as Ctrl-C: nothing is to count on this rank
        with suppress(RuntimeError):
            under.delete_key(f"call/{place}")
        raise
    if verdict.error:
        raise verdict.error
    return verdict.number


def tell_failure(store: Store, prefix: str, rank: int, what: str, error: Exception) -> None:
    """Has the ranks that meet, or will, raise this rank's error, since it does not come. Waits for no rank.

    Args:
        store: of the process group.
        prefix: as :func:`meet` takes it.
        rank: this one, as sentences name it.
        what: it has not done, such as ``made Flock``.
        error: that it raises.
    """
    with suppress(RuntimeError):  # the store has gone: no rank meets there
        _run(absentee(_pasts.setdefault(prefix, Past()), rank, what, error), PrefixStore(prefix, store))


def _run(course: Course, store: PrefixStore) -> Verdict:
    result = None
    try:
        while True:
            result = _carry_out(store, course.send(result))
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
