"""`flockstep launch`: workers that are started again alone, output in whole lines, an end on Ctrl-C, other hosts by ssh."""

import contextlib
import itertools
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import COMMAND, run
from paths import HANG_S

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


@pytest.fixture(autouse=True)
def _mesh(needs):
    needs("mesh")


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """A program that stands in for ssh, and the list of its calls."""
    program, log = tmp_path / "ssh", tmp_path / "ssh.log"
    program.write_text(SSH)
    program.chmod(0o755)
    log.touch()
    monkeypatch.setenv("FAKE_SSH_LOG", str(log))
    return program, log


@contextlib.contextmanager
def launched(tmp_path, *options, worker):
    """The launcher as a process, its workers programs in Python. None of them outlives the test."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, signal, sys, time\nrank, restarts = (int(os.environ['FLOCKSTEP_' + name]) for name in ('RANK', 'RESTARTS'))\n"
        + worker
    )
    process = subprocess.Popen(
        [COMMAND, "launch", *map(str, options), "--", sys.executable, "-u", script, tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        for worker_id in workers_of(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker_id, signal.SIGKILL)
        process.communicate()


def run_launched(tmp_path, *options, worker):
    with launched(tmp_path, *options, worker=worker) as process:
        out, errors = process.communicate(timeout=HANG_S)
    return process.returncode, out, errors


def workers_of(tmp_path):
    """Processes whose command line is that of this test's workers."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"-u", str(tmp_path / "worker.py").encode()] and state_of(entry) not in "ZX":
                found.append(int(entry.name))
    return found


def state_of(entry):
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]


