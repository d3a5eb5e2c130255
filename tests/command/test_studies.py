"""The studies of tasks: what they ask the command for, and the tables and pictures they make of what comes back."""

import json
import subprocess
import sys

import pytest
from conftest import run
from paths import HANG_S, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import study_tools
import task_studies
from task_studies import STUDIES

RULES = ("mean", "adacons", "direction_consensus")
SMALL = {"name": "small", "steps": 800, "settings": {"learning_rate": "0.03"}}
SCENARIOS = ("late", "skewed", "noisy", "minus-five")


def spread(mean, deviation=0.01):
    return {"mean": mean, "deviation": deviation, "median": mean, "min": mean, "max": mean}


def row(algorithm, quality, time_s, samples_per_s, diverged=0, fresh=None):
    return {
        **{"algorithm": algorithm, "runs": 3, "diverged": diverged, "wait_share": spread(0.25)},
        **{"quality": spread(None if diverged else quality), "time_s": spread(time_s)},
        **{"samples_per_s": spread(samples_per_s), "fresh_fraction": spread(fresh) if fresh else None},
        "searched": {"name": "toy.learning_rate", "value": "0.2", "edge": algorithm == "flock"},
        "curve": {"steps": [0, 100], "time_s": [0.0, time_s], "quality": {"mean": [0.0, quality]}},
    }


def made_up(folder, rows):
    folder.mkdir(parents=True)
    case = {"workers": 8, "batch": 64, "rows": rows}
    (folder / "compare.json").write_text(json.dumps({"metric": "SPL", "cases": [case]}))


@pytest.fixture
def out(tmp_path):
    """As another machine has left it: with a row that diverged, and without the scenario `noisy`."""
    out = tmp_path / "studies"
    late = [
        row("mean", 0.8, 100, 1000),
        row("wagma", 0.7, 60, 1600, fresh=0.3),
        row("flock", 0.75, 50, 2000, fresh=0.5),
    ]
    made_up(out / "navigation" / "late", late)
    rules = zip(RULES, (0.6, 0.5, 0.55), strict=True)
    made_up(out / "navigation" / "skewed", [row(name, quality, 100, 1000) for name, quality in rules])
    wrong = [row("mean", 0.2, 100, 1000), row("adacons", 0, 100, 1000, diverged=2), row(RULES[2], 0.7, 100, 1000)]
    made_up(out / "navigation" / "minus-five", wrong)
    return out


def script(*arguments, without=""):
    """The script, as on a machine that lacks a library."""
    start = f"import runpy, sys; sys.modules.update({{{without!r}: None}}); " if without else "import runpy, sys; "
    path = ROOT / "scripts" / "studies.py"
    code = f"{start}sys.argv = {['studies.py', *map(str, arguments)]!r}; runpy.run_path({str(path)!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)


@pytest.mark.parametrize("name", STUDIES)
def test_the_command_understands_what_a_study_asks_for(torch, tmp_path, name):
    (tmp_path / "file").touch()
    for scenario in STUDIES[name].scenarios:
        arguments = task_studies.arguments_of(STUDIES[name], scenario, task_studies.small(name), "", 4)
        # Where results go is looked at when all else has been checked, and before anything runs.
        done = run("compare", *arguments, "--out", tmp_path / "file" / "out")
        assert done.stderr.startswith(f"flockstep: cannot make the folder {tmp_path}/file/out"), (scenario, done.stderr)


