"""How long steps pretend to take: three forms of --compute, and files of step times."""

import pytest
from conftest import run, run_json

SIM = ["train", "--engine", "sim", "--workers", 4, "--steps", 12]


def test_three_words_for_the_same_steps(needs):
    needs("sim")
    assert run_json(*SIM, "--compute", "200ms")["time_s"] == run_json(*SIM, "--compute-ms", 200)["time_s"]
    one = run_json(*SIM, "--compute", "lognormal:200ms:0.53")
    two = run_json(*SIM, "--compute-ms", 200, "--jitter", "lognormal:0.53")
    assert one["time_s"] == two["time_s"]
    assert one["share_of_ideal"] < 0.9


def test_steps_draw_from_a_file(needs, tmp_path, without_pictures):
    needs("sim")
    times = tmp_path / "times.txt"
    times.write_text("# seconds\n0.1\n0.3\n")
    result = run_json(*SIM, "--compute", f"file:{times}")
    # In lockstep a step takes as long as the longest of four draws: mostly 0.3 s, and nearly never all 0.1 s.
    assert 12 * 0.25 < result["time_s"] < 12 * 0.3 + 0.05
    counts = result["step_times"]["counts"]
    assert sum(counts) == 48
    assert result["pace"]["compute_s"] == pytest.approx(0.2)
    assert result["pace"]["compute_file"]["durations"] == 2
    assert run_json(*SIM, "--compute", f"file:{times}")["time_s"] == result["time_s"]
    assert run_json(*SIM, "--compute", f"file:{times}", "--seed", 2)["time_s"] != result["time_s"]
    # A comparison hands the file on to its children, and knows one that was changed.
    compare = ["compare", *SIM[1:], "--algorithms", "mean,sgp", "--compute", f"file:{times}", "--out", tmp_path / "out"]
    done = run(*compare)
    assert done.returncode == 0, done.stderr
    times.write_text("0.1\n0.4\n")
    changed = run(*compare)
    assert changed.returncode == 2
    assert "compute_file" in changed.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0.1\n200ms\n", "line 2 of {} should be the seconds of one step, above 0 and up to 1000000, not '200ms'"),
        ("# nothing\n", "{} has no durations: it should have one in seconds per line"),
        (None, "cannot read {}"),
    ],
)
def test_a_bad_file_of_step_times_gets_one_sentence(tmp_path, text, sentence):
    times = tmp_path / "times.txt"
    if text is not None:
        times.write_text(text)
    for command in ("train", "compare"):
        done = run(command, "--compute", f"file:{times}")
        assert done.returncode == 1
        assert done.stderr.startswith("flockstep: " + sentence.format(times))
        assert done.stderr.count("\n") == 1
        assert not done.stdout
