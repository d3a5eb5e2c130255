"""`flockstep launch --hosts`: workers that are started through ssh, for which a program stands in."""

import os
import signal
import sys
from pathlib import Path

import pytest
from conftest import run
from launched import (
    FOREVER,
    PLACE,
    command_lines,
    expect_a_signal_to_end_all,
    expect_that_children_end,
    expect_workers_to_outlive_the_launcher,
    launched,
    pid_in,
    run_launched,
    workers_of,
)
from live_run import outcome_of, wait_until

SSH = f"""#!{sys.executable}
# As ssh: HOST, then a command, for a shell there that has an environment of its own and that outlives the connection.
# SIGUSR1 is the end of the connection.
import os, signal, subprocess, sys
signal.signal(signal.SIGUSR1, lambda *_: os._exit(255))
host, *command = sys.argv[1:]
log = os.environ["FAKE_SSH_LOG"]
with open(log, "a") as file:
    file.write(" ".join([host, *command]) + "\\n")
with open(log + "." + host, "w") as file:
    file.write(str(os.getpid()) + "\\n")
environment = dict(PATH=os.environ["PATH"], FAKE_HOST=host)
done = subprocess.run(["/bin/sh", "-c", " ".join(command)], env=environment, start_new_session=True)
sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """A program that stands in for ssh, and the list of its calls."""
    program, log = tmp_path / "ssh", tmp_path / "ssh.log"
    program.write_text(SSH)
    program.chmod(0o755)
    log.touch()
    monkeypatch.setenv("FAKE_SSH_LOG", str(log))
    return program, log


def hosts_of(ssh, hosts="a,b"):
    return ["--hosts", hosts, "--ssh", ssh[0], "--address", "127.0.0.1"]


def test_workers_are_spread_over_hosts_and_told_through_standard_input(tmp_path, ssh):
    program, log = ssh
    worker = (
        "print(os.environ['FAKE_HOST'], rank, restarts, os.environ['FLOCKSTEP_WORKERS'], os.getcwd(), sys.argv[2:])\n"
        "print('to errors', file=sys.stderr)\n"
        "assert len(os.environ['FLOCKSTEP_SECRET']) == 64\n"
        "assert 'FLOCKSTEP_SECRET_FILE' not in os.environ\n"
    )
    script = tmp_path / "worker.py"
    script.write_text(PLACE + worker)
    odd = ["it's", "$HOME `id`", "", 'a "b"\n', "--"]
    options = ["--workers", 4, "--hosts", "a,me@b", "--ssh", program, "--address", "127.0.0.1"]
    done = run("launch", *options, "--", sys.executable, script, tmp_path, *odd, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    hosts = ["a", "a", "me@b", "me@b"]
    assert sorted(done.stdout.splitlines()) == sorted(
        f"{host} {rank} 0 4 {tmp_path} {odd}" for rank, host in enumerate(hosts)
    )
    assert done.stderr.count("to errors\n") == 4
    assert sorted(log.read_text().splitlines()) == sorted(f"{host} sh -s" for host in hosts)


def test_a_worker_of_another_host_is_started_again_with_its_status_told(tmp_path, ssh):
    worker = (
        "if restarts == 0 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nif rank == 0: sys.exit(3 + restarts)\n"
    )
    code, _, errors = run_launched(tmp_path, "--workers", 2, "--restarts", 1, *hosts_of(ssh), worker=worker)
    assert code == 0
    assert "worker 1 on b was killed by SIGKILL after" in errors
    assert "worker 0 on a ended with status 4 after" in errors


def test_what_a_lost_worker_started_ends_with_it(tmp_path, ssh):
    expect_that_children_end(tmp_path, *hosts_of(ssh, "a"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_workers_of_other_hosts(tmp_path, ssh, number):
    def expect_a_secret(workers):
        environment = Path(f"/proc/{workers[0]}/environ").read_bytes().split(b"\0")
        (secret,) = [each.partition(b"=")[2] for each in environment if each.startswith(b"FLOCKSTEP_SECRET=")]
        assert len(secret) == 64
        assert not any(secret in line for line in command_lines())

    not_ignored_from_the_start = "assert signal.getsignal(signal.SIGINT) == signal.default_int_handler\n"
    hosts = hosts_of(ssh)
    expect_a_signal_to_end_all(tmp_path, number, *hosts, worker=not_ignored_from_the_start, look=expect_a_secret)


def test_workers_of_other_hosts_go_on_without_the_launcher(tmp_path, ssh):
    assert expect_workers_to_outlive_the_launcher(tmp_path, *hosts_of(ssh)) == []


def test_a_lost_connection_ends_what_is_left_when_the_worker_is_started_again(tmp_path, ssh):
    with launched(tmp_path, "--workers", 2, *hosts_of(ssh), worker=FOREVER) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        os.kill(pid_in(Path(f"{ssh[1]}.b")), signal.SIGUSR1)
        again = pid_in(tmp_path / "1.1")
        wait_until(lambda: sorted(workers_of(tmp_path)) == sorted([workers[0], again]), "the end of the old worker")
        code, _, errors = outcome_of(process, signal.SIGTERM)
    assert code == 143
    assert "worker 1 on b lost its connection after" in errors
