"""`flockstep doctor`: what it says where all is well, and of each thing that may be wrong."""

import json
import re
import resource
import socket
import sys

import pytest
import torch
from flockstep import _doctor
from launching import environment, run_program

DOCTOR = ["-m", "flockstep", "doctor"]


@pytest.fixture(scope="module")
def here():
    """What it says of the machine that runs the tests, as an object."""
    done = run_program([sys.executable, *DOCTOR, "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def finding(findings, name):
    [one] = [each for each in findings if each["name"] == name]
    return one


@pytest.mark.thorough
def test_what_is_needed_works_here(here):
    assert here.keys() == {"flockstep", "python", "works", "checks"}
    assert here["works"] is True
    assert finding(here["checks"], "torch")["found"] == torch.__version__
    assert re.fullmatch(r"loads; built for torch \d+\.\d+", finding(here["checks"], "native module")["found"])
    assert "an all-reduce with the rule `mean` is right" in finding(here["checks"], "two ranks, Gloo")["found"]


def test_every_finding_that_is_not_ok_says_what_to_do(here):
    for each in here["checks"]:
        assert each["status"] in ("ok", "note")
        assert (each["remedy"] != "") == (each["status"] != "ok"), each


def test_without_torch_it_says_so_and_checks_the_rest():
    """-S: without the folder that torch and the report's packages are installed in."""
    done = run_program([sys.executable, "-S", *DOCTOR])
    assert (done.returncode, done.stderr) == (1, "")
    assert "\033" not in done.stdout, "no colours where nobody looks"
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"fail  torch  +flockstep was built for torch \d\.\d+, but there is no torch here", lines[2])
    assert re.fullmatch(r" +-> install torch \d\.\d+", lines[3])
    assert re.search(r"^note  reports  +needs jinja2, matplotlib, msgspec, numpy$", done.stdout, re.MULTILINE)
    assert re.search(r"^ok    loopback TCP ", done.stdout, re.MULTILINE)
    assert "two ranks" not in done.stdout
    assert lines[-1] == "not working: torch"


@pytest.mark.parametrize(
    ("version", "body", "found"),
    [
        ("2.9.1", "", r"flockstep was built for torch \d\.\d+, but torch 2\.9\.1 is here"),
        (torch.__version__, "raise OSError('libcudart.so.13')", r"cannot be imported: libcudart\.so\.13"),
    ],
)
def test_a_torch_that_does_not_do(version, body, found, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(body)
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    env = environment(PYTHONPATH=f"{tmp_path}:{environment()['PYTHONPATH']}")
    done = run_program([sys.executable, *DOCTOR, "--json"], env=env)
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert report["works"] is False
    assert finding(report["checks"], "torch")["status"] == "fail"
    assert re.fullmatch(found, finding(report["checks"], "torch")["found"])


@pytest.mark.thorough
def test_an_exchange_that_fails_is_told_with_its_reason(monkeypatch):
    monkeypatch.setenv("FLOCKSTEP_TRANSPORT", "pigeon")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    told = _doctor._two_processes()
    assert told.status == "fail"
    assert "FLOCKSTEP_TRANSPORT is gloo or mesh, not 'pigeon'" in told.found


def test_an_exchange_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(_doctor, "_PATIENCE_S", 0.01)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])  # where the ranks find the package, and import torch
    told = _doctor._two_processes()
    assert (told.status, told.found) == ("fail", "not done after 0.01 s")


def test_no_loopback(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    told = _doctor._loopback()
    assert (told.status, told.found) == ("fail", "[Errno 111] Connection refused")


def test_the_cache_is_where_the_kernels_look_for_it(monkeypatch, tmp_path):
    for cache, home, found in (
        ("/proc/cache", "", "/proc/cache/flockstep cannot be written: "),
        ("relative", "", "no folder: HOME is not set"),  # a relative one does not count
        ("relative", str(tmp_path), f"{tmp_path}/.cache/flockstep"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        monkeypatch.setenv("HOME", home)
        told = _doctor._kernel_cache()
        assert told.found.startswith(found)
        assert (told.status == "ok") == bool(home)


@pytest.mark.parametrize(("limit", "status"), [(256, "note"), (1024, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_few_open_files(limit, status, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert _doctor._file_descriptors().status == status


def put_gpu(monkeypatch, capability):
    """As torch.cuda sees one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")


def test_a_gpu_that_is_too_old(monkeypatch):
    put_gpu(monkeypatch, (7, 5))
    told = _doctor._gpus()
    assert (told.status, told.found) == ("note", "A GPU (sm_75)")
    assert told.remedy == "use GPUs of sm_80 or later, or the CPU"
    assert _doctor._kernels().status == "ok", "nothing is compiled for it"


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels can be compiled here")
def test_kernels_that_cannot_be_compiled(monkeypatch):
    put_gpu(monkeypatch, (9, 0))
    assert _doctor._gpus().status == "ok"
    told = _doctor._kernels()  # there is no driver
    assert told.status == "fail"
    assert told.found


def test_a_package_without_its_native_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "flockstep._native", None)  # which is how Python notes one that is not there
    told = _doctor._native()
    assert told.status == "fail"
    assert told.found.startswith("cannot be loaded: import of flockstep._native halted")
    assert told.remedy.startswith("install its wheel again")
