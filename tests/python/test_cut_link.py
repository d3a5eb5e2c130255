"""An elastic run on four hosts, of which two cannot reach each other: one of them is left out, and the others go on."""

import pytest
from hosts import Hosts, NoHostsError
from test_elastic import Run, assert_one_model

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def network(tmp_path):
    try:
        network = Hosts(tmp_path, *NAMES)
    except NoHostsError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    yield network
    network.close()


@pytest.fixture
def run(network, tmp_path):
    options = ["--hosts", ",".join(NAMES), "--ssh", network.ssh, "--address", network.address, "--heartbeat", "1s"]
    run = Run(tmp_path, "timeout_s=45", launcher=options, workers=len(NAMES), before=network.on("launcher"))
    yield run
    run.kill()


def newest(run, rank):
    return max((note["steps"] for note in run.notes(rank, "step")), default=0)


def warned(run, rank):
    sentences = [note["sentence"] for note in run.notes(rank, "warning")]
    return [sentence for sentence in sentences if "waits to join" in sentence]


@pytest.mark.thorough
def test_one_of_two_workers_whose_link_is_down_is_left_out_and_the_others_go_on(network, run):
    for rank in range(len(NAMES)):
        run.wait(rank, "step", 20)
    network.cut("a", "b")
    run.wait_until(lambda: warned(run, 0) or warned(run, 1), "no worker says that it is left out")
    out = 0 if warned(run, 0) else 1
    assert f"worker {out} waits to join until it reaches worker {1 - out}, which worker " in warned(run, out)[0]
    begin = newest(run, out)
    for rank in range(len(NAMES)):
        if rank != out:
            run.wait_until(lambda rank=rank: newest(run, rank) > begin + 500, f"worker {rank} stands still")
    assert newest(run, out) == begin
    expected = (
        f"the deadline of 45 s has passed: worker {out} waits to join until it reaches worker {1 - out}, which worker "
    )
    assert expected in run.wait(out, "failed")["sentence"]  # its process ends, and is started again
    network.mend("a", "b")
    run.wait(out, "joined", 2)
    assert f"worker {out} on {NAMES[out]} ended with status 1" in run.end()
    assert_one_model(run, len(NAMES))
