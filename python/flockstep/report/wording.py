"""Numbers and names as words."""

import math
from collections.abc import Sequence


def short(value: float) -> str:
    if not math.isfinite(value):
        return "no number"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many only the first."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def name_workers(workers: Sequence[int], most: int = 6) -> str:
    names = ", ".join(str(worker) for worker in workers[:most])
    return names + (f" and {len(workers) - most} more" if len(workers) > most else "")
