"""`flockstep launch`: the secret of a run, who may join it, and wrong calls."""

import re
import signal
import stat

import pytest
from conftest import run
from launched import FOREVER, command_lines, launched, pid_in, run_launched, secret_files
from paths import HANG_S


@pytest.fixture(autouse=True)
def _mesh(needs):
    needs("mesh")


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
        assert done.returncode == 2
        assert done.stderr.startswith(f"flockstep: the store at {store} does not know this run: give the secret")
        assert done.stderr.count("\n") == 1
        assert process.poll() is None


WRONG = [
    (["--workers", 2], "launch needs the command of a worker after --, such as `-- python train.py`"),
    (["--workers", 2, "--"], "launch needs the command of a worker after --, such as `-- python train.py`"),
    (["--workers", 2, "python", "train.py"], "launch needs -- before the command of a worker: write `-- python ...`"),
    (["--", "true"], "launch needs --workers, the number of workers to start"),
    (["--workers", 0, "--", "true"], "--workers takes a whole number from 1 to 4096, not '0'"),
    (["--workers", -3, "--", "true"], "--workers takes a whole number from 1 to 4096, not '-3'"),
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
