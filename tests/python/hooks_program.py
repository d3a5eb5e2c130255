"""What gradient states do beside the rules themselves, one case after the other, on three ranks."""

import hooks_states
import hooks_training
import hooks_trouble
from cases import run
from hooks_shared import CASES

__all__ = ["hooks_states", "hooks_training", "hooks_trouble"]  # which have the cases

if __name__ == "__main__":
    run(CASES.of_this_world)
