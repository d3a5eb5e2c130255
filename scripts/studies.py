"""The studies of docs/adacons.md, docs/wagma.md and docs/studies.md: runs the comparisons and draws the pictures. `make studies` calls it.

studies.py linear        the regression of the AdaCons paper: what is normalisation, what consensus, what momentum
studies.py disagreement  images with workers that differ or err, all rules (--data: the whole of Fashion-MNIST)
studies.py waiting       images and linear with uneven steps, in virtual time: barrier or rolling, merges, policies (--data)
studies.py vision, detection, recommendation, translation, navigation
                         the task at --size small with late or uneven workers, skewed shards, wrong data and wrong gradients

Comparisons go to --out (each with a page of its own), pictures to docs/pictures, tables in Markdown to standard output. The same
call again does what is left. The studies of tasks can be made scenario by scenario, on a machine that has nothing to draw with,
and drawn elsewhere with --only-draw from the folders that came from there.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "scripts")]

from task_studies import STUDIES, study_task  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["linear", "disagreement", "waiting", *STUDIES])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "studies", help="folder of the comparisons")
    parser.add_argument("--data", default="", help="the task's files, such as a folder with the whole of Fashion-MNIST")
    of_tasks = parser.add_argument_group("studies of tasks")
    of_tasks.add_argument("--jobs", type=int, default=1, help="runs at the same time; they share the machine's cores")
    of_tasks.add_argument("--scenario", action="append", default=[], help="only this one; may be given several times")
    of_tasks.add_argument("--algorithms", default="", help="these instead of the study's own, such as mean,flock")
    of_tasks.add_argument("--only-draw", action="store_true", help="make no runs: tables and pictures of what is there")
    chosen = parser.parse_args()
    if chosen.study in STUDIES:
        study = STUDIES[chosen.study]
        for name in chosen.scenario:
            if name not in study.scenarios:
                parser.error(f"{chosen.study} has no scenario '{name}'; there are {', '.join(study.scenarios)}")
        if chosen.algorithms:
            study = study.with_algorithms(tuple(chosen.algorithms.split(",")))
        study_task(study, chosen.out, chosen.scenario, chosen.data, chosen.jobs, chosen.only_draw)
    elif chosen.study == "waiting":
        from waiting_study import waiting

        waiting(chosen.out, chosen.data)
    else:
        from rule_studies import disagreement, linear

        linear(chosen.out) if chosen.study == "linear" else disagreement(chosen.out, chosen.data)


if __name__ == "__main__":
    main()
