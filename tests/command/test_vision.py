"""Torch is in an object of its own, which is loaded for the tasks that need it; and --device, where there is no GPU.

tests/cuda/lab_device.py is for GPUs.
"""

import os

import pytest
from conftest import refused, run, run_json

VISION = ["train", "--task", "vision", "--size", "tiny"]
SHORT = [*VISION, "--workers", 3, "--steps", 6, "--batch", 20, "--evaluate-every", 3]


def test_torch_is_loaded_only_for_tasks_that_need_it(torch):
    def loads_torch(*arguments):
        done = run(*arguments, env={**os.environ, "LD_DEBUG": "files"})
        assert done.returncode == 0
        return "libtorch_cpu" in done.stderr

    assert not loads_torch("tasks")
    assert not loads_torch("train", "--steps", 2)
    assert loads_torch(*SHORT)


def test_without_torch_the_task_says_how_to_get_it(has_torch):
    if has_torch:
        pytest.skip("torch is built")
    refused(*VISION, names="the task vision needs torch: build with -DFLOCKSTEP_TORCH=ON", code=1)


def test_auto_is_the_cpu_where_there_is_no_gpu(torch, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    told = run_json(*SHORT, "--device", "auto", "--out", tmp_path / "run")
    assert told["device"] == "cpu"
    assert told["model_hash"] == run_json(*SHORT)["model_hash"]
    assert run_json("train", "--steps", 2, "--device", "auto")["device"] == "cpu"
    config = tmp_path / "run.toml"
    config.write_text('device = "auto"\n')
    assert run_json("compare", *SHORT[1:], "--algorithms", "mean", "--config", config)["how"]["device"] == "cpu"
    assert ", device cpu" in run(*SHORT, "--log", "info").stderr
