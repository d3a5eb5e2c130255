"""What tests of `flockstep report` have drawn, and what they draw from."""

import contextlib
import io
import json

from conftest import run, run_json
from flockstep.report.__main__ import main as draw
from sample_run import page_of

COMPARISON = ("--steps", 5, "--algorithms", "mean,adacons", "--target", 900)


def report_by_command(folder):
    done = run("report", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{folder / 'report.html'}\n"
    return page_of(folder)


def report(folder):
    """What the command runs, within this process: libraries that draw take longer to load than to draw."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = draw([str(folder)])
    assert (code, errors.getvalue()) == (0, "")
    assert out.getvalue() == f"{folder / 'report.html'}\n"
    return page_of(folder)


def words_of(folder):
    """What `flockstep report --text` prints."""
    done = run("report", folder, "--text")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def compared(out):
    """Makes a small comparison without its page, and returns its folder."""
    run_json("compare", *COMPARISON, "--out", out)
    (out / "report.html").unlink()
    return out


@contextlib.contextmanager
def edited(path):
    """What a JSON file holds, to be changed."""
    held = json.loads(path.read_text())
    yield held
    path.write_text(json.dumps(held))