def wait_for(is_so, what):
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def pid_in(path):
    """What a worker has written there, once it is whole."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is not written")
    return int(path.read_text())


NOTE = "open(f'{sys.argv[1]}/{rank}.{restarts}', 'w').write(f'{os.getpid()}\\n')\n"
FOREVER = NOTE + "while True: time.sleep(3600)\n"


def test_a_killed_worker_alone_is_started_again_with_its_rank(tmp_path):
    wait_for_end = "while not os.path.exists(sys.argv[1] + '/end'): time.sleep(0.01)\n"
    with launched(tmp_path, "--workers", 3, worker=NOTE + wait_for_end) as process:
        others = [pid_in(tmp_path / f"{rank}.0") for rank in (0, 2)]
        for restarts in range(2):
            os.kill(pid_in(tmp_path / f"1.{restarts}"), signal.SIGKILL)
        last = pid_in(tmp_path / "1.2")
        assert sorted(workers_of(tmp_path)) == sorted([*others, last])
        (tmp_path / "end").touch()
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert re.search(
        r"^flockstep: worker 1 was killed by SIGKILL after [\d.]+ s; starting it again \(1 of 10\)$", errors, re.M
    )
    assert "starting it again (2 of 10)" in errors
    assert not (tmp_path / "0.1").exists()


def test_each_wait_before_a_restart_is_longer(tmp_path):
    begin = time.monotonic()
    code, out, errors = run_launched(
        tmp_path, "--workers", 1, "--restarts", 4, worker="print(time.monotonic())\nsys.exit(restarts + 1)\n"
    )
    assert code == 5
    assert time.monotonic() - begin > 1.5
    starts = [float(line) for line in out.split()]
    waits = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert len(waits) == 4
    for wait, least in zip(waits, [0.1, 0.2, 0.4, 0.8], strict=True):
        assert wait > least
    assert "worker 0 ended with status 5 after" in errors
    assert "it is not started again: it had 4 restarts" in errors


def test_the_others_go_on_when_one_is_given_up(tmp_path):
    worker = "if rank == 1: sys.exit(7 + restarts)\nwhile not os.path.exists(sys.argv[1] + '/end'): time.sleep(0.01)\n"
    with launched(tmp_path, "--workers", 3, "--restarts", 1, worker=worker) as process:
        said = ""
        while "it is not started again: it had 1 restart\n" not in said:
            said += process.stderr.readline()
        assert process.poll() is None
        assert len(workers_of(tmp_path)) == 2
        (tmp_path / "end").touch()
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert "flockstep: 2 of 3 workers finished\n" in errors


@pytest.mark.parametrize(
    ("worker", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(3 if rank == 0 else 0)", 0),
        ("time.sleep(0 if rank == 1 else 0.5); sys.exit(10 + rank)", 11),  # the first that is given up
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    ],
)
def test_the_exit_status_tells_whether_anybody_finished(tmp_path, worker, code):
    assert run_launched(tmp_path, "--workers", 2, "--restarts", 0, worker=worker)[0] == code


def test_who_ends_early_with_the_same_status_thrice_is_not_started_again(tmp_path):
    code, _, errors = run_launched(tmp_path, "--workers", 1, worker="sys.exit('bad input')\n")
    assert code == 1
    assert errors.count("bad input\n") == 3
    assert "it is not started again: it has ended like this 3 times in a row and never ran for 5.0 s\n" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_even_who_ignores_it(tmp_path, number):
    worker = (
        "if rank == 1:\n"
        "  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
        "elif rank == 2:\n"
        "  def end(number, frame):\n"
        "    print('ended by', number)\n"
        "    sys.exit(0)\n"
        "  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, end)\n"
        "elif rank == 3: sys.exit(1)\n"  # waits to be started again, or is
    )
    with launched(tmp_path, "--workers", 4, worker=worker + FOREVER) as process:
        for rank in range(3):
            pid_in(tmp_path / f"{rank}.0")
        begin = time.monotonic()
        process.send_signal(number)
        out, errors = process.communicate(timeout=HANG_S)
        took = time.monotonic() - begin
        assert workers_of(tmp_path) == []
    assert process.returncode == 128 + number
    assert 5 <= took < 6
    assert f"ended by {int(number)}\n" in out
    assert f"flockstep: {number.name}: ending " in errors
    assert "flockstep: killing what has not ended: worker 1\n" in errors


def test_a_second_ctrl_c_kills_at_once(tmp_path):
    worker = "signal.signal(signal.SIGINT, lambda *_: print('not yet'))\n"
    with launched(tmp_path, "--workers", 1, worker=worker + FOREVER) as process:
        pid_in(tmp_path / "0.0")
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "not yet\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("where", ["here", "there"])
def test_what_a_lost_worker_started_ends_with_it(tmp_path, ssh, where):
    worker = (
        "import subprocess\n"
        "if restarts: sys.exit(0)\n"
        "child = subprocess.Popen(['sleep', '3600'])\n"
        "open(f'{sys.argv[1]}/child', 'w').write(f'{child.pid}\\n')\n"
    )
    hosts = hosts_of(ssh, "a") if where == "there" else []
    with launched(tmp_path, "--workers", 1, *hosts, worker=worker + FOREVER) as process:
        child = pid_in(tmp_path / "child")
        os.kill(pid_in(tmp_path / "0.0"), signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        assert process.returncode == 0
        wait_for(lambda: not Path(f"/proc/{child}").exists() or state_of(Path(f"/proc/{child}")) == "Z", "it lives on")


def test_workers_go_on_when_the_launcher_is_killed(tmp_path):
    """They write more than a pipe holds, to nobody, and end as if nothing had happened."""
    worker = (
        "while not os.path.exists(sys.argv[1] + '/killed'): time.sleep(0.01)\n"
        "for line in range(30000): print('line', line, 'x' * 50)\n"
        "open(f'{sys.argv[1]}/done.{rank}', 'w').write(f'{rank}\\n')\n"
    )
    with launched(tmp_path, "--workers", 2, worker=NOTE + worker) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        (secret,) = secret_files(workers[0])
        process.kill()
        process.wait(timeout=HANG_S)
        process.stdout.close()
        process.stderr.close()
        assert sorted(workers_of(tmp_path)) == sorted(workers)
        (tmp_path / "killed").touch()
        for rank in range(2):
            assert pid_in(tmp_path / f"done.{rank}") == rank
        wait_for(lambda: not secret.parent.exists(), "the folder with the secret is still there")


def test_what_workers_write_is_passed_on_when_the_launcher_is_killed(tmp_path):
    worker = "while not os.path.exists(sys.argv[1] + '/killed'): time.sleep(0.01)\nprint('still here')\n"
    with launched(tmp_path, "--workers", 1, worker=NOTE + worker) as process:
        pid_in(tmp_path / "0.0")
        process.kill()
        process.wait(timeout=HANG_S)
        (tmp_path / "killed").touch()
        assert process.communicate(timeout=HANG_S)[0] == "still here\n"


def secret_files(worker):
    """The files that a worker's environment names."""
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")
    return [
        Path(value) for name, _, value in (each.partition("=") for each in variables) if name == "FLOCKSTEP_SECRET_FILE"
    ]


