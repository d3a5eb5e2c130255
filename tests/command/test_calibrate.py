"""`flockstep calibrate`: a machine in figures, as a platform file, and how far its simulation is from it."""

import json

import pytest
from conftest import refused, run, run_json

pytestmark = pytest.mark.thorough

QUICK = ["--megabytes", 4, "--rounds", 3]


STAR = ["calibrate", "--engine", "sim", "--workers", 3, *QUICK]


def test_a_simulated_star_is_measured_as_what_it_is_by_its_name_too():
    measured = run_json(*STAR)
    assert measured == run_json(*STAR, "--platform", "star")
    assert measured["workers"] == 3
    assert measured["latency_s"] == pytest.approx(20e-6, rel=0.02)  # two links of 10 us
    for rate in ["one_way", "both_ways", "all_at_once", "asleep"]:
        assert measured[rate] == pytest.approx(1.25e9, rel=0.05)  # 10 Gbit/s each way
    for rate in ["sums", "sum_alone", "copies"]:
        assert measured[rate] == pytest.approx(10e9, rel=0.01)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A calibration of this machine's threads: the figures, and the folder with its two files."""
    folder = tmp_path_factory.mktemp("calibration")
    cases = ["--algorithms", "mean,wagma", "--floats", "1000,50000", "--compute-ms", "2,4"]
    files = ["--out", folder / "machine.xml", "--steps", folder / "steps.json"]
    return run_json("calibrate", "--engine", "threads", "--workers", 3, *QUICK, *cases, *files), folder


def test_step_times_are_compared_with_those_of_a_simulation(needs, written):
    needs("sim")
    measured, folder = written
    into, touched = (
        min(measured[one], measured[two]) for one, two in [("both_ways", "all_at_once"), ("sums", "copies")]
    )
    steps = json.loads((folder / "steps.json").read_text())["step_times"]
    call = ["calibrate", "--against", folder / "steps.json", "--platform", folder / "machine.xml"]
    compared = run_json(*call)
    assert compared["workers"] == 3
    assert [cell["algorithm"] for cell in compared["step_times"]] == ["mean"] * 4 + ["wagma"] * 4
    for cell, step in zip(compared["step_times"], steps, strict=True):
        assert cell["measured_s"] == step["step_s"]
        assert cell["error"] == pytest.approx(cell["simulated_s"] / cell["measured_s"] - 1)
        # A group's mean and that of all bring less than two models each into a worker, who touches less than four for
        # each, in 20 messages one after the other.
        most_s = 2 * (4 * cell["floats"] * (2 / into + 4 / touched) + 20 * measured["latency_s"])
        assert 0 <= cell["simulated_s"] - 1e-3 * cell["compute_ms"] < most_s
    assert compared["largest_error"] == max(abs(cell["error"]) for cell in compared["step_times"])
    table = run(*call).stdout.splitlines()
    assert table[0].startswith("3 workers, measured on threads")
    assert len(table) == 3 + 8 + 1
    assert table[-1] == f"largest error {100 * compared['largest_error']:.1f}%"


def test_it_measures_under_mpirun(tmp_path):
    done = run("calibrate", "--engine", "mpi", *QUICK, "--out", tmp_path / "machine.xml", workers=2)
    assert done.returncode == 0, done.stderr
    assert "2 workers on mpi" in done.stdout
    assert done.stdout.count("written to") == 1
    assert "worker1" in (tmp_path / "machine.xml").read_text()


# Two workers whose processors copy 1 GB/s into them, or touch 1 GB/s in sums.
SLOW = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="machine" routing="Full">
    <prop id="flockstep.memory_gbytes_s" value="1"/>
    {properties}
    <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
    <link id="of_a" bandwidth="1e9Bps" latency="1e-7s"/><link id="of_b" bandwidth="1e9Bps" latency="1e-7s"/>
    <route src="a" dst="a" symmetrical="NO"><link_ctn id="of_a"/></route>
    <route src="b" dst="a" symmetrical="NO"><link_ctn id="of_a"/></route>
    <route src="a" dst="b" symmetrical="NO"><link_ctn id="of_b"/></route>
    <route src="b" dst="b" symmetrical="NO"><link_ctn id="of_b"/></route>
  </zone>
</platform>
"""
SHARED = '<prop id="flockstep.sums_share_links" value="yes"/>'
ASLEEP = SHARED + '<prop id="flockstep.asleep_share" value="0.5"/>'
MIB_MS = 2**20 / 1e6  # what a MiB takes


@pytest.mark.parametrize(
    ("properties", "compute_ms", "expected_ms"),
    [
        # Two buckets of 4 MiB: 2 MiB of each come in, 6 are touched, 2 come in. Sums hide the first bucket's result ...
        ("", 0, (2 + 2 + 6 + 6 + 2) * MIB_MS),
        # ... unless the processor has to copy it,
        (SHARED, 0, (2 + 2 + 6 + 6 + 2 + 2) * MIB_MS),
        # and of the first bucket so much is there when the second is, 1 ms later,
        (SHARED, 3, 3 + 20 * MIB_MS - 1),
        # half as much if nobody looks after it.
        (ASLEEP, 3, 3 + 20 * MIB_MS - 0.5),
    ],
)
def test_sums_and_sleep_slow_messages_down_as_the_file_says(needs, tmp_path, properties, compute_ms, expected_ms):
    needs("sim")
    (tmp_path / "slow.xml").write_text(SLOW.format(properties=properties))
    step = {"algorithm": "mean", "floats": 2**21, "compute_ms": compute_ms, "step_s": 1, "lower_s": 1, "upper_s": 1}
    steps = {"engine": "mpi", "workers": 2, "steps": 2, "step_times": [step]}
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    compared = run_json("calibrate", "--against", tmp_path / "steps.json", "--platform", tmp_path / "slow.xml")
    assert 1e3 * compared["step_times"][0]["simulated_s"] == pytest.approx(expected_ms, rel=0.005)


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        (SHARED.replace("yes", "perhaps"), "flockstep.sums_share_links is yes or no, not 'perhaps'"),
        (ASLEEP.replace("0.5", "2"), "flockstep.asleep_share"),
        (ASLEEP.replace("0.5", "half"), "flockstep.asleep_share"),
    ],
)
def test_a_file_with_a_wrong_property_is_refused(tmp_path, properties, names):
    (tmp_path / "slow.xml").write_text(SLOW.format(properties=properties))
    call = ["calibrate", "--engine", "sim", "--workers", 2, *QUICK, "--platform", tmp_path / "slow.xml"]
    refused(*call, names=names, code=1)
