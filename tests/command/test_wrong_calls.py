"""A wrong call gets one sentence on standard error that names what to change, its exit code, and nothing else."""

import json
import os
import shlex
import subprocess

import pytest
from conftest import COMMAND, MPIRUN, expect_documented, refused
from paths import HANG_S

# Each row has a call and what the message has to name; the exit code is 2 if the row has none. The keys say what must be built.
WRONG = {
    "": [
        ("trian", "did you mean train?"),
        ("train --algorithm maen", "(did you mean mean?); there are mean, weighted_mean, normalized_mean, "),
        ("train --task liner", "did you mean linear?"),
        ("train --engine thread", "did you mean threads?"),
        ("train --stpes 10", "did you mean --steps?"),
        ("train --foo", "train does not take --foo (see `flockstep train --help`)"),
        ("train --steps 0", "--steps takes a whole number from 1 to 2147483648, not '0' (see `flockstep train"),
        ("train --steps many", "--steps takes a whole number from 1 to 2147483648, not 'many' (see"),
        ("train --steps", "--steps needs a value (see `flockstep train --help`)"),
        ("train --json=maybe", "--json takes no value, not 'maybe'"),
        ("train --out ''", "--out has no value: give it one, or leave it out"),
        ("train --images.data=", "--images.data needs a value"),
        ("train --workers -1", "--workers"),
        ("train --batch 10", "a batch of 10 cannot be split evenly over 4 workers: use a multiple of 4"),
        ("train --workers 3 --batch 3145731", "use at most 3145728 for 3 workers"),
        ("train --engine self --workers 2", "the self engine has one worker"),
        ("train --engine mesh", "FLOCKSTEP_RANK is not set: start workers with `flockstep launch`"),
        ("train --straggler 5x1ms", "--straggler asks for 5 slow workers of 4"),
        ("train --straggler-fixed 3:1ms,3:2ms", "--straggler-fixed names worker 3 twice"),
        ("train --compute ''", "--compute has no value: give it one, or leave it out"),
        ("train --compute 1s --compute-ms 5", "--compute and --compute-ms set the same thing"),
        ("train --compute lognormal:1s:0.5 --jitter lognormal:1", "leave --jitter out"),
        ("train --compute-ms nan", "--compute-ms takes a number from 0 to 10000000, not 'nan'"),
        ("train --compute file:/nowhere", "cannot read /nowhere", 1),
        ("train --pretend-parameters 1000", "use --engine sim, or --no-gradients"),
        ("train --no-gradients --pretend-parameters 9 --bytes-scale 2", "set the same thing"),
        ("train --no-gradients --evaluate-every 5", "leave --evaluate-every out"),
        ("train --no-gradients --faulty 1:zeros", "--faulty changes gradients"),
        ("compare --no-gradients --target 0.5", "--target depends on quality"),
        ("compare --no-gradients --search sgp.neighbours=1,2 --algorithms sgp", "a search depends on quality"),
        ("train --deadline nan", "--deadline takes a number from 0.001 to 1000000, not 'nan'"),
        ("train --seed -1", "--seed takes a whole number from 0 to 9007199254740992, not '-1'"),
        ("train --seed 99999999999999999999999", "--seed"),
        ("train --resume", "add --out DIR"),
        ("train --out /nowhere/typo --resume", "/nowhere/typo holds no run to continue: leave out --resume"),
        ("train --steps 5 --out /dev/null/run", "/dev/null", 1),
        ("train --log loud", "'loud'; there are quiet, warning, info, debug"),
        ("train --config /nowhere.toml", "cannot read /nowhere.toml"),
        ("train --config /", "cannot read /"),
        ("train --faulty 1:copies:1", "a worker reads its own data anyway"),
        ("compare --faulty 3:copies:4", "--faulty names worker 4, but workers are 0 to 3"),
        # Options of algorithms and tasks.
        ("train --algorithm sgp --sgp.neighbours 3", "--sgp.neighbours takes a whole number from 1 to 2, not '3'"),
        ("train --local_sgd.period 4", "--local_sgd.period does not apply to the algorithm mean"),
        ("train --algorithm local_sgd --local_sgd.period 0", "--local_sgd.period takes a whole number"),
        ("train --algorithm adacons --adacons.beta 1", "--adacons.beta takes a number from 0 to below 1"),
        (
            "train --algorithm flock --workers 8 --flock.group_size 9",
            "--flock.group_size takes a whole number from 2 to 8",
        ),
        ("train --algorithm flock --flock.groups nodes --flock.group_size 2", "not for --flock.groups nodes"),
        ("train --images.hidden 4", "--images.hidden does not apply to the task linear"),
        ("train --task images --images.shard skewd", "iid or skewed"),
        ("compare --task images --images.noisy_workers 5", "takes a whole number from 0 to 4, not '5'"),
        ("train --task images --batch 3", "a batch of 3 leaves some of 4 workers without a sample"),
        ("train --task images --size tiny", "the task images takes no --size: leave it out, or use --task vision"),
        ("train --data /", "the task linear takes no --data: leave it out, or use --task images or vision"),
        ("train --lr 0.1", "the task linear takes no --lr: leave it out, or use --task images"),
        ("train --task images --data /nowhere", "there is no /nowhere: --data takes the task's files", 1),
        ("compare --task images --data /nowhere --algorithms mean", "there is no /nowhere: --data takes", 1),
        ("train --device cuda", "the task linear computes without torch, in main memory: leave --device cuda out"),
        # Comparisons.
        ("compare --workers 4,8 --algorithms mean,wagma:group_size=5", "wagma:group_size=5 with 4 workers"),
        ("compare --workers 2,,3", "--workers takes numbers such as 8 or 8,32"),
        ("compare --workers 2,x", "not 'x'"),
        ("compare --algorithms mean,all", "--algorithms names mean twice"),
        ("compare --algorithms mean,", "--algorithms takes names such as mean,adacons, not 'mean,'"),
        ("compare --algorithms mean,,adacons", "--algorithms takes names such as mean,adacons, not 'mean,,"),
        ("compare --lr 0.1,0.2", "the task linear has no learning_rate: leave --lr out"),
        ("compare --task images --lr 0.1,,0.2", "--lr takes numbers"),
        ("compare --task images --lr 0.1,x", "--images.learning_rate takes a number"),
        ("compare --task images --lr 0.1,0.2 --search images.learning_rate=1,2", "are two searches"),
        ("compare --task images --lr 0.1 --images.learning_rate 0.2", "set the same thing"),
        ("compare --search-seeds 0", "--search-seeds"),
        ("compare --target nan", "--target takes a number"),
        ("compare --checkpoint-every 5", "add --out DIR"),
        ("compare --seeds 0", "--seeds"),
        ("compare --jobs 0", "--jobs"),
        # Other commands.
        ("bench kernel", "did you mean kernels?"),
        ("bench kernels --device tpu", "--device takes cpu or cuda, not 'tpu'"),
        ("bench adacons --wire int8", "float32 or bfloat16, not 'int8'"),
        ("bench adacons --engine sim", "a benchmark takes real time"),
        ("bench group --workers 1", "at least two workers"),
        ("bench straggler --algorithms flock,", "--algorithms takes names such as mean,adacons, not 'flock,'"),
        ("bench --config /nowhere.toml", "bench does not take --config"),
        ("calibrate --engine threads --workers 2 --workers 1", "at least two workers"),  # the last value counts
        ("calibrate --engine threads --workers 1 --out /dev/null/machine.xml", "cannot write", 1),
        ("calibrate --engine threads --workers 1 --steps /", "cannot write", 1),
        ("calibrate --engine threads --platform aries", "leave it out, or give --against FILE or --engine sim"),
        ("calibrate --steps new.json --algorithms meen", "mean"),
        ("completion tcsh", "bash, zsh, fish"),
        ("report /nowhere", "is not a folder"),
        ("report .", "holds neither a comparison"),
        ("study wagma", "unknown study 'wagma'; there are wagma-scale"),
        ("study wagma-scale --steps 0", "--steps"),
        ("study wagma-scale --sizes 4", "study does not take --sizes"),
        ("study linear --scenario 9-128", "did you mean 8-128?"),
        ("study linear --algorithms mena", "unknown algorithm 'mena'"),
        ("study linear --data .", "the study linear reads no data: leave out --data"),
        ("study groups --scenario late", "the study groups has no scenarios: leave out --scenario"),
    ],
    "mpi": [("compare --engine mpi --jobs 2", "--jobs 2 starts a process for each run")],
    "mesh": [
        ("launch --workers 2", "launch needs the command of a worker after --"),
        ("launch --workers 2 --", "launch needs the command of a worker after --"),
        ("launch --workers 2 python train.py", "launch needs -- before the command of a worker"),
        ("launch -- true", "launch needs --workers, the number of workers to start"),
        ("launch --workers 0 -- true", "--workers takes a whole number from 1 to 4096, not '0'"),
        ("launch --worker 3 -- true", "did you mean --workers?"),
        ("launch --workers 1 -- no-such-program", "cannot start no-such-program: No such file or directory"),
        ("launch --workers 1 --join a:1 --secret-file /no/file -- true", "--secret-file /no/file: cannot read it"),
        ("launch --workers 1 --hosts a --ssh /no/ssh --address 127.0.0.1 -- true", "cannot start /no/ssh"),
    ],
    "sim": [
        ("compare --engine sim --batch 10", "a batch of 10 cannot be split evenly over 4 workers"),
        ("train --engine sim --platform arise", "did you mean aries?"),
        ("train --engine sim --platform aries --latency-us 5", "leave out --latency-us, or --platform"),
        ("train --engine sim --memory-gbytes-s 0", "--memory-gbytes-s"),
        ("train --engine sim --platform /nowhere.xml", "cannot read /nowhere.xml", 1),
        ("train --engine sim --platform /", "it is not a file", 1),
        ("train --engine threads --platform aries", "leave it out, or use --engine sim"),
        ("train --engine sim --workers 4096 --linear.dimension 40000000", "4096 workers need 1.97 TB of memory"),
        ("train --workers 4096 --linear.dimension 40000000", "4096 workers need 1.97 TB of memory"),
        (
            "train --engine sim --workers 4096 --no-gradients --algorithm direction_consensus",
            ("4096 workers need 550 GB of memory", " or an --algorithm that does not compare every pair of them"),
        ),
        ("calibrate --engine sim --platform stars", "did you mean star?"),
        ("study wagma-scale --out /dev/null/folder", "/dev/null/folder", 1),
        ("study waiting --data /nowhere", "there is no /nowhere: --data takes the task's files", 1),
        ("study flock-scale --data .", "the study flock-scale reads no data: leave out --data"),
        ("study groups --quick --data /nowhere", "there is no /nowhere", 1),
    ],
    "torch": [
        ("train --task vision --size huge", "tiny, small or paper, not 'huge'"),
        ("train --task detection --batch 3", "a batch of 3 leaves some of 4 workers without a sample: use at least 4"),
        ("train --task vision --device cuda", "--device cuda needs a GPU: ", 1),
        ("compare --task vision --device cuda:0", "--device cuda:0 needs a GPU: ", 1),
        ("train --task vision --device gpu", "--device takes cpu, cuda, cuda:N or auto"),
        ("train --task vision --device cuda --no-gradients", "nothing is computed: leave --device cuda out"),
    ],
}
ROWS = [
    pytest.param(needed, call, names, *(code or [2]), id=call)
    for needed, rows in WRONG.items()
    for call, names, *code in rows
]
WITHOUT_GPU = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
OWN_FOLDER = ("--out", "--resume", "--checkpoint-every")