def command_lines():
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield entry.read_bytes()


def test_the_secret_is_in_a_file_of_mode_0600_and_on_no_command_line(tmp_path):
    with launched(tmp_path, "--workers", 2, worker=FOREVER) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        (secret,) = {file for worker in workers for file in secret_files(worker)}
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
        text = secret.read_text().strip()
        assert re.fullmatch("[0-9a-f]{64}", text)
        lines = list(command_lines())
        assert any(str(tmp_path).encode() in line for line in lines)
        assert not any(text.encode() in line for line in lines)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_S)
        assert not secret.parent.exists()


def test_a_named_secret_is_made_once_and_kept(tmp_path):
    file = tmp_path / "secret"
    worker = "print(open(os.environ['FLOCKSTEP_SECRET_FILE']).read().strip())\n"
    seen = [run_launched(tmp_path, "--workers", 1, "--secret-file", file, worker=worker)[1] for _ in range(2)]
    assert seen[0] == seen[1] == file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_workers_learn_their_place_from_the_environment(tmp_path):
    names = ["RANK", "WORKERS", "STORE", "RESTARTS", "HEARTBEAT", "HOST"]
    worker = f"print(*(os.environ['FLOCKSTEP_' + name] for name in {names}))\n"
    code, out, errors = run_launched(tmp_path, "--workers", 2, "--heartbeat", "1.5s", worker=worker)
    assert code == 0
    store = re.search(r"2 workers started; others join with --join (127\.0\.0\.1:\d+) --secret-file /", errors)[1]
    assert sorted(out.splitlines()) == [f"{rank} 2 {store} 0 1.5s 127.0.0.1" for rank in range(2)]


@pytest.mark.parametrize("prefix", [False, True])
def test_lines_stay_whole(tmp_path, prefix):
    worker = (
        "for line in range(300):\n"
        "  for piece in (f'worker {rank} line {line} ', 'x' * 5000, '\\n'):\n"
        "    print(piece, end='', flush=True, file=sys.stderr if line % 2 else sys.stdout)\n"
        "print('half', end='')\n"
    )
    code, out, errors = run_launched(tmp_path, "--workers", 3, *["--prefix"][:prefix], worker=worker)
    assert code == 0
    for text, first in ((out, 0), (errors, 1)):
        lines = [line for line in text.splitlines() if not line.startswith("flockstep: ")]
        for rank in range(3):
            mine = [line for line in lines if f"worker {rank} line" in line]
            before = f"[{rank}] " if prefix else ""
            assert mine == [f"{before}worker {rank} line {line} {'x' * 5000}" for line in range(first, 300, 2)]
        assert len(lines) == 3 * 150 + (0 if first else 3)
    assert out.count("half\n") == 3


def test_on_a_terminal_lines_begin_with_the_rank():
    ours, its = os.openpty()
    with open(ours, "rb", closefd=True) as terminal:
        done = subprocess.run(
            [COMMAND, "launch", "--workers", "1", "--", "echo", "hello"],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=subprocess.DEVNULL,
            timeout=HANG_S,
        )
        os.close(its)
        assert done.returncode == 0
        assert terminal.readline() == b"[0] hello\r\n"


