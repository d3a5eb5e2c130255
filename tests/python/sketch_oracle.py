"""Sketched consensus with all gradients at hand, in double precision: sketches by their definition, then the coefficients
of the next step. Nothing of flockstep but the keys."""

import math

import torch
import torch.distributed as dist
from ddp_training import of_all
from rule_oracle import Expected

KEPT, GROWTH = 0.9, 3.0


def mix(n, a, b):
    mask = 0xFFFFFFFF
    h = (n * 0x9E3779B1 + a) & mask
    h = h ^ (h >> 16)
    h = (h * 0x85EBCA6B + b) & mask
    h = h ^ (h >> 13)
    h = (h * 0xC2B2AE35) & mask
    return h ^ (h >> 16)


def sketched(bucket, key, first_chunk, length):
    """z[bin(l)] += sign(l) g[l]."""
    k0, k1 = key
    place = 1024 * first_chunk + torch.arange(bucket.numel())
    chunk, rest = place // 1024, place % 1024
    bit = (mix(chunk * 32 + rest % 32, k0, k1) >> (31 - rest // 32)) & 1
    bins = (place + mix(place // length, k1, k0)) % length
    z = torch.zeros(length, dtype=torch.float64)
    return z.index_add_(0, bins, bucket.double() * (1 - 2 * bit))


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


class SketchedOracle:
    """A training under one rule. `buckets[i][b]` is worker i's part b, `weights[i]` is 0 where it has none."""

    def __init__(self, rule, *, length=1024, guard=None, excludes=False, patience=5, **options):
        self.blind = rule in ("mean", "weighted_mean")
        self.rule = None if self.blind else Expected(rule, **options)
        if guard is None:
            guard = "count" if rule in ("mean", "weighted_mean", "adasum") else 3.0
        self.guard, self.clips = (3.0, False) if guard == "count" else (guard, True)
        self.length, self.excludes, self.patience, self.none_finite = length, excludes, patience, False
        self.c = self.smoothed = self.references = self.sizes = None
        self.agreement = {}  # what direction_consensus remembers of each worker
        self.runs, self.clipped = None, 0

    def __call__(self, buckets, weights, key):
        """The results, bucket by bucket."""
        workers, count = len(buckets), len(buckets[0])
        self.runs = self.runs or [0] * workers
        sizes = [part.numel() for part in buckets[0]]
        if sizes != self.sizes:
            self.references = [0.0] * count
        self.sizes = sizes
        norms = [[float(part.double().norm()) for part in parts] for parts in buckets]
        finite = [all(map(math.isfinite, each)) for each in norms]
        left_out = [self.patience > 0 and run >= self.patience for run in self.runs]
        excludes = self.excludes and not self.none_finite
        results = []
        cut = False
        dead = [False] * workers
        for b in range(count):
            used = self.used([norms[i][b] if weights[i] else 0.0 for i in range(workers)], weights)
            total = torch.zeros(sizes[b], dtype=torch.float64)
            share = [1.0] * workers if self.blind else [abs(each) for each in used]
            part = [share[i] * norms[i][b] if weights[i] and finite[i] else 0.0 for i in range(workers)]
            for i in range(workers):
                is_broken = not math.isfinite(norms[i][b])
                dead[i] = dead[i] or (excludes and is_broken)
                if not weights[i] or dead[i] or (is_broken and left_out[i]):
                    continue
                f = 1.0
                if self.guard and self.references[b] and part[i] > 0:
                    f = min(1.0, self.guard * self.references[b] / part[i])
                cut = cut or f < 1
                f = f if self.clips else 1.0
                total += f * used[i] * buckets[i][b].double()
            results.append(total / sum(weights) if self.blind and sum(weights) else total)
        self.clipped += cut
        broken = any(weights[i] and not finite[i] and not left_out[i] for i in range(workers))
        bad = sum(1 for i in range(workers) if weights[i] and not finite[i])
        present = sum(1 for weight in weights if weight)
        self.none_finite = 0 < bad == present
        for i in range(workers):
            if weights[i] and (finite[i] or 2 * bad < present):  # else it is no worker's fault
                self.runs[i] = 0 if finite[i] else self.runs[i] + 1
        if not broken:
            counted = [bool(weights[i]) and finite[i] for i in range(workers)]
            self.observe(buckets, norms, counted, key)
            self.refer(norms, counted, weights)
        return results

    def refer(self, norms, counted, weights):
        """With the coefficients of the next step, whose parts are measured by it."""
        c = [1.0] * len(norms) if self.blind else self.c
        for b in range(len(self.sizes)) if c else ():
            parts = [abs(c[i]) * norms[i][b] for i in range(len(norms)) if counted[i]]
            positive = [part for part in parts if part > 0]
            if len(positive) > 1:
                measure = max(positive) if len(positive) == 2 else lower_median(positive)
                self.references[b] = max(measure, 0.9 * self.references[b])

    def used(self, norms, weights):
        if self.blind:
            return weights
        if self.c is not None:
            return self.c
        known = [norm for norm in norms if norm > 0 and math.isfinite(norm)]
        return [
            lower_median(known) / (len(known) * norm) if norm > 0 and math.isfinite(norm) else 0.0 for norm in norms
        ]

    def observe(self, buckets, norms, counted, key):
        workers = len(buckets)
        whole = [math.sqrt(sum(norm * norm for norm in each)) for each in norms]
        living = [i for i in range(workers) if counted[i] and whole[i] > 0]
        if not living:
            return
        smoothed = self.smoothed or [0.0] * workers
        before = [smoothed[i] for i in living if smoothed[i] > 0] or [whole[i] for i in living]
        median = lower_median(before)
        for i in living:
            norm = min(whole[i], GROWTH * max(smoothed[i], median))
            smoothed[i] = KEPT * smoothed[i] + (1 - KEPT) * norm if smoothed[i] > 0 else norm
        self.smoothed = smoothed
        if self.blind:
            return
        rows = []
        for i in living:
            z, chunk = torch.zeros(self.length, dtype=torch.float64), 0
            for part in buckets[i]:
                z += sketched(part, key, chunk, self.length)
                chunk += -(-part.numel() // 1024)
            rows.append(smoothed[i] * z / z.norm())
        has_workers = hasattr(self.rule.rule, "memory")
        if has_workers and self.agreement:
            self.rule.rule.memory = torch.tensor([self.agreement[i] for i in living], dtype=torch.float64)
        result = self.rule(rows, [1.0] * len(rows))
        if has_workers:
            self.agreement.update(zip(living, self.rule.rule.memory.tolist(), strict=True))
        found = torch.linalg.lstsq(torch.stack(rows).T, result.view(-1, 1)).solution.flatten()
        self.c = [0.0] * workers
        for i, c in zip(living, found.tolist(), strict=True):
            self.c[i] = c if abs(c) > 1e-12 * max(map(abs, found.tolist())) else 0.0


class Beside:
    """The oracle beside a state, which is shown what every rank hands over, bucket by bucket."""

    def __init__(self, state, oracle, *, group=None, seed=1):
        self.oracle, self.group, self.seed = oracle, group, seed
        self.buckets, self.sent, self.worst, self.step = [], [], 0.0, 0
        self.add, state._add = state._add, self.take

    def take(self, bucket):
        self.buckets.append(bucket.buffer())
        self.sent.append(bucket.buffer().clone())
        return self.add(bucket)

    def compare(self, weights=None):
        """After a backward pass: keeps the distance from what the oracle says, and gives the result."""
        from flockstep import _native

        everybody = [of_all(part, self.group) for part in self.sent]
        workers = dist.get_world_size(self.group)
        key = _native.sketch_key(self.seed, self.step)
        gradients = [[part[i] for part in everybody] for i in range(workers)]
        want = torch.cat(self.oracle(gradients, weights or [1.0] * workers, (key.k0, key.k1)))
        got = torch.cat([bucket.double() for bucket in self.buckets])
        return self.judge(got, want)

    def judge(self, got, want):
        self.buckets, self.sent, self.step = [], [], self.step + 1
        if torch.isfinite(want).all():
            apart = float((got - want).norm() / want.norm().clamp(min=1e-30))
        else:
            apart = math.inf if torch.isfinite(got).all() else 0.0
        self.worst = max(self.worst, apart)
        return got