def test_scenarios_are_those_of_the_papers():
    for name in ("detection", "recommendation", "translation", "navigation"):
        study = STUDIES[name]
        assert tuple(study.scenarios) == SCENARIOS
        words = {scenario: task_studies.arguments_of(study, scenario, SMALL, "", 2) for scenario in SCENARIOS}
        for each in words.values():
            assert each[each.index("--size") + 1] == "small"
            assert each[each.index("--seeds") + 1 : each.index("--seeds") + 4] == ["3", "--search-seeds", "1"]
            assert each[each.index("--lr") + 1] == "0.015,0.03,0.06"
            assert each[-2:] == ["--jobs", "2"]
        assert words["late"][words["late"].index("--algorithms") + 1] == "all"
        for scenario in SCENARIOS[1:]:
            assert words[scenario][words[scenario].index("--algorithms") + 1] == ",".join(RULES)
        # Steps of these two are uneven by themselves.
        assert ("--straggler" in words["late"]) == (name in ("detection", "recommendation"))
        assert "--straggler" not in words["noisy"]
        assert {"--shard", "skewed"} <= set(words["skewed"])
        assert {"--faulty", "3:scale:-5"} <= set(words["minus-five"])
    assert "1x" in " ".join(STUDIES["detection"].scenarios["late"].flags)
    assert "1x" in " ".join(STUDIES["recommendation"].scenarios["late"].flags)


def test_tables_and_differences_are_made_of_what_is_there(out, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(study_tools, "PICTURES", tmp_path / "pictures")
    task_studies.study_task(STUDIES["navigation"], out, [], "", 1, only_draw=True)
    text = capsys.readouterr().out
    assert "| algorithm | all alike, uneven steps | each worker its own mazes | 1 worker sends -5 g |" in text
    assert "| `mean` | 0.800 ± 0.010 | 0.600 ± 0.010 | 0.200 ± 0.010 |" in text
    assert "| `adacons` |  | 0.500 ± 0.010 | 2 of 3 diverged |" in text
    # After 50 s the curve of mean stands half way between 0 and 0.8.
    assert "| `flock` | 2.00 | 0.25 | 0.50 | 0.750 ± 0.010 | 0.400 | 0.2 (edge) |" in text
    assert "| `mean` | 1.00 | 0.25 | - | 0.800 ± 0.010 | 0.800 | 0.2 |" in text
    assert "flock against mean: +35.0 points at equal time, -5.0 at equal steps." in text
    assert "flock against wagma at equal steps: +5.0 points, 1.25 times as fast." in text
    assert "direction_consensus against mean, 1 worker sends -5 g: +50.0 points." in text
    drawn = (tmp_path / "pictures" / "navigation.svg").read_text()
    assert "<svg" in drawn


def test_points_of_bleu_are_its_own(out, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(study_tools, "PICTURES", tmp_path / "pictures")
    (out / "navigation").rename(out / "translation")
    task_studies.study_task(STUDIES["translation"], out, [], "", 1, only_draw=True)
    assert "flock against wagma at equal steps: +0.1 points" in capsys.readouterr().out


def test_one_scenario_is_made_alone_and_nothing_is_drawn_where_that_cannot_be(tmp_path, monkeypatch, capsys):
    asked = []

    def compare(folder, *arguments):
        asked.append((folder, arguments))
        made_up(folder, [row(name, 0.5, 10, 10) for name in RULES])

    monkeypatch.setattr(task_studies, "compare", compare)
    monkeypatch.setattr(task_studies, "small", lambda task: SMALL)
    task_studies.study_task(STUDIES["detection"], tmp_path, ["noisy"], "", 4, only_draw=False)
    ((folder, arguments),) = asked
    assert folder == tmp_path / "detection" / "noisy"
    assert arguments == tuple(task_studies.arguments_of(STUDIES["detection"], "noisy", SMALL, "", 4))
    assert "| algorithm | 1 with random boxes |" in capsys.readouterr().out


def test_without_anything_to_draw_with_there_are_tables(out):
    done = script("navigation", "--only-draw", "--out", out, without="matplotlib")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "No picture: matplotlib is not installed here. --only-draw draws it elsewhere.\n"
    assert "flock against wagma" in done.stdout


def test_wrong_calls_are_told(tmp_path):
    done = script("navigation", "--scenario", "easy")
    assert done.returncode == 2
    assert "navigation has no scenario 'easy'; there are late, skewed, noisy, minus-five" in done.stderr
    done = script("navigation", "--only-draw", "--out", tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"{tmp_path}/navigation holds no comparison: leave --only-draw out, or name the folder with --out\n"
    )
