"""Meetings over a store that is simulated: every operation of every rank is one step, in an order that a seed draws."""

import random
from datetime import timedelta

import flockstep
import pytest
import torch
import torch.distributed as dist
from flockstep import _meeting, _worker
from torch.nn.parallel import DistributedDataParallel

PATIENCE_S = 100.0
RANKS = [3, 5, 8, 9]  # of the world, as sentences name them
SAME = [("rule", "mean"), ("beta", "0.9")]
FAILS = ValueError("no such option\nand more")


class Rank:
    """One that calls for a meeting with each of the values in turn, or raises an error in place of coming."""

    def __init__(self, place, plans):
        self.place, self.plans, self.past, self.verdicts, self.course = place, list(plans), _meeting.Past(), [], None
        self.is_after = False  # the course is that after a meeting

    def step(self, operate):
        """One operation."""
        if self.course is None:
            plan = self.plans.pop(0)
            if isinstance(plan, Exception):
                self.course = _meeting.absentee(self.past, RANKS[self.place], "made Flock", plan)
            elif self.place == 0:
                self.course = _meeting.host(self.past.call("made Flock", plan), RANKS, PATIENCE_S, self.past.answered)
            else:
                self.course = _meeting.guest(self.past.call("made Flock", plan), self.place, RANKS, PATIENCE_S)
            self.result = None
        try:
            self.result = operate(*self.course.send(self.result))
        except StopIteration as end:
            self.course = None
            if not self.is_after:
                self.verdicts.append(end.value)
                self.course = _meeting.after(self.past, end.value)
                self.result = None
            self.is_after = not self.is_after


def simulated(seed, plans, store):
    """The verdicts of each rank's meetings over a simulated store, and how long they took."""
    draw, now, ranks = random.Random(seed), 0.0, [Rank(place, mine) for place, mine in enumerate(plans)]

    def operate(name, *arguments):
        nonlocal now
        if name == "time":
            return now
        if name == "pause":
            now += draw.random() * PATIENCE_S / 100
        elif name == "get":
            return store.get(arguments[0])
        elif name == "check":
            return all(key in store for key in arguments)
        elif name == "put":
            store.setdefault(*arguments)
        elif name == "delete":
            store.pop(arguments[0], None)
        else:
            store[arguments[0]] = arguments[1] if name == "set" else store.get(arguments[0], 0) + 1
            return store[arguments[0]]
        return None

    for _ in range(100_000):
        open_ = [rank for rank in ranks if rank.course or rank.plans]
        if not open_:
            return [rank.verdicts for rank in ranks], now
        draw.choice(open_).step(operate)
    raise AssertionError(f"seed {seed}: the meetings do not end")


def in_every_order(plans, *, meetings, seeds=100):
    """Each rank's verdicts, by seed. No rank waits out its patience, and the store keeps no more than how often all have met."""
    for seed in range(seeds):
        store = {}
        verdicts, took_s = simulated(seed, plans, store)
        assert store == {"number": meetings}, seed
        assert took_s < PATIENCE_S, seed
        yield verdicts


def test_all_get_the_same_numbers_one_after_the_other():
    for ranks in in_every_order([[SAME] * 5] * 4, meetings=5, seeds=200):
        for verdicts in ranks:
            assert [(verdict.number, verdict.error) for verdict in verdicts] == [
                (number, None) for number in range(1, 6)
            ]


def test_what_differs_is_named_and_the_next_meeting_is_as_if_it_had_not_been():
    other = [("rule", "mean"), ("beta", "0.5"), ("seed", "7")]
    for ranks in in_every_order([[SAME, SAME], [other, SAME], [SAME, SAME], [other, SAME]], meetings=1):
        for first, second in ranks:
            assert isinstance(first.error, flockstep.MismatchError)
            assert str(first.error) == "ranks 5, 9 have beta 0.5 where rank 3 has 0.9: give all ranks the same"
            assert second.number == 1


@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_that_does_not_come_is_named_by_all_others_and_all_may_meet_later(absent):
    for seed in range(100):
        store = {}
        ranks, _ = simulated(seed, [[SAME] * (place != absent) for place in range(4)], store)
        for [verdict] in ranks[:absent] + ranks[absent + 1 :]:
            assert isinstance(verdict.error, flockstep.DeadlineExceededError), seed
            assert verdict.sentence.startswith(f"rank {RANKS[absent]} has not made Flock within 100 s, as rank "), seed
        ranks, _ = simulated(seed, [[SAME]] * 4, store)
        assert [verdict.number for [verdict] in ranks] == [1] * 4, seed
        assert store == {"number": 1}, seed


@pytest.mark.parametrize("failing", [0, 2])
def test_the_error_of_a_rank_that_raises_alone_is_raised_by_all_others_at_once_and_all_may_meet_later(failing):
    plans = [[*[FAILS if place == failing else SAME] * 2, SAME] for place in range(4)]
    for ranks in in_every_order(plans, meetings=1, seeds=200):
        for place, (*failed, last) in enumerate(ranks):
            for verdict in failed if place != failing else []:
                assert isinstance(verdict.error, flockstep.MismatchError)
                assert verdict.sentence == f"rank {RANKS[failing]} has not made Flock: ValueError: no such option"
            assert last.number == 1, place


def test_of_several_ranks_that_raise_one_is_named():
    sentences = [f"rank {rank} has not made Flock: ValueError: no such option" for rank in (5, 9)]
    for seed in range(100):
        ranks, _ = simulated(seed, [[FAILS if place in (1, 3) else SAME] for place in range(4)], {})
        assert ranks[0][0].sentence == ranks[2][0].sentence, seed
        assert ranks[0][0].sentence in sentences, seed


def test_what_all_ranks_have_raised_alike_does_not_count_for_their_next_meeting():
    for ranks in in_every_order([[FAILS, SAME, FAILS, FAILS, SAME, SAME]] * 4, meetings=3, seeds=200):
        for verdicts in ranks:
            met = [verdict for verdict in verdicts if verdict.number or verdict.error]
            assert [verdict.number for verdict in met] == [1, 2, 3]


@pytest.mark.parametrize("make", [dist.HashStore, lambda: dist.TCPStore("127.0.0.1", 0, 1, True)])
def test_a_rank_alone_meets_itself_on_every_kind_of_store(make):
    store = make()
    numbers = [_meeting.meet(store, "a", 0, [7], 1.0, "made Flock", SAME) for _ in range(2)]
    assert numbers == [1, 2]
    assert not store.check(["a/call/0"])


def test_the_patience_is_five_minutes_and_never_more_than_the_timeout(monkeypatch):
    seen = []

    def meet(store, prefix, place, ranks, patience_s, what, agreed):
        seen.append(patience_s)
        raise flockstep.DeadlineExceededError("for the test")

    monkeypatch.setattr(_worker, "meet", meet)
    for of_group, given in ((1800, None), (60, None), (1800, 7200)):
        dist.init_process_group(
            "gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=of_group)
        )
        with pytest.raises(flockstep.DeadlineExceededError):
            _worker.attach(deadline=given and timedelta(seconds=given))
        dist.destroy_process_group()
    assert seen == [300, 60, 7200]


def test_without_a_process_group_one_sentence_says_what_to_call():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    dist.destroy_process_group()
    with pytest.raises(flockstep.BadInputError, match=r"init_process_group\(\)"):
        flockstep.adacons(model)
