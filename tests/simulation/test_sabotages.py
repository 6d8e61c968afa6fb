"""The simulation notices when a rule of the store is switched off; ``make sabotage`` asks that of every rule."""

from __future__ import annotations

import pytest

from tests.sabotage import Search, search
from tests.simulation.sabotages import SABOTAGES, Sabotage
from tests.support.patching import Patch, patched, replaced, rewritten

QUICK = ("no_admit_on_wait", "ready_not_written", "arrivals_counted")


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_still_fits_the_code(sabotage: Sabotage) -> None:
    for patch in sabotage.patches():
        before = patch.present
        with patched([patch]):
            assert patch.present is not before
        assert patch.present is before


@pytest.mark.parametrize("name", QUICK)
def test_a_rule_that_is_switched_off_is_noticed(name: str) -> None:
    assert search(Search(name, 0, 200)).seed is not None


def test_a_text_that_is_not_there_cannot_be_replaced() -> None:
    with pytest.raises(AssertionError, match="stands 0 times"):
        replaced("one two", "three", "four")
    with pytest.raises(AssertionError, match="stands 2 times"):
        replaced("one one", "one", "two")


def test_a_rewritten_function_does_what_its_new_text_says() -> None:
    assert replaced("one two", "two", "three") == "one three"
    changed = rewritten(replaced, ("text.replace(old, new)", "text"))
    assert changed("one two", "two", "three") == "one two"


def test_what_was_replaced_is_there_again_after_a_fault() -> None:
    table = {"a": 1}
    with pytest.raises(ZeroDivisionError), patched([Patch(table, "a", 2)]):
        raise ZeroDivisionError
    assert table == {"a": 1}
