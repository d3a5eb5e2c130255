"""What tests of another project's trainer share: their programs run trainings one after the other, and each rank prints a line of JSON."""

import hashlib
import json
import os
import sys
from unittest.mock import patch


def told_by_ranks(done):
    """Of a completed program on two ranks."""
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    assert len(told) == 2
    return told


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.detach().contiguous().numpy() for tensor in tensors)).hexdigest()


def run_example(example, folder, *arguments):
    """As from the command line, in that folder."""
    os.chdir(folder)
    with patch.object(sys, "argv", ["train.py", *arguments]):
        example.main()