@pytest.mark.parametrize(("needed", "call", "names", "code"), ROWS)
def test_a_wrong_call_names_what_to_change_and_writes_nothing(request, needs, tmp_path, needed, call, names, code):
    request.getfixturevalue("torch") if needed == "torch" else needs(needed)
    command, *words = shlex.split(call)
    if command in ("train", "compare") and not set(OWN_FOLDER) & set(words):
        words = ["--out", tmp_path / "out", *words]
    refused(command, *words, names=names, code=code, env=WITHOUT_GPU, cwd=tmp_path)
    assert {path.name for path in tmp_path.rglob("*")} <= {"out", ".lock"}


def test_no_arguments_show_the_help():
    done = subprocess.run([COMMAND], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    assert "train" in done.stdout


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("train --algorithm maen", "did you mean mean?"),
        ("train --batch 10", "cannot be split evenly over 3 workers"),
        ("train --workers 5", "mpirun"),
        ("compare --workers 3,5", "mpirun has started 3 workers, so this comparison cannot have 5"),
        ("train --engine threads", "the threads engine runs in one: drop mpirun, or use --engine mpi"),
        ("train --deterministic", "deterministic mode needs the threads or the sim engine"),
        ("compare --steps 10 --jobs 2", "--jobs 2 starts a process for each run, which mpi does not allow"),
    ],
)
def test_under_mpirun_the_sentence_comes_once(call, names):
    refused(*call.split(), names=names, workers=3)