def test_workers_are_spread_over_hosts_and_told_through_standard_input(tmp_path, ssh):
    program, log = ssh
    worker = (
        "print(os.environ['FAKE_HOST'], rank, restarts, os.environ['FLOCKSTEP_WORKERS'], os.getcwd(), sys.argv[2:])\n"
        "print('to errors', file=sys.stderr)\n"
        "assert len(os.environ['FLOCKSTEP_SECRET']) == 64\n"
        "assert 'FLOCKSTEP_SECRET_FILE' not in os.environ\n"
    )
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\nrank, restarts = (int(os.environ['FLOCKSTEP_' + name]) for name in ('RANK', 'RESTARTS'))\n"
        + worker
    )
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


def hosts_of(ssh, hosts="a,b"):
    return ["--hosts", hosts, "--ssh", ssh[0], "--address", "127.0.0.1"]


def test_a_worker_of_another_host_is_started_again_with_its_status_told(tmp_path, ssh):
    worker = (
        "if restarts == 0 and rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nif rank == 0: sys.exit(3 + restarts)\n"
    )
    code, _, errors = run_launched(tmp_path, "--workers", 2, "--restarts", 1, *hosts_of(ssh), worker=worker)
    assert code == 0
    assert "worker 1 on b was killed by SIGKILL after" in errors
    assert "worker 0 on a ended with status 4 after" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_workers_of_other_hosts(tmp_path, ssh, number):
    worker = (
        "if rank == 1:\n"
        "  for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "elif rank == 2:\n"
        "  def end(number, frame):\n"
        "    print('ended by', number)\n"
        "    sys.exit(0)\n"
        "  signal.signal(signal.SIGTERM, end)\n"
        "  assert signal.getsignal(signal.SIGINT) == signal.default_int_handler\n"  # not ignored from the start
        "  signal.signal(signal.SIGINT, end)\n"
    )
    with launched(tmp_path, "--workers", 3, *hosts_of(ssh), worker=worker + FOREVER) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(3)]
        environment = Path(f"/proc/{workers[0]}/environ").read_bytes().split(b"\0")
        (secret,) = [each.partition(b"=")[2] for each in environment if each.startswith(b"FLOCKSTEP_SECRET=")]
        assert len(secret) == 64
        assert not any(secret in line for line in command_lines())
        begin = time.monotonic()
        process.send_signal(number)
        out, errors = process.communicate(timeout=HANG_S)
        assert time.monotonic() - begin < 6
        assert workers_of(tmp_path) == []
    assert process.returncode == 128 + number
    assert f"ended by {int(number)}\n" in out
    assert "killing what has not ended: worker 1\n" in errors


def test_workers_of_other_hosts_go_on_without_the_launcher(tmp_path, ssh):
    worker = (
        "while not os.path.exists(sys.argv[1] + '/killed'): time.sleep(0.01)\n"
        "for line in range(30000): print('line', line, 'x' * 50)\n"
        "open(f'{sys.argv[1]}/done.{rank}', 'w').write(f'{rank}\\n')\n"
    )
    with launched(tmp_path, "--workers", 2, *hosts_of(ssh), worker=NOTE + worker) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        process.kill()
        process.wait(timeout=HANG_S)
        process.stdout.close()
        process.stderr.close()
        assert sorted(workers_of(tmp_path)) == sorted(workers)
        (tmp_path / "killed").touch()
        for rank in range(2):
            assert pid_in(tmp_path / f"done.{rank}") == rank


def test_a_lost_connection_ends_what_is_left_when_the_worker_is_started_again(tmp_path, ssh):
    with launched(tmp_path, "--workers", 2, *hosts_of(ssh), worker=FOREVER) as process:
        workers = [pid_in(tmp_path / f"{rank}.0") for rank in range(2)]
        os.kill(pid_in(Path(f"{ssh[1]}.b")), signal.SIGUSR1)
        again = pid_in(tmp_path / "1.1")
        wait_for(lambda: sorted(workers_of(tmp_path)) == sorted([workers[0], again]), "the old worker lives on")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 143
    assert "worker 1 on b lost its connection after" in errors


