"""The two tables, folded from visits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterobandits import InvalidInput
from heterobandits.planner.knowledge import Knowledge, Visit
from planners import sizes

MOST = 2**31 - 1


@st.composite
def visited(draw):
    """The size of a problem, and visits of some rounds."""
    agents, arms = draw(sizes())
    visit = st.tuples(
        st.integers(1, 9),
        st.integers(0, agents - 1),
        st.integers(0, arms - 1),
        st.integers(0, 5),
        st.integers(5, 9),
    )
    return agents, arms, [Visit(*numbers) for numbers in draw(st.lists(visit, max_size=12))]


class TestKnowledge:
    @given(visited(), st.data())
    def test_the_tables_are_the_fold_of_the_visits(self, case, data):
        agents, arms, visits = case
        pulls = np.zeros((agents, arms), int)
        successes = np.zeros_like(pulls)
        for _, a, n, k, tests in visits:
            pulls[a, n] += tests
            successes[a, n] += k
        known = Knowledge.of(agents, arms, visits, rounds=9)
        assert known.pulls.dtype == known.successes.dtype == np.int32
        np.testing.assert_array_equal(known.pulls, pulls)
        np.testing.assert_array_equal(known.successes, successes)
        assert known.elapsed == max(9, pulls.sum(axis=0).max())
        # In any order, in parts, on top of tables, and after a detour.
        mixed = data.draw(st.permutations(visits))
        cut = data.draw(st.integers(0, len(visits)))
        first = Knowledge.of(agents, arms, mixed[:cut])
        wrong = [Visit(1, agents - 1, 0, 2, 3)]
        for other in (
            first.after(mixed[cut:]),
            Knowledge.of(agents, arms, mixed[cut:], pulls=first.pulls, successes=first.successes),
            first.after(wrong).after(mixed[cut:], instead_of=wrong),
        ):
            np.testing.assert_array_equal(other.pulls, pulls)
            np.testing.assert_array_equal(other.successes, successes)

    def test_nobody_can_write_into_it(self):
        mine = np.zeros((2, 3), np.int32)
        known = Knowledge.of(2, 3, pulls=mine, successes=mine)
        held = Knowledge(mine, mine, 0)
        mine += 7
        for knowledge in (known, held, known.after([]), known.widened(3, 4)):
            assert not knowledge.pulls.any()
            for table in (knowledge.pulls, knowledge.successes):
                with pytest.raises(ValueError, match="read-only"):
                    table[0, 0] = 1
        with pytest.raises(AttributeError):
            known.rounds = 3

    def test_more_agents_and_arms(self):
        known = Knowledge.of(1, 2, pulls=[[3, 4]], successes=[[1, 2]], rounds=5).widened(2, 3)
        assert known.pulls.tolist() == [[3, 4, 0], [0, 0, 0]]
        assert known.successes.tolist() == [[1, 2, 0], [0, 0, 0]]
        assert known.rounds == 5

    @pytest.mark.parametrize(
        ("given", "culprit"),
        [
            ({"pulls": [[1, 1]]}, "pulls without successes: give both"),
            ({"successes": [[1, 1]]}, "successes without pulls: give both"),
            ({"pulls": [[1, 1, 1]], "successes": [[1, 1]]}, "pulls has the shape"),
            (
                {"pulls": [[1, 1]], "successes": [[1, 2]]},
                r"successes\[0\]\[1\] is 2: at most the 1",
            ),
            ({"pulls": [[1, -1]], "successes": [[0, 0]]}, r"pulls\[0\]\[1\] is -1"),
            ({"rounds": -1}, "rounds is -1"),
            ({"rounds": True}, "rounds is True"),
            ({"visits": [Visit(1, 0, 0, 1, MOST), Visit(2, 0, 0, 1, 1)]}, "over 2,147,483,647"),
        ],
    )
    def test_refused(self, given, culprit):
        with pytest.raises(InvalidInput, match=culprit):
            Knowledge.of(1, 2, **given)
