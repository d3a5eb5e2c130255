"""``logging.getLogger("flockstep")``: what the package has to say, the compiled half included.

Rank 0 speaks for all. To hear every rank, take the filter away: ``logging.getLogger("flockstep").filters.clear()``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch.distributed as dist

if TYPE_CHECKING:
    from flockstep import _native

logger = logging.getLogger("flockstep")


def _is_first(_: logging.LogRecord) -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


logger.addFilter(_is_first)


def forward(worker: _native.Worker) -> None:
    """Logs what the compiled half has to say by now.

    It never comes by itself, so that none of its threads needs the interpreter's lock.
    """
    for level, line in worker.take_log_lines():
        logger.log(level, "%s", line)
