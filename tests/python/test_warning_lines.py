"""Warnings name a line of the user's code, also where none of it is running."""

import re
from pathlib import Path

SCRIPT = Path(__file__).parent / "warning_lines.py"
LINES = {
    number: line.split("  # ")[1]
    for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
    if line.count("  # ") == 1
}


def warned(process):
    """By what the script says of the line: the sentence."""
    assert "sys:1" not in process.stderr
    found = re.findall(rf"{re.escape(str(SCRIPT))}:(\d+): RuntimeWarning: (.*)", process.stderr)
    return [(LINES[int(line)], sentence) for line, sentence in found]


def test_findings_and_states_without_a_call_are_told_where_the_state_was_made(torchrun):
    process = torchrun(SCRIPT, 2)
    assert process.returncode == 0, process.stderr
    told = warned(process)
    assert [line for line, _ in told] == [
        "found while it trains",
        "never called, and gone at the end",
        "never called",
        "found in the last step",
    ]
    assert "workers 0 and 1 sent the same gradient" in told[0][1]
    assert "are they reading the same data?" in told[0][1]
    assert "sent the same gradient" in told[3][1]
    assert told[1][1].startswith("no backward pass has called the hook of this AdaConsState")
    assert "flockstep.adasum(model)" in told[2][1]


def test_a_program_that_breaks_off_is_not_told_of_states_without_a_call(python):
    process = python(SCRIPT, "breaks off")
    assert process.returncode != 0
    assert "before the first backward pass" in process.stderr
    assert warned(process) == []
