"""`flockstep launch`: the secret of a run, and which workers may join it."""

import re
import signal
import stat

import pytest
from conftest import refused
from launched import FOREVER, command_lines, launched, pid_in, run_launched, secret_files
from live_run import outcome_of


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
        outcome_of(process, signal.SIGTERM)
        assert not secret.parent.exists()


def test_a_named_secret_is_made_once_and_kept(tmp_path):
    file = tmp_path / "secret"
    worker = "print(open(os.environ['FLOCKSTEP_SECRET_FILE']).read().strip())\n"
    seen = [run_launched(tmp_path, "--workers", 1, "--secret-file", file, worker=worker)[1] for _ in range(2)]
    assert seen[0] == seen[1] == file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


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
                assert [outcome_of(process)[0] for process in (first, second, third)] == [0, 0, 0]


def test_who_has_another_secret_does_not_join(tmp_path):
    secret = tmp_path / "secret"
    with launched(tmp_path, "--workers", 1, worker=FOREVER) as process:
        store = re.search(r"--join (\S+) ", process.stderr.readline())[1]
        secret.write_text("0" * 64)
        secret.chmod(0o600)
        names = f"the store at {store} does not know this run: give the secret"
        refused("launch", "--workers", 1, "--join", store, "--secret-file", secret, "--", "true", names=names)
        assert process.poll() is None


NO_SECRET = "it does not hold a secret, which is 64 hexadecimal digits"


@pytest.mark.parametrize(
    ("mode", "text", "reason"),
    [
        (0o640, "0" * 64, "others than its owner may use it (mode 0640): chmod 600 "),
        *((0o600, text, NO_SECRET) for text in ("0" * 63, "0" * 65, "z" * 64)),
    ],
)
def test_a_secret_that_others_can_read_or_that_is_none_is_refused(tmp_path, mode, text, reason):
    file = tmp_path / "secret"
    file.write_text(text + "\n")
    file.chmod(mode)
    names = f"--secret-file {file}: {reason}"
    refused("launch", "--workers", 1, "--secret-file", file, "--", "true", names=names)
