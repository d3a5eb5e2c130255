"""That every fault of sabotages.toml can still be put where it belongs; run.py shows that tests catch it."""

from pathlib import Path

import pytest
from paths import ROOT

tomllib = pytest.importorskip("tomllib")  # of Python 3.11
SABOTAGES = tomllib.loads(Path(__file__).with_name("sabotages.toml").read_text())["sabotage"]


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage["id"])
def test_its_place_is_there_once(sabotage):
    assert (ROOT / sabotage["file"]).read_text().count(sabotage["old"]) == 1
