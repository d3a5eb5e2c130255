"""What a shell offers while a call is typed, in the shells themselves where they are there."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import COMMAND, run, run_json
from paths import HANG_S, ROOT

ENVIRONMENT = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
# Each line holds the words of a call, with a tab between them; so does each line of the answer, with a tab after every word.
ASK_BASH = r"""
source <(flockstep completion bash)
while IFS= read -r line; do
  IFS=$'\t' read -r -a COMP_WORDS <<< "${line}"
  [[ $line == *$'\t' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _flockstep
  printf '%s\t' "${COMPREPLY[@]}"
  echo
done
"""


def shell(program, script, **keywords):
    done = subprocess.run(
        [program, *(["--norc"] if program == "bash" else []), "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=HANG_S,
        **keywords,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def offered_by_bash(*calls):
    lines = "".join("\t".join(["flockstep", *call]) + "\n" for call in calls)
    return [line.split("\t")[:-1] for line in shell("bash", ASK_BASH, input=lines).splitlines()]


def offered(*words):
    """By the command itself: which paths, and the words with what they mean."""
    done = run("__complete", *words)
    assert (done.returncode, done.stderr) == (0, "")
    paths, *lines = done.stdout.splitlines()
    return paths, dict(line.split("\t") for line in lines)


def names_of(listing):
    rows = run_json(listing)
    return [row["name"] for row in (rows["engines"] if listing == "engines" else rows)]


def test_bash_completes_commands_options_values_and_paths():
    expected = [
        (["re"], ["report"]),
        (["train", "--al"], ["--algorithm"]),
        (["train", "--wagma.per"], ["--wagma.period"]),
        (["train", "--algorithm", ""], names_of("algorithms")),
        (["train", "--task", "=", "im"], ["images"]),
        (["train", "--task", "="], names_of("tasks")),
        (["compare", "--algorithms", "mean,adac"], ["mean,adacons"]),
        (["report", "doc"], ["docs"]),
        (["train", "--config", "pypr"], ["pyproject.toml"]),
    ]
    assert offered_by_bash(*(call for call, _ in expected)) == [words for _, words in expected]


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_such(name, tmp_path):
    script = run("completion", name)
    assert script.returncode == 0
    assert "__complete" in script.stdout
    if not shutil.which(name):
        pytest.skip(f"there is no {name} here")
    (tmp_path / "script").write_text(script.stdout)
    subprocess.run([name, "-n", tmp_path / "script"], check=True, timeout=HANG_S)
    if name == "fish":
        answer = shell("fish", 'flockstep completion fish | source; complete -C "flockstep train --task=im"')
        assert answer.startswith("--task=images\t")


def test_every_value_that_a_listing_has_is_offered():
    known = {listing: names_of(listing) for listing in ("algorithms", "tasks", "engines", "platforms")}
    assert list(offered("train", "--task", "")[1]) == known["tasks"]
    assert list(offered("train", "--engine", "")[1]) == [*known["engines"], "auto"]
    assert offered("train", "--platform", "")[0] == "files"
    assert list(offered("train", "--platform", "")[1]) == known["platforms"]
    assert list(offered("compare", "--algorithms", "mean,")[1]) == [f"mean,{name}" for name in known["algorithms"]]
    studies = json.loads(run("study", "--json").stdout)
    assert list(offered("study", "")[1]) == [study["name"] for study in studies]
    assert list(offered("bench", "")[1]) == ["kernels", "adacons", "group", "straggler"]
    assert offered("train", "--out", "")[0] == offered("report", "")[0] == "folders"
    assert list(offered("train", "--algorithm", "flock", "--flock.guard", "")[1]) == ["on", "off"]


@pytest.mark.parametrize("command", ["train", "compare", "study", "bench", "calibrate", "launch", "completion"])
def test_every_option_of_the_help_is_offered(command):
    told = set(re.findall(r"^  (?:-h,)?(--[\w-]+)", run(command, "--help").stdout, re.MULTILINE))
    assert "--help" in told
    assert told <= set(offered(command, "--")[1])


def test_options_of_an_algorithm_are_offered_once_it_is_named():
    assert not any("." in option for option in offered("train", "--")[1])
    named = [option for option in offered("compare", "--algorithms", "mean,wagma:period=3", "--")[1] if "." in option]
    assert {option.partition(".")[0] for option in named} == {"--mean", "--wagma"}
    assert "--wagma.period" in named


def test_where_nothing_is_known_nothing_is_offered():
    for words in (["nonsense", ""], ["train", "--steps", ""], ["train", "--nonsense"], ["algorithms", "x"]):
        assert offered(*words) == ("none", {}), words
    assert offered("launch", "--workers", "2", "--", "pyth") == ("files", {})
