"""A rank that is lost in a step, without torchrun, which would end the others before they can say what they saw."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launching import environment
from paths import HANG_S

PROGRAM = Path(__file__).with_name("lost_peer_program.py")


@pytest.mark.parametrize("how", ["killed", "ended in backward"])
def test_all_others_raise_peer_lost_from_backward(how):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), how],
            env=environment(MASTER_ADDR="localhost", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="3"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        done = [process.communicate(timeout=HANG_S) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
    lost = float(done[1][0].split("LOST ")[1])
    for rank in (0, 2):
        assert processes[rank].returncode == 0, done[rank]
        raised = json.loads(done[rank][0].split("RAISED ")[1])
        assert raised["type"] == "PeerLost"
        assert (raised["code"], raised["engine"], raised["rank"]) == ("peer_lost", "c10d", rank)
        assert raised["at"] - lost < 300, "it has waited for the group's half hour"
