"""Parameters of which only some are in the first layer of the tests: see conftest.py."""

import pytest


def only(*first, of):
    """Marks the parameters in `of` as thorough, but for `first`."""
    return [each if each in first else _thorough(each) for each in of]


def _thorough(each):
    values = each if isinstance(each, tuple) else (each,)
    return pytest.param(*values, marks=pytest.mark.thorough)