@pytest.mark.parametrize(
    ("calls", "names"),
    [
        (["--linear.dimension 9", "--linear.dimension 8"], "worker 1 has linear.dimension 8 where worker 0 has 9"),
        (["--local_sgd.period 4", "--local_sgd.period 2"], "worker 1 has local_sgd.period 2 where worker 0 has 4"),
        (["--local_sgd.period 4", ""], "worker 1 has local_sgd.period at its default where worker 0 has 4"),
        (["", "", "--local_sgd.period 5"], "worker 2 has local_sgd.period 5 where worker 0 has"),
        (["--steps 5", "--stpes 5"], "did you mean --steps?"),
    ],
)
def test_what_differs_between_workers_is_named(needs, calls, names):
    needs("mpi")
    words = [word for call in calls for word in f": -n 1 {COMMAND} train --algorithm local_sgd {call}".split()]
    done = subprocess.run([*MPIRUN, *words[1:]], capture_output=True, text=True, timeout=HANG_S)
    expect_documented(done.returncode, done.stdout, done.stderr)
    assert done.returncode == 2
    assert done.stderr.count(names) == 1


def test_step_times_that_no_calibration_wrote_are_refused(needs, tmp_path):
    needs("sim")
    step = {"algorithm": "mean", "floats": 9, "compute_ms": 1, "step_s": 1, "lower_s": 1, "upper_s": 1}
    steps = {"engine": "mpi", "workers": 2, "steps": 2, "step_times": [step]}
    file = tmp_path / "steps.json"
    against = ["calibrate", "--against", file]
    refused(*against, "--platform", "star", names=file, code=1)
    negative = {"step_times": [{**step, "floats": -1}]}
    for text in ("no", "{}", *(json.dumps({**steps, **bad}) for bad in (negative, {"steps": 0}, {"step_times": []}))):
        file.write_text(text)
        refused(*against, "--platform", "star", names="steps.json holds no step times", code=1)
    refused(*against, names="with --platform")
