"""Errors that name the culprit, and do so quickly whatever it is."""

import time

from heterobandits.errors import unknown_name


def test_the_nearest_name_is_named():
    assert "did you mean 'Anna'" in str(unknown_name("agent", "Ana", ["Ben", "Anna"]))
    assert "known are Ben, Chi" in str(unknown_name("agent", "zzz", ["Ben", "Chi"]))


def test_thousands_of_long_names_that_are_nearly_the_same_hold_nobody_up():
    names = [f"{'ab' * 85}{n:04d}" for n in range(2_000)]
    begin = time.process_time()
    unknown_name("agent", "ab" * 29, names)
    unknown_name("agent", "a" * 5_000, [f"{'a' * 30}{n}" for n in range(20_000)])
    assert time.process_time() - begin < 0.5
