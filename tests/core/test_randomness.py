"""Randomness by address: known answers, the layout of the words, and that they look random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

import reference
from heterobandits.core.randomness import (
    fill_stream,
    fill_words,
    philox_words,
    round_words,
    slots,
    uniform,
    words_needed,
)
from heterobandits.policies.policy import CATALOGUE, policy

# From the known-answer file of the generator's authors (Random123, philox4x32 with 10 rounds).
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

anything_64 = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]),
)
FALSE_ALARM = 1e-7


def words_of(text):
    return [int(part, 16) for part in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers_of_the_compiled_generator(counter, key, answer):
    out = np.zeros(4, np.uint64)
    philox_words(np.array(words_of(counter), np.uint64), np.array(words_of(key), np.uint64), out)
    assert out.tolist() == words_of(answer)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers_of_the_reference(counter, key, answer):
    assert list(reference.philox(words_of(counter), words_of(key))) == words_of(answer)


@settings(max_examples=200)
@given(
    seed=anything_64,
    trial=st.one_of(
        st.integers(0, 2**64 - 20), st.sampled_from([0, 2**32 - 2, 2**32 - 1, 2**32, 2**63])
    ),
    round_=st.integers(1, 2**31 - 1),
    groups=st.integers(1, 4),
    lanes=st.integers(1, 7),
)
def test_every_word_is_the_references(seed, trial, round_, groups, lanes):
    out = np.empty((4 * groups, lanes), np.uint32)
    fill_words(np.uint64(seed), np.uint64(trial), np.int64(round_), out)
    expected = [
        [reference.word(seed, trial + lane, round_, slot) for lane in range(lanes)]
        for slot in range(4 * groups)
    ]
    assert out.tolist() == expected


@given(seed=anything_64, trial=anything_64, round_=st.integers(1, 2**31 - 1))
def test_words_of_one_trial_stand_alone(seed, trial, round_):
    words = round_words(seed, trial, round_, 0, 7)
    assert words.shape == (7, 1)
    assert words[:, 0].tolist() == [reference.word(seed, trial, round_, slot) for slot in range(7)]
    for slot in (0, 3, 4, 6):
        assert uniform(seed, trial, round_, slot) == words[slot, 0] / 2**32


@given(
    seed=anything_64,
    trial=st.integers(0, 2**64 - 20),
    round_=st.integers(1, 2**31 - 1),
    first=st.integers(0, 9),
    count=st.integers(0, 6),
    lanes=st.integers(1, 4),
)
def test_words_of_some_slots_of_neighbouring_trials(seed, trial, round_, first, count, lanes):
    words = round_words(seed, trial, round_, first, count, lanes)
    assert words.dtype == np.uint32
    assert words.flags.c_contiguous
    assert words.shape == (count, lanes)
    assert words.tolist() == [
        [reference.word(seed, trial + lane, round_, first + i) for lane in range(lanes)]
        for i in range(count)
    ]


@given(key=st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 2), min_size=1, max_size=4),
       counter=st.integers(0, 2**31))  # fmt: skip
def test_a_stream_belongs_to_its_key(key, counter):
    key_0, key_1 = np.array(key, np.uint32).T.copy()
    out = np.empty((4, len(key)), np.uint32)
    fill_stream(key_0, key_1, counter, out)
    assert out.T.tolist() == [list(reference.philox((counter, 0, 0, 0), pair)) for pair in key]


@given(agents=st.integers(1, 6), more=st.integers(0, 4))
def test_what_slots_are_for_does_not_overlap(agents, more):
    """Luck and ties have a word for each arm; what is drawn follows, then what a policy of one's own draws."""
    arms = agents + more
    where = slots(agents, arms)
    assert where.luck == 0
    assert where.ties == where.luck + arms
    assert where.draws == where.ties + arms  # of one row of indices
    for name in CATALOGUE:
        entry = policy(name)
        rows = agents if entry.index_per == "agent" else 1
        if entry.index_per != "assignment":
            assert where.own >= where.ties + rows * arms
        assert where.own >= where.draws + entry.draws(agents, arms)


def test_rows_come_in_fours():
    assert [words_needed(slots) for slots in (1, 3, 4, 5, 8, 9)] == [4, 4, 4, 8, 8, 12]


def test_changing_any_part_of_the_address_changes_the_word():
    addresses = [
        (5, 6, 7, 8),
        (6, 6, 7, 8),
        (5, 7, 7, 8),
        (5, 6, 8, 8),
        (5, 6, 7, 9),
        (5 + 2**32, 6, 7, 8),
        (5, 6 + 2**32, 7, 8),
    ]
    assert len({uniform(*address) for address in addresses}) == len(addresses)


def chi_square_p(observed, expected):
    statistic = ((observed - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, observed.size - 1)


def table_of_words(seed):
    """Words of 8 slots, 50 rounds and 512 trials."""
    out = np.empty((50, 8, 512), np.uint32)
    for i in range(50):
        fill_words(np.uint64(seed), np.uint64(0), np.int64(i + 1), out[i])
    return out


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_are_uniform(seed, shift):
    """Chi-square over 256 values of each byte; false alarms: 1e-7 each."""
    values = (table_of_words(seed).ravel() >> np.uint32(shift)) & np.uint32(255)
    observed = np.bincount(values, minlength=256)
    assert chi_square_p(observed, values.size / 256) > FALSE_ALARM


@pytest.mark.parametrize("neighbour", ["slot", "next group", "round", "trial", "seed"])
def test_neighbours_are_independent(seed, neighbour):
    """Chi-square of the leading 4 bits of neighbouring words as pairs; false alarms: 1e-7 each."""
    here = table_of_words(seed)
    left, right = {
        "slot": (here[:, :-1], here[:, 1:]),
        "next group": (here[:, :4], here[:, 4:]),
        "round": (here[:-1], here[1:]),
        "trial": (here[..., :-1], here[..., 1:]),
        "seed": (here, table_of_words(seed + 1)),
    }[neighbour]
    pairs = (left >> np.uint32(28)) * 16 + (right >> np.uint32(28))
    observed = np.bincount(pairs.ravel(), minlength=256)
    assert chi_square_p(observed, pairs.size / 256) > FALSE_ALARM


def test_uniform_has_the_moments_of_a_uniform(seed):
    """Mean 1/2 and variance 1/12, each within a normal bound of false-alarm rate 1e-7."""
    numbers = table_of_words(seed).ravel() / 2**32
    reach = norm.isf(FALSE_ALARM / 2) / np.sqrt(numbers.size)
    assert abs(numbers.mean() - 1 / 2) < reach * np.sqrt(1 / 12)
    assert abs(((numbers - 0.5) ** 2).mean() - 1 / 12) < reach * np.sqrt(1 / 180)
