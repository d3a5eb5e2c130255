"""A wrong call gets one sentence on standard error that says what to change, exit code 2, and nothing else."""

import subprocess

import pytest
from conftest import COMMAND, MPIRUN, run
from paths import HANG_S

WRONG = [
    (["trian"], "unknown command 'trian' (did you mean train?)"),
    (
        ["train", "--algorithm", "maen"],
        "unknown algorithm 'maen' (did you mean mean?); there are mean, weighted_mean, normalized_mean, ",
    ),
    (["train", "--task", "liner"], "unknown task 'liner' (did you mean linear?)"),
    (["train", "--engine", "thread"], "unknown engine 'thread' (did you mean threads?)"),
    (["train", "--stpes", "10"], "train does not take --stpes; did you mean --steps?"),
    (["train", "--foo"], "train does not take --foo (see `flockstep train --help`)"),
    (["train", "--steps", "0"], "--steps takes a whole number from 1 to 2147483648, not '0' (see `flockstep train"),
    (["train", "--steps", "many"], "--steps takes a whole number from 1 to 2147483648, not 'many' (see"),
    (["train", "--steps"], "--steps needs a value (see `flockstep train --help`)"),
    (["train", "--json=maybe"], "--json takes no value, not 'maybe'"),
    (["train", "--out", ""], "--out has no value: give it one, or leave it out"),
    (["train", "--images.data="], "--images.data needs a value"),
    (["train", "--workers", "-1"], "--workers"),
    (["train", "--batch", "10"], "a batch of 10 cannot be split evenly over 4 workers: use a multiple of 4"),
    (["train", "--engine", "self", "--workers", "2"], "the self engine has one worker, not 2"),
    (["train", "--straggler", "5x1ms"], "--straggler asks for 5 slow workers of 4: ask for 0 to 4"),
    (["train", "--straggler", "fast"], "--straggler takes the form 2x320ms or independent:2x320ms, not 'fast'"),
    (["train", "--straggler-fixed", "4:1ms"], "--straggler-fixed names worker 4, but workers are 0 to 3"),
    (["train", "--straggler-fixed", "3:1ms,3:2ms"], "--straggler-fixed names worker 3 twice: give it one delay"),
    (
        ["train", "--algorithm", "sgp", "--sgp.neighbours", "3"],
        "--sgp.neighbours takes a whole number from 1 to 2, not '3'",
    ),
    (
        ["compare", "--workers", "8,4", "--algorithms", "mean,sgp:neighbours=3"],
        "sgp:neighbours=3 with 4 workers: --sgp.neighbours takes a whole number from 1 to 2, not '3'",
    ),
    (
        ["train", "--local_sgd.period", "4"],
        "--local_sgd.period does not apply to the algorithm mean: leave it out, or use --algorithm local_sgd",
    ),
    (
        ["train", "--algorithm", "post_local_sgd", "--local_sgd.period", "4"],
        "--local_sgd.period does not apply to the algorithm post_local_sgd: leave it out, or use --algorithm local_sgd",
    ),
    (
        ["train", "--images.hidden", "4"],
        "--images.hidden does not apply to the task linear: leave it out, or use --task images",
    ),
    (["train", "--jitter", "gamma:1"], "--jitter knows the distribution lognormal, not 'gamma'"),
    (["train", "--compute", "200"], "--compute takes a time such as 320ms, 1.5s or 50us, not '200'"),
    (
        ["train", "--compute", "lognormal:1s"],
        "--compute takes the form 200ms, lognormal:200ms:0.53 or file:PATH, not 'lognormal:1s'",
    ),
    (["train", "--compute", ""], "--compute has no value: give it one, or leave it out"),
    (["train", "--compute", "file:"], "--compute takes the form 200ms, lognormal:200ms:0.53 or file:PATH, not 'file:'"),
    (
        ["train", "--pretend-parameters", "1e9"],
        "--pretend-parameters takes a whole number from 1 to 1099511627776, not '1e9'",
    ),
    (["train", "--compute", "1s", "--compute-ms", "5"], "--compute and --compute-ms set the same thing"),
    (
        ["train", "--compute", "lognormal:1s:0.5", "--jitter", "lognormal:1"],
        "--compute lognormal:1s:0.5 already sets how uneven steps are: leave --jitter out",
    ),
    (["train", "--pretend-parameters", "0"], "--pretend-parameters"),
    (["train", "--pretend-parameters", "1000"], "use --engine sim, or --no-gradients"),
    (
        ["train", "--no-gradients", "--pretend-parameters", "9", "--bytes-scale", "2"],
        "--pretend-parameters and --bytes-scale set the same thing: give one of them",
    ),
    (["train", "--no-gradients", "--evaluate-every", "5"], "nothing to evaluate: leave --evaluate-every out"),
    (
        ["train", "--no-gradients", "--faulty", "1:zeros"],
        "--faulty changes gradients, and a run with --no-gradients has",
    ),
    (
        ["compare", "--no-gradients", "--target", "0.5"],
        "--target depends on quality, and a run with --no-gradients has none",
    ),
    (
        ["compare", "--no-gradients", "--search", "local_sgd.period=2,4", "--algorithms", "local_sgd"],
        "a search depends on quality, and a run with --no-gradients has none",
    ),
    (["train", "--linear.dimension", "0"], "--linear.dimension takes a whole number from 1 to"),
    (["train", "--algorithm", "local_sgd", "--local_sgd.period", "0"], "--local_sgd.period takes a whole number"),
    (["train", "--algorithm", "adacons", "--adacons.beta", "1"], "--adacons.beta takes a number from 0 to below 1"),
    (["train", "--algorithm", "adacons", "--adacons.beta=-0.5"], "--adacons.beta takes a number from 0 to below 1"),
    (["train", "--algorithm", "adacons", "--adacons.eps", "0"], "--adacons.eps takes a number above 0, not '0'"),
    (
        ["train", "--algorithm", "adacons", "--adacons.granularity", "layer"],
        "takes model, bucket or tensor, not 'layer'",
    ),
    (["train", "--algorithm", "adacons", "--adacons.wire", "float64"], "takes float32 or bfloat16, not 'float64'"),
    (["bench", "adacons", "--wire", "int8"], "--adacons.wire takes float32 or bfloat16, not 'int8'"),
    (["compare", "--workers", "2,,3"], "--workers takes numbers such as 8 or 8,32, not '2,,3'"),
    (["train", "--faulty", "1:copies:1"], "changes nothing: a worker reads its own data anyway"),
    (
        ["train", "--algorithm", "wagma", "--wagma.group_size", "1"],
        "--wagma.group_size takes a whole number from 2 to 4, not '1'",
    ),
    (
        ["train", "--algorithm", "flock", "--workers", "8", "--flock.group_size", "9"],
        "--flock.group_size takes a whole number from 2 to 8, not '9'",
    ),
    (
        ["train", "--algorithm", "flock", "--flock.groups", "nodes", "--flock.group_size", "2"],
        "--flock.group_size is not for --flock.groups nodes, where a group is as large as a node",
    ),
    (["train", "--algorithm", "wagma", "--wagma.period", "0"], "--wagma.period takes a whole number at least 1"),
    (
        ["train", "--algorithm", "wagma", "--wagma.activation", "quorum", "--wagma.quorum", "5"],
        "--wagma.quorum takes a whole number from 1 to 4, not '5'",
    ),
    (
        ["compare", "--workers", "4,8", "--algorithms", "mean,wagma:group_size=5"],
        "wagma:group_size=5 with 4 workers: --wagma.group_size takes a whole number from 2 to 4, not '5'",
    ),
    (["train", "--resume"], "add --out DIR"),
    (["train", "--log", "loud"], "unknown log level 'loud'; there are quiet, warning, info, debug"),
    (["train", "--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
    (["train", "--config", "/"], "cannot read /"),
    (["train", "--compute-ms", "nan"], "--compute-ms takes a number from 0 to 10000000, not 'nan'"),
    (["train", "--deadline", "nan"], "--deadline takes a number from 0.001 to 1000000, not 'nan'"),
    (["train", "--seed", "-1"], "--seed takes a whole number from 0 to 9007199254740992, not '-1'"),
    (["train", "--seed", "99999999999999999999999"], "--seed"),
    (["bench", "kernels", "--workers", ","], "--workers takes numbers such as 8"),
    (["compare", "--algorithms", "mean,mean"], "--algorithms names mean twice"),
    (["compare", "--algorithms", "mean,"], "--algorithms takes names such as mean,adacons, not 'mean,'"),
    (["compare", "--algorithms", "mean,,adacons"], "--algorithms takes names such as mean,adacons, not 'mean,,"),
    (["bench", "straggler", "--algorithms", "flock,"], "--algorithms takes names such as mean,adacons, not 'flock,'"),
    (["train", "--out", "/nowhere/typo", "--resume"], "/nowhere/typo holds no run to continue: leave out --resume"),
    (
        ["compare", "--algorithms", "mean:period=2"],
        "unknown option of mean 'period'; there are magnitude, granularity,",
    ),
    (["compare", "--algorithms", "local_sgd:period"], "should be an option and its value"),
    (
        ["compare", "--algorithms", "mean,local_sgd:period=0"],
        "local_sgd:period=0 with 4 workers: --local_sgd.period takes a whole number",
    ),
    (["compare", "--search", "linear.dimension=5"], "needs two or more values"),
    (["compare", "--search", "images.rate=1,2"], "neither the task (linear) nor one of the --algorithms"),
    (["compare", "--lr", "0.1,0.2"], "the task linear has no learning_rate: leave --lr out"),
    (["compare", "--task", "images", "--lr", "0.1,,0.2"], "--lr takes numbers such as 0.1 or 0.01,0.03,0.1, not"),
    (["compare", "--task", "images", "--lr", "0.1,x"], "--images.learning_rate takes a number"),
    (["compare", "--task", "images", "--lr", "x"], "--images.learning_rate takes a number"),
    (
        ["compare", "--task", "images", "--lr", "0.1,0.2", "--search", "images.learning_rate=1,2"],
        "--lr 0.1,0.2 and --search images.learning_rate=1,2 are two searches: a comparison takes one",
    ),
    (
        ["compare", "--task", "images", "--lr", "0.1", "--search", "images.learning_rate=1,2"],
        "are two searches: a comparison takes one",
    ),
    (
        ["compare", "--task", "images", "--lr", "0.1", "--images.learning_rate", "0.2"],
        "--lr and --images.learning_rate set the same thing: give one",
    ),
    (["compare", "--search-seeds", "1"], "--search-seeds needs a search: add --search, or several learning rates"),
    (
        ["compare", "--task", "images", "--lr", "0.1,0.2", "--seeds", "2", "--search-seeds", "3"],
        "--search-seeds 3 is more than there are seeds: use --seeds 3",
    ),
    (["compare", "--search-seeds", "0"], "--search-seeds"),
    (["compare", "--target", "nan"], "--target takes a number"),
    (["compare", "--algorithms", "mean,all"], "--algorithms names mean twice"),
    (["compare", "--checkpoint-every", "5"], "need the folder of the run: add --out DIR"),
    (["compare", "--workers", "2,3", "--batch", "4"], "a batch of 4 cannot be split evenly over 3 workers"),
    (["compare", "--workers", "2,x"], "--workers takes a whole number from 1 to 1048576, not 'x'"),
    (["compare", "--batch", ","], "--batch takes numbers such as 8 or 8,32"),
    (["train", "--workers", "2,4"], "--workers takes a whole number from 1 to 1048576, not '2,4'"),
    (["compare", "--seeds", "0"], "--seeds"),
    (["bench", "kernel"], "unknown benchmark 'kernel' (did you mean kernels?)"),
    (["bench", "adacons", "--engine", "sim"], "a benchmark takes real time, and sim has none"),
]


@pytest.mark.parametrize(
    ("arguments", "sentence"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_one_sentence_and_exit_code_2(arguments, sentence):
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert done.stderr.startswith("flockstep: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_data_that_is_not_there_is_named():
    for command in (["train"], ["compare", "--algorithms", "mean"]):
        done = run(*command, "--task", "images", "--data", "/nowhere")
        assert (done.returncode, done.stderr) == (1, "flockstep: there is no /nowhere: --data takes the task's files\n")


def test_no_arguments_show_the_help():
    done = run()
    assert done.returncode == 2
    assert "train" in done.stdout


def test_under_mpirun_the_sentence_comes_once(needs):
    needs("mpi")
    for arguments, sentence in [
        (["train", "--algorithm", "maen"], "did you mean mean?"),
        (["train", "--batch", "10"], "cannot be split evenly over 3 workers"),
        (["train", "--workers", "5"], "mpirun"),
        (["compare", "--workers", "3,5"], "mpirun has started 3 workers, so this comparison cannot have 5"),
        (["train", "--engine", "threads"], "the threads engine runs in one: drop mpirun, or use --engine mpi"),
        (["train", "--deterministic"], "deterministic mode needs the threads or the sim engine"),
    ]:
        done = run(*arguments, workers=3)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("flockstep: ") == 1
        assert sentence in done.stderr


def test_a_wrong_call_on_sim_comes_once(needs):
    needs("sim")
    done = run("compare", "--engine", "sim", "--batch", "10")
    assert done.returncode == 2
    assert done.stderr == "flockstep: a batch of 10 cannot be split evenly over 4 workers: use a multiple of 4\n"


def test_gradients_of_different_length_are_named(needs):
    needs("mpi")
    ranks = [["-n", "1", COMMAND, "train", "--linear.dimension", str(size)] for size in (1000, 999)]
    done = subprocess.run([*MPIRUN, *ranks[0], ":", *ranks[1]], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    assert "worker 1 has linear.dimension 999 where worker 0 has 1000" in done.stderr
    assert done.stderr.count("flockstep: ") == 1


def test_an_option_that_differs_between_workers_is_named(needs):
    needs("mpi")
    train = [COMMAND, "train", "--algorithm", "local_sgd", "--steps", "10"]
    ranks = [["-n", "1", *train, *more] for more in (["--local_sgd.period", "4"], ["--local_sgd.period", "2"], [])]
    for odd, sentence in (
        (ranks[1], "worker 1 has local_sgd.period 2 where worker 0 has 4"),
        (ranks[2], "worker 1 has local_sgd.period at its default where worker 0 has 4"),
    ):
        done = subprocess.run([*MPIRUN, *ranks[0], ":", *odd], capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("flockstep: ") == 1


def test_a_wrong_call_of_one_process_is_told_by_that_process(needs):
    needs("mpi")
    right, wrong = (["-n", "1", COMMAND, "train", "--steps", "5", *more] for more in ([], ["--stpes", "6"]))
    done = subprocess.run([*MPIRUN, *right, ":", *wrong], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    assert "did you mean --steps?" in done.stderr


def test_workers_that_cannot_be_started_are_told():
    limited = f"ulimit -v 2000000; exec {COMMAND} train --steps 2 --workers 4000 --batch 4000"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "ask for fewer workers" in done.stderr or "memory" in done.stderr


def test_a_result_that_cannot_be_written_fails_the_command():
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "algorithms"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG_S)
    assert done.returncode == 1
    assert "cannot write the result" in done.stderr


def test_an_unwritable_folder_fails_the_run(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run("train", "--steps", "5", "--out", blocked / "run")
    assert done.returncode == 1
    assert str(blocked) in done.stderr
    assert done.stderr.count("\n") == 1
