"""What gradient states do beside the rules themselves, one case after the other, on three ranks."""

import functools

from cases import run
from hooks_states import (
    averaged_model,
    copied_model,
    copied_model_of_torchs_form,
    every_state_copied,
    forked,
    resumed,
    starting_later,
    sub_group_in_torchs_form,
    switching,
    switching_often,
)
from hooks_training import (
    a_scaler_changes_nothing,
    forgotten_sampler,
    ignored_parameters,
    join,
    join_with_a_finding_to_miss,
    one_worker_times,
    overflow,
    two_numbers_that_disagree,
    watching_is_ddp,
)
from hooks_trouble import (
    a_thread_counts_meanwhile,
    bad_input,
    broken_after_the_last_bucket,
    broken_backward,
    closed_state,
    disagreements,
    error_of_a_future,
    left_open,
    unused_parameters,
)

if __name__ == "__main__":
    cases = {
        "a scaler changes nothing": a_scaler_changes_nothing,
        "overflow, propagate": functools.partial(overflow, "propagate"),
        "overflow, exclude": functools.partial(overflow, "exclude"),
        "join, adacons": functools.partial(join, "adacons"),
        "join, mean over all": functools.partial(join, "mean"),
        "join, mean over those who train": functools.partial(join, "mean", divide_by_initial_world_size=False),
        "join, mean after another rule": functools.partial(join, "mean", {"divide_by_initial_world_size": False}),
        "join with a finding to miss": join_with_a_finding_to_miss,
        "watching, three": functools.partial(watching_is_ddp, [0, 1, 2]),
        "watching, two": functools.partial(watching_is_ddp, [0, 2]),
        "forgotten sampler": forgotten_sampler,
        "ignored parameters, sketch": functools.partial(ignored_parameters, "mean", "sketch"),
        "ignored parameters, exact": functools.partial(ignored_parameters, "adacons", "exact"),
        "switching": switching,
        "switching often": switching_often,
        "starting later": starting_later,
        "resumed from a pickle": functools.partial(resumed, "pickle"),
        "resumed from a copy": functools.partial(resumed, "deepcopy"),
        "resumed from a state_dict": functools.partial(resumed, "state_dict"),
        "a thread counts meanwhile": a_thread_counts_meanwhile,
        "broken backward on one rank": functools.partial(broken_backward, False),
        "broken backward on all ranks": functools.partial(broken_backward, True),
        "broken in the first of several buckets": functools.partial(broken_backward, False, "last"),
        "broken in the only bucket": functools.partial(broken_backward, False, bucket_cap_mb=25),
        "broken in the only bucket on all ranks": functools.partial(broken_backward, True, bucket_cap_mb=25),
        "broken while unused parameters are looked for": functools.partial(
            broken_backward, False, find_unused_parameters=True
        ),
        "broken with gradients as views": functools.partial(
            broken_backward, False, "last", gradient_as_bucket_view=True
        ),
        "unused parameters": unused_parameters,
        "disagreements": disagreements,
        "error of a future": error_of_a_future,
        "closed state": closed_state,
        "bad input": bad_input,
        "left open": left_open,
        "broken after the last bucket": broken_after_the_last_bucket,
        "every state copied": every_state_copied,
        "copied model": copied_model,
        "averaged model": averaged_model,
        "copied model of torch's form": copied_model_of_torchs_form,
        "forked": forked,
    }
    for rule in ("normalized_mean", "adacons", "direction_consensus", "geometric_median"):
        for factor in (1000.0, 0.001, 0.0):
            cases[f"one worker times {factor}, {rule}"] = functools.partial(one_worker_times, rule, factor)
        cases[f"two numbers that disagree, {rule}"] = functools.partial(two_numbers_that_disagree, rule)
    run(cases | {"sub-group in torch's form": sub_group_in_torchs_form})
