"""Errors that name the culprit, and do so quickly whatever it is."""

import time

import pytest

from heterobandits.errors import InvalidInput, normalize_name, unknown_name


def test_the_nearest_name_is_named():
    assert "did you mean 'Anna'" in str(unknown_name("agent", "Ana", ["Ben", "Anna"]))
    assert "known are Ben, Chi" in str(unknown_name("agent", "zzz", ["Ben", "Chi"]))


def test_thousands_of_long_names_that_are_nearly_the_same_hold_nobody_up():
    names = [f"{'ab' * 85}{n:04d}" for n in range(2_000)]
    begin = time.process_time()
    unknown_name("agent", "ab" * 29, names)
    unknown_name("agent", "a" * 5_000, [f"{'a' * 30}{n}" for n in range(20_000)])
    assert time.process_time() - begin < 0.5


def test_a_letter_with_very_many_marks_is_refused_before_they_are_sorted():
    marks = "\u0315" * 20_000 + "\u0316" * 20_000
    with pytest.raises(InvalidInput, match="a letter with over 30 marks"):
        normalize_name("a" + marks)
    assert normalize_name("e\u0301" * 40) == "\u00e9" * 40
