"""Exact gradient rules on CUDA devices over NCCL, against the oracle of the tests on the CPU.

torchrun --nproc-per-node 2 tests/cuda/exact_ddp.py [--device cpu] [CASE ...]

Prints a line for each check, and ends with 1 if one fails: see common.py. Cases are in exact_rules.py and exact_training.py.
"""

import sys

import common  # first: it tells Python where the tests are
import exact_rules
import exact_training


def main():
    common.begin()
    common.cpu_group()
    cases = exact_rules.CASES | exact_training.CASES
    chosen = [name for name in sys.argv[1:] if name in cases]
    common.run({name: case for name, case in cases.items() if not chosen or name in chosen})
    common.finish()


if __name__ == "__main__":
    main()
