"""Ports of this machine for workers whose rank 0 listens."""

import random
import socket


def free_port():
    """A port that is free now, below those that the kernel gives to connections, which could take it meanwhile."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return str(port)
