"""The task `vision`, beside what test_tasks.py asks of all: colour images, and torch in an object of its own."""

import os

import pytest
from conftest import refused, run, run_json

VISION = ["train", "--task", "vision", "--size", "tiny"]
SHORT = [*VISION, "--workers", 3, "--steps", 6, "--batch", 20, "--evaluate-every", 3]


def cifar(folder, images):
    folder.mkdir()
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for seed, name in enumerate(names):
        records = (bytes([i % 10]) + bytes((seed + i * 7 + j) % 256 for j in range(3072)) for i in range(images))
        (folder / name).write_bytes(b"".join(records))
    return folder


def test_colour_images_are_read_and_bad_files_are_told_across_the_border_of_the_object(torch, tmp_path):
    folder = cifar(tmp_path / "cifar", 20)
    assert run_json(*SHORT, "--data", folder)["replicas_equal"]
    (folder / "data_batch_2.bin").write_bytes(b"\x01" * 3000)
    names = (f"{folder}/data_batch_2.bin is not a file of CIFAR-10", "3000 bytes, and not a multiple of 3073")
    refused(*SHORT, "--data", folder, names=names, code=1)


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
