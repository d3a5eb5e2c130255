"""--device, where there is no GPU: each refusal is one sentence, before anything is written. tests/cuda/lab_device.py is for GPUs."""

import pytest
from conftest import run, run_json
from layers import only

SHORT = ["--task", "vision", "--steps", 2, "--workers", 2]
pytestmark = pytest.mark.usefixtures("torch", "without_gpus")


@pytest.fixture
def without_gpus(monkeypatch):
    """One that is there is not seen."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("command", only("train", of=["train", "compare"]))
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*SHORT, "--device", "cuda"], "--device cuda needs a GPU: "),
        ([*SHORT, "--device", "cuda:0"], "--device cuda:0 needs a GPU: "),
        ([*SHORT, "--device", "gpu"], "--device takes cpu, cuda, cuda:N or auto, not 'gpu'"),
        ([*SHORT, "--device", "cuda:x"], "--device takes cpu, cuda, cuda:N or auto, not 'cuda:x'"),
        (["--device", "cuda"], "the task linear computes without torch, in main memory: leave --device cuda out"),
        (
            [*SHORT, "--device", "cuda", "--no-gradients"],
            "with --no-gradients nothing is computed: leave --device cuda out",
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_in_a_sentence(command, arguments, sentence, tmp_path):
    out = tmp_path / "run"
    done = run(command, *arguments, "--out", out)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert done.stderr.startswith("flockstep: ")
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_auto_is_the_cpu_where_there_is_no_gpu(tmp_path):
    told = run_json("train", *SHORT, "--device", "auto", "--out", tmp_path / "run")
    assert told["device"] == "cpu"
    assert told["model_hash"] == run_json("train", *SHORT)["model_hash"]
    assert run_json("train", "--steps", 2, "--device", "auto")["device"] == "cpu"
    config = tmp_path / "run.toml"
    config.write_text('device = "auto"\n')
    assert run_json("compare", *SHORT, "--algorithms", "mean", "--config", config)["how"]["device"] == "cpu"


def test_the_log_tells_the_device():
    assert ", device cpu" in run("train", *SHORT, "--log", "info").stderr
