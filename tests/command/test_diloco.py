"""An outer optimizer over local steps, through the command: bytes, waiting, and variants. test_same_bits.py has the rest."""

from conftest import run_json


def test_with_int8_a_half_percent_of_what_mean_sends_is_sent():
    train = ["train", "--linear.dimension", 100000, "--workers", 4, "--batch", 4]
    mean = run_json(*train, "--algorithm", "mean", "--steps", 2)
    diloco = run_json(*train, "--algorithm", "diloco", "--diloco.wire", "int8", "--steps", 128)
    assert 0.0039 < diloco["bytes_sent_per_step"] / mean["bytes_sent_per_step"] <= 0.005


def test_with_a_delay_transfers_pass_under_local_steps():
    """40 MB over 10 Gbit/s, there and back: about five steps of 10 ms that all workers would wait."""
    train = ["train", "--engine", "sim", "--workers", 4, "--compute-ms", 10, "--steps", 64, "--evaluate-every", 64]
    train += ["--bytes-scale", 10000, "--algorithm", "diloco", "--diloco.period", 16]
    waiting = [run_json(*train, "--diloco.delay", delay)["wait_share"] for delay in (0, 1, 4, 8)]
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[0] > 0.15
    assert waiting[-1] < 0.01


def test_compare_takes_variants_of_it():
    algorithms = "mean,diloco:period=8,diloco:period=8:rate=1:momentum=0,local_sgd:period=8"
    result = run_json("compare", "--algorithms", algorithms, "--workers", 3, "--steps", 32, "--evaluate-every", 32)
    quality = [row["quality"]["mean"] for row in result["cases"][0]["rows"]]
    assert quality[2] == quality[3]
    assert len(set(quality)) == 3
