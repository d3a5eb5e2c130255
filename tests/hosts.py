"""Hosts of a small network on this machine: network namespaces on a bridge of their own. That needs root."""

import contextlib
import os
import subprocess
from pathlib import Path

_NOWHERE = "02:00:00:00:00:01"  # no host has this address, so that the bridge loses what is sent there

SSH = """#!/bin/sh
# As ssh: HOST, then a command, in the namespace of that host.
host=$1
shift
exec ip netns exec {name}-$host /bin/sh -c "$*"
"""


class NoHostsError(Exception):
    """Network namespaces cannot be made here."""


def _ip(words):
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoHostsError(f"ip {words}: {done.stderr.strip()}")


class Hosts:
    """A launcher's host, and others; `ssh` is a program that stands in for ssh to the others.

    Args:
        folder: for `ssh`.
        hosts: the names of the others.
    """

    def __init__(self, folder, *hosts):
        self._name = f"fs{os.getpid()}"
        self._hosts = hosts
        self.address = "10.213.78.1"
        self.ssh = folder / "ssh"
        self.ssh.write_text(SSH.format(name=self._name))
        self.ssh.chmod(0o755)
        try:
            self._make()
        except (NoHostsError, OSError) as error:
            self.close()
            raise NoHostsError(str(error)) from error

    def _make(self):
        here = self._space("launcher")
        _ip(f"netns add {here}")
        _ip(f"-n {here} link add bridge type bridge")
        _ip(f"-n {here} addr add {self.address}/24 dev bridge")
        for device in ("lo", "bridge"):
            _ip(f"-n {here} link set {device} up")
        for host in self._hosts:
            there = self._space(host)
            _ip(f"netns add {there}")
            _ip(f"-n {here} link add name {host} type veth peer name eth0 netns {there}")
            _ip(f"-n {here} link set dev {host} master bridge up")
            _ip(f"-n {there} addr add {self.address_of(host)}/24 dev eth0")
            for device in ("lo", "eth0"):
                _ip(f"-n {there} link set {device} up")

    def _space(self, host):
        return f"{self._name}-{host}"

    def address_of(self, host):
        return f"10.213.78.{2 + self._hosts.index(host)}"

    def on(self, host, *command):
        """The command as it runs on that host; the launcher's is called ``launcher``."""
        return ["ip", "netns", "exec", self._space(host), *map(str, command)]

    def cut(self, one, other):
        """The path between two hosts loses everything, and no end is told."""
        for here, there in ((one, other), (other, one)):
            address = self.address_of(there)
            _ip(f"-n {self._space(here)} neigh replace {address} lladdr {_NOWHERE} dev eth0 nud permanent")

    def mend(self, one, other):
        for here, there in ((one, other), (other, one)):
            _ip(f"-n {self._space(here)} neigh del {self.address_of(there)} dev eth0")

    def close(self):
        for host in ("launcher", *self._hosts):
            if Path("/run/netns", self._space(host)).exists():
                with contextlib.suppress(NoHostsError):
                    _ip(f"netns del {self._space(host)}")
