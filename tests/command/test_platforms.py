"""Simulated networks: presets, SimGrid platform files, and what is wrong with some of them."""

import json

import pytest
from conftest import refused, run, run_json
from paths import ROOT

HEAD = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
SIM = ["train", "--engine", "sim", "--steps", 4, "--compute-ms", 10]


def cluster(hosts, more=""):
    return (
        f'{HEAD}<platform version="4.1"><zone id="world" routing="Full">{more}'
        f'<cluster id="c" prefix="node-" suffix="" radical="0-{hosts - 1}" speed="1Gf" bw="1GBps" lat="5us"/>'
        "</zone></platform>\n"
    )


@pytest.fixture
def platform(tmp_path):
    def written(text):
        path = tmp_path / "machine.xml"
        path.write_text(text)
        return path

    return written


def test_the_presets_are_listed_with_their_numbers():
    rows = {row["name"]: row for row in run_json("platforms")}
    assert list(rows) == ["star", "ethernet-10g", "ethernet-100g", "aries", "nvlink-node"]
    assert rows["aries"]["bandwidth_gbps"] == 80
    assert rows["nvlink-node"]["workers_per_node"] == 8
    assert rows["ethernet-10g"]["latency_us"] == {"switch": 20, "pod": 22, "far": 24}


# Per step and worker 2 x 7/8 of a model that pretends to be 10^5 times larger, 0.4 GB, pass its link.
@pytest.mark.parametrize(("name", "gbytes_s"), [("ethernet-10g", 1.25), ("ethernet-100g", 12.5), ("aries", 10)])
def test_a_preset_makes_steps_as_long_as_its_network_is_slow(name, gbytes_s):
    result = run_json(*SIM, "--workers", 8, "--platform", name, "--bytes-scale", 1e5, "--memory-gbytes-s", 1e6)
    transfers = result["time_s"] / 4 - 0.01
    assert 0.95 < transfers / (2 * 7 / 8 * 0.4 / gbytes_s) < 1.1
    assert result["platform"] == name


# Two nodes of 8: of 20 rounds 2 are over all, 4 over the 8 places across nodes, and 14 inside the 2 nodes.
@pytest.mark.parametrize("name", ["nvlink-node", ROOT / "examples/platforms/gpu_nodes.xml"])
@pytest.mark.parametrize("algorithm", ["wagma", "flock"])
def test_groups_are_the_nodes_of_the_platform(name, algorithm):
    options = ["--algorithm", algorithm, f"--{algorithm}.groups", "nodes", "--workers", 16, "--steps", 20]
    result = run_json("train", "--engine", "sim", "--compute-ms", 10, "--platform", name, *options)
    sent = 8 * 1000 / 16 * (2 * (16 - 1) + 4 * (16 - 8) + 14 * (16 - 2)) / 20
    assert result["bytes_sent_per_step"] == pytest.approx(sent)


def test_the_speed_of_sums_is_the_given_one_else_the_platforms_own(platform):
    options = [*SIM, "--workers", 4, "--bytes-scale", 1e5, "--platform"]
    prop = '<prop id="flockstep.memory_gbytes_s" value="0.5"/>'
    own = run_json(*options, platform(cluster(4, prop)))["time_s"]
    plain = run_json(*options, platform(cluster(4)))["time_s"]
    given = run_json(*options, platform(cluster(4, prop)), "--memory-gbytes-s", 10)["time_s"]
    assert own > 2 * plain
    assert given == plain


def test_a_file_with_more_hosts_than_workers_gives_the_same_times_as_a_star(platform):
    options = [*SIM, "--workers", 5, "--bytes-scale", 1e4]
    on_file = run_json(*options, "--platform", platform(cluster(12)))
    on_star = run_json(*options, "--latency-us", 5, "--bandwidth-gbps", 8)
    assert on_file["time_s"] == pytest.approx(on_star["time_s"], rel=1e-9)
    assert on_file["model_hash"] == on_star["model_hash"]
    assert on_star["platform"] == "a star of 8 Gbit/s and 5 us"


def test_a_simulation_on_a_preset_is_the_same_twice():
    call = [*SIM, "--workers", 40, "--algorithm", "wagma", "--platform", "nvlink-node", "--jitter", "lognormal:0.5"]
    assert run_json(*call) == run_json(*call)


def test_a_comparison_says_which_network_it_had_and_goes_on_only_with_that(platform, tmp_path, without_pictures):
    path = platform(cluster(4))
    compare = ["compare", "--engine", "sim", "--workers", 4, "--steps", 4, "--algorithms", "mean"]
    compare += ["--out", tmp_path / "out", "--platform", path]
    assert f"4 workers on sim ({path})" in run(*compare).stdout
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["how"]["platform"] == str(path)
    path.write_text(cluster(12))
    refused(*compare, names=f"a run with {path} of ")


ZONE = '<zone id="z" routing="Full">'
TWO = '<host id="a" speed="1f"/><host id="b" speed="1f"/>'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not a SimGrid platform file, which is XML with an element <platform>"),
        (f'{HEAD}<platform version="2">{ZONE}{TWO}</zone></platform>', "only 4 and 4.1 are read"),
        (f"{HEAD}<platform>{ZONE}{TWO}</zone></platform>", "its <platform> tells no version"),
        (f'{HEAD}<platform version="4.1">{ZONE}{TWO}', "Premature EOF"),
        (f'{HEAD}<platform version="4.1">{ZONE}{TWO}{TWO}</zone></platform>', "a second host named 'a'"),
        (cluster(4).replace("1GBps", "infBps"), "has a bandwidth of inf B/s"),
        (cluster(4).replace("5us", "infs"), "a latency of inf s"),
        (cluster(4, '<prop id="flockstep.memory_gbytes_s" value="lots"/>'), "takes a number from 1e-06 to"),
    ],
)
def test_a_bad_file_gets_one_sentence(platform, text, sentence):
    path = platform(text)
    names = (f"flockstep: cannot use {path} as a platform: ", sentence)
    refused(*SIM, "--workers", 2, "--platform", path, names=names, code=1)


def test_too_many_workers_get_one_sentence(platform):
    path = platform(cluster(4))
    refused(*SIM, "--workers", 5, "--platform", path, names=f"{path} has hosts for 4 workers, not for 5: use fewer")


def test_a_star_by_its_name_takes_the_numbers_of_a_star():
    named = run_json(*SIM, "--platform", "star", "--latency-us", 500)
    assert named == run_json(*SIM, "--latency-us", 500)