def test_others_join_with_ranks_that_nobody_has(tmp_path):
    """And with the number of workers that the run began with."""
    secret = tmp_path / "secret"
    worker = (
        "print(rank, os.environ['FLOCKSTEP_WORKERS'])\n"
        "while not os.path.exists(sys.argv[1] + '/end'): time.sleep(0.01)\n"
    )
    with launched(tmp_path, "--workers", 3, "--secret-file", secret, worker=worker) as first:
        store = re.search(r"--join (\S+) ", first.stderr.readline())[1]
        joins = ["--join", store, "--secret-file", secret]
        with launched(tmp_path, "--workers", 2, *joins, worker=worker) as second:
            assert {second.stdout.readline() for _ in range(2)} == {"3 3\n", "4 3\n"}
            with launched(tmp_path, "--workers", 1, *joins, worker=worker) as third:
                assert third.stdout.readline() == "5 3\n"
                (tmp_path / "end").touch()
                for process in (first, second, third):
                    process.communicate(timeout=HANG_S)
                    assert process.returncode == 0


def test_who_has_another_secret_does_not_join(tmp_path):
    secret = tmp_path / "secret"
    with launched(tmp_path, "--workers", 1, worker=FOREVER) as process:
        store = re.search(r"--join (\S+) ", process.stderr.readline())[1]
        secret.write_text("0" * 64)
        secret.chmod(0o600)
        done = run("launch", "--workers", 1, "--join", store, "--secret-file", secret, "--", "true")
        assert done.returncode == 1
        assert done.stderr.startswith("flockstep: ")
        assert done.stderr.count("\n") == 1
        assert process.poll() is None


WRONG = [
    (["--workers", 2], "launch needs the command of a worker after --, such as `-- python train.py`"),
    (["--workers", 2, "--"], "launch needs the command of a worker after --, such as `-- python train.py`"),
    (["--workers", 2, "python", "train.py"], "launch needs -- before the command of a worker: write `-- python ...`"),
    (["--", "true"], "launch needs --workers, the number of workers to start"),
    (["--workers", 0, "--", "true"], "launch needs --workers, the number of workers to start"),
    (["--workers", -3, "--", "true"], "--workers takes a whole number from 1 to 4096, not -3"),
    (["--worker", 3, "--", "true"], "launch does not take --worker; did you mean --workers?"),
    (["--workers", 1, "--heartbeat", "soon", "--", "true"], "--heartbeat takes a time such as 320ms, 1.5s or 50us"),
    (["--workers", 1, "--hosts", "a;b", "--", "true"], "--hosts takes names such as a,b or user@a, not 'a;b'"),
    (["--workers", 1, "--join", "here:1", "--", "true"], "--join needs the run's secret"),
    (["--workers", 1, "--", "no-such-program"], "cannot start no-such-program: No such file or directory"),
    (
        ["--workers", 1, "--join", "a:1", "--secret-file", "/no/file", "--", "true"],
        "--secret-file /no/file: cannot read it",
    ),
    (
        ["--workers", 1, "--hosts", "a", "--ssh", "/no/ssh", "--address", "127.0.0.1", "--", "true"],
        "cannot start /no/ssh",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_a_wrong_call_gets_one_sentence(arguments, sentence):
    done = run("launch", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"flockstep: {sentence}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("mode", "text", "reason"),
    [
        (0o640, "0" * 64, "others than its owner may use it (mode 0640): chmod 600 "),
        (0o600, "0" * 63, "it does not hold a secret, which is 64 hexadecimal digits"),
        (0o600, "0" * 65, "it does not hold a secret, which is 64 hexadecimal digits"),
        (0o600, "z" * 64, "it does not hold a secret, which is 64 hexadecimal digits"),
    ],
)
def test_a_secret_that_others_can_read_or_that_is_none_is_refused(tmp_path, mode, text, reason):
    file = tmp_path / "secret"
    file.write_text(text + "\n")
    file.chmod(mode)
    done = run("launch", "--workers", 1, "--secret-file", file, "--", "true")
    assert done.returncode == 2
    assert done.stderr.startswith(f"flockstep: --secret-file {file}: {reason}")
