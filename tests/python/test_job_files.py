"""The job files of examples/slurm and examples/mpi, run with programs that stand in for SLURM's on this one machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launching import environment, run_program
from paths import BUILD, ROOT
from ports import free_port

pytestmark = pytest.mark.thorough

SLURM, MPI = ROOT / "examples" / "slurm", ROOT / "examples" / "mpi"

# As srun: its options, then a command for each task. PMIx is mpirun's here. Every call is noted.
SRUN = """#!/bin/bash
options=()
while [[ $1 == --* ]]; do options+=("$1"); [[ $1 == --ntasks=* ]] && SLURM_NTASKS=${1#*=}; shift; done
echo "srun ${options[*]} $1" >> "$FAKE_LOG"
case " ${options[*]} " in
    *" --mpi=list "*) echo "$FAKE_MPI"; exit ;;
    *" --mpi=pmix "*) exec mpirun --bind-to none -n "$SLURM_NTASKS" "$@" ;;
esac
exec 3<&0  # bash gives a command in the background no standard input of its own
for ((task = 0; task < SLURM_NTASKS; ++task)); do SLURM_PROCID=$task SLURM_LOCALID=0 "$@" <&3 & done
status=0
for ((task = 0; task < SLURM_NTASKS; ++task)); do wait -n || status=$?; done
exit $status
"""
SCONTROL = """#!/bin/sh
[ "$1 $2" = "show hostnames" ] && echo "$3" | tr , '\\n'
"""
# Of Open MPI: it runs as root here, and neither reads SLURM's variables nor starts its daemons with srun.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_plm": "^slurm",
    "OMPI_MCA_ras": "^slurm",
    "OMPI_MCA_ess": "^slurm",
}


@pytest.fixture
def cluster(tmp_path):
    """cluster(file, *arguments, **variables): runs a job file as if submitted from its folder. cluster.log: calls of srun."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join(map(str, [tmp_path, BUILD / "bin", Path(sys.executable).parent, os.environ["PATH"]]))
    log = tmp_path / "log"

    def run(file, *arguments, hosts="localhost,localhost", tasks=2, **variables):
        slurm = {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_JOB_NODELIST": hosts,
            "SLURM_JOB_NUM_NODES": str(len(hosts.split(","))),
            "SLURM_NTASKS": str(tasks),
            "SLURM_SUBMIT_DIR": str(file.parent),
        }
        env = environment(PATH=path, FAKE_LOG=str(log), FAKE_MPI="none pmix", **slurm, **OPEN_MPI) | variables
        return run_program(["bash", file, *arguments], env=env, cwd=file.parent)

    run.log = log
    return run


def assert_one_world(done):
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^loss [\d.]+ after 20 steps", done.stdout, re.MULTILINE)) == 1, "rank 0 of one world"


@pytest.mark.parametrize("file", [*SLURM.glob("*s*h"), *MPI.glob("*.sh")], ids=lambda file: file.name)
def test_bash_can_read_the_file_and_without_arguments_it_says_what_it_needs(cluster, file):
    assert subprocess.run(["bash", "-n", file], timeout=60).returncode == 0
    if file.name != "srun_as_ssh":
        done = cluster(file)
        assert done.returncode == 2
        assert done.stderr.startswith(f"{file.name}: ")


def test_torchrun_on_two_nodes_trains_one_model(cluster, tmp_path):
    script = ROOT / "examples" / "trackers" / "train.py"
    done = cluster(SLURM / "torchrun.sbatch", script, "--steps", 20, "--out", tmp_path / "out", WORKERS_PER_NODE="1")
    assert_one_world(done)
    assert cluster.log.read_text() == "srun --kill-on-bad-exit=1 --cpus-per-task=1 torchrun\n"


@pytest.mark.parametrize(("kinds", "started"), [("none pmix", "srun --mpi=pmix"), ("none pmi2", "mpirun")])
def test_the_command_runs_over_mpi(cluster, needs, kinds, started):
    needs("mpi")
    options = ["--task", "linear", "--algorithm", "adacons", "--steps", 20]
    done = cluster(SLURM / "mpi.sbatch", "train", *options, "--json", FAKE_MPI=kinds)
    assert done.returncode == 0, done.stderr
    assert '"engine": "mpi"' in done.stdout
    assert '"workers": 2' in done.stdout
    assert ("srun --mpi=pmix" in cluster.log.read_text()) == started.startswith("srun")


def test_flockstep_launch_starts_workers_through_srun(cluster, needs):
    needs("mesh")
    script = ROOT / "examples" / "pytorch_elastic" / "train.py"
    done = cluster(
        SLURM / "elastic.sbatch", sys.executable, script, "--steps", 40, hosts="here,there", ADDRESS="127.0.0.1"
    )
    assert done.returncode == 0, done.stderr
    told = re.findall(r"worker (\d): accuracy ([\d.]+) after 4\d steps", done.stdout)
    assert {rank for rank, _ in told} == {"0", "1"}
    assert len({accuracy for _, accuracy in told}) == 1
    calls = cluster.log.read_text().splitlines()
    assert sorted(re.findall(r"--nodelist=(\w+)", " ".join(calls))) == ["here", "there"]


def test_the_command_runs_on_the_hosts_of_a_file(cluster, needs, tmp_path):
    needs("mpi")
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    options = ["--task", "linear", "--algorithm", "mean", "--steps", 5, "--json"]
    done = cluster(MPI / "command.sh", tmp_path / "hosts", "train", *options)
    assert done.returncode == 0, done.stderr
    assert '"workers": 2' in done.stdout


def test_a_pytorch_script_runs_under_mpirun(needs, tmp_path):
    needs("mpi")
    script = ROOT / "examples" / "trackers" / "train.py"
    command = ["mpirun", "--bind-to", "none", "-n", 2, MPI / "pytorch.sh", sys.executable, script]
    env = environment(**OPEN_MPI, MASTER_PORT=free_port())
    assert_one_world(run_program([*command, "--steps", 20, "--out", tmp_path / "out"], env=env))
