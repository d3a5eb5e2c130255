"""`flockstep launch`: workers that are started again alone, an end on Ctrl-C, output in whole lines."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import command_line
from launched import (
    FOREVER,
    NOTE,
    expect_a_signal_to_end_all,
    expect_that_children_end,
    expect_workers_to_outlive_the_launcher,
    launched,
    pid_in,
    run_launched,
    workers_of,
)
from live_run import outcome_of


def test_a_killed_worker_alone_is_started_again_with_its_rank(tmp_path):
    wait_for_end = "while not os.path.exists(sys.argv[1] + '/end'): time.sleep(0.01)\n"
    with launched(tmp_path, "--workers", 3, worker=NOTE + wait_for_end) as process:
        others = [pid_in(tmp_path / f"{rank}.0") for rank in (0, 2)]
        for restarts in range(2):
            os.kill(pid_in(tmp_path / f"1.{restarts}"), signal.SIGKILL)
        last = pid_in(tmp_path / "1.2")
        assert sorted(workers_of(tmp_path)) == sorted([*others, last])
        (tmp_path / "end").touch()
        code, _, errors = outcome_of(process)
    assert code == 0
    assert re.search(
        r"^flockstep: worker 1 was killed by SIGKILL after [\d.]+ s; starting it again \(1 of 10\)$", errors, re.M
    )
    assert "starting it again (2 of 10)" in errors
    assert not (tmp_path / "0.1").exists()


def test_the_others_go_on_when_one_is_given_up(tmp_path):
    worker = "if rank == 1: sys.exit(7 + restarts)\nwhile not os.path.exists(sys.argv[1] + '/end'): time.sleep(0.01)\n"
    with launched(tmp_path, "--workers", 3, "--restarts", 1, worker=worker) as process:
        said = ""
        while "it is not started again: it had 1 restart\n" not in said:
            said += process.stderr.readline()
        assert process.poll() is None
        assert len(workers_of(tmp_path)) == 2
        (tmp_path / "end").touch()
        code, _, errors = outcome_of(process)
    assert code == 0
    assert "worker 1 ended with status 8 after" in said
    assert "flockstep: 2 of 3 workers finished\n" in errors


# Worker 0 ends once the launcher has noticed the end of worker 1.
AFTER_THE_OTHER = """
path = sys.argv[1] + '/1.0'
while rank == 0 and not (os.path.exists(path) and open(path).read().endswith('\\n')): time.sleep(0.01)
while rank == 0 and os.path.exists('/proc/' + open(path).read().strip()): time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("worker", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(3 if rank == 0 else 0)", 0),
        pytest.param(NOTE + AFTER_THE_OTHER + "sys.exit(10 + rank)", 11, id="the first that is given up"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    ],
)
def test_the_exit_status_tells_whether_anybody_finished(tmp_path, worker, code):
    assert run_launched(tmp_path, "--workers", 2, "--restarts", 0, worker=worker)[0] == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_even_who_ignores_it(tmp_path, number):
    errors, took = expect_a_signal_to_end_all(tmp_path, number)
    assert took >= 5
    assert f"flockstep: {number.name}: ending " in errors


def test_a_second_ctrl_c_kills_at_once(tmp_path):
    worker = "signal.signal(signal.SIGINT, lambda *_: print('not yet'))\n"
    took = []
    while not took or (took[-1] >= 5 and len(took) < 5):  # a busy machine may take as long as the launcher waits else
        with launched(tmp_path, "--workers", 1, worker=worker + FOREVER) as process:
            pid_in(tmp_path / "0.0")
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "not yet\n"
            code, _, _ = outcome_of(process, signal.SIGINT)
            took.append(time.monotonic() - begin)
        assert code == 130
        (tmp_path / "0.0").unlink()
    assert min(took) < 5


def test_what_a_lost_worker_started_ends_with_it(tmp_path):
    expect_that_children_end(tmp_path)


def test_workers_go_on_when_the_launcher_is_killed(tmp_path):
    assert len(expect_workers_to_outlive_the_launcher(tmp_path)) == 1


def test_what_workers_write_is_passed_on_when_the_launcher_is_killed(tmp_path):
    worker = "while not os.path.exists(sys.argv[1] + '/killed'): time.sleep(0.01)\nprint('still here')\n"
    with launched(tmp_path, "--workers", 1, worker=NOTE + worker) as process:
        pid_in(tmp_path / "0.0")
        process.kill()
        process.wait()
        (tmp_path / "killed").touch()
        assert outcome_of(process)[1] == "still here\n"


def test_workers_learn_their_place_from_the_environment(tmp_path):
    names = ["RANK", "WORKERS", "STORE", "RESTARTS", "HEARTBEAT", "HOST"]
    worker = f"print(*(os.environ['FLOCKSTEP_' + name] for name in {names}))\n"
    code, out, errors = run_launched(tmp_path, "--workers", 2, "--heartbeat", "1.5s", worker=worker)
    assert code == 0
    store = re.search(r"2 workers started; others join with --join (127\.0\.0\.1:\d+) --secret-file /", errors)[1]
    assert sorted(out.splitlines()) == [f"{rank} 2 {store} 0 1.5s 127.0.0.1" for rank in range(2)]


def test_lines_stay_whole(tmp_path):
    worker = (
        "for line in range(300):\n"
        "  for piece in (f'worker {rank} line {line} ', 'x' * 5000, '\\n'):\n"
        "    print(piece, end='', flush=True, file=sys.stderr if line % 2 else sys.stdout)\n"
        "print('half', end='')\n"
    )
    code, out, errors = run_launched(tmp_path, "--workers", 3, "--prefix", worker=worker)
    assert code == 0
    for text, first in ((out, 0), (errors, 1)):
        lines = [line for line in text.splitlines() if not line.startswith("flockstep: ")]
        for rank in range(3):
            mine = [line for line in lines if f"worker {rank} line" in line]
            assert mine == [f"[{rank}] worker {rank} line {line} {'x' * 5000}" for line in range(first, 300, 2)]
        assert len(lines) == 3 * 150 + (0 if first else 3)
    assert out.count("half\n") == 3


def test_on_a_terminal_lines_begin_with_the_rank():
    ours, its = os.openpty()
    with open(ours, "rb", closefd=True) as terminal:
        launch = command_line(["launch", "--workers", 1, "--", "echo", "hello"])
        subprocess.run(launch, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL, check=True)
        os.close(its)
        assert terminal.readline() == b"[0] hello\r\n"
