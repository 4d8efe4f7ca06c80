"""What a policy is: a record with everything that is special about it. The records stand in `catalogue`.

A policy is a function from the two tables of learning, pulls and successes, to an index;
agents then go to the arms of the highest index. The equations stand in `core/indices.py`, in the
paper's symbols, each with the rule that the engine plays; here a policy points to its rule
and says what people want to know of it. A policy of your own is a record with a NumPy function:

>>> import numpy as np
>>> def optimism(known):
...     s = known.team.slope[:, None, None]
...     information = (s**2 * known.pulls).sum(axis=0)
...     weighted = (s * known.successes).sum(axis=0)
...     with np.errstate(divide="ignore", invalid="ignore"):
...         index = weighted / information + np.sqrt(np.log(1 / known.delta) / information)
...     return np.where(information > 0, index, np.inf)
>>> Policy("optimism", index=optimism).label
'optimism'
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heterobandits.arrays import Floats, LearningTable
from heterobandits.core import indices
from heterobandits.core.assignment import BY_CHANCE, BY_INDEX, BY_SECOND_ROW
from heterobandits.core.indices import Rule
from heterobandits.core.randomness import WORD_SIZE, slots
from heterobandits.core.seen import see
from heterobandits.core.work import desk
from heterobandits.errors import (
    InvalidInput,
    parse_choice,
    parse_delta,
    parse_integer,
    parse_list,
    parse_name,
    repr_of,
    unknown_name,
)
from heterobandits.limits import (
    DEFAULT_DELTA,
    DEFAULT_MEMORY_ROUNDS,
    HORIZON_MAX_ROUNDS,
    MEMORY_MAX_ROUNDS,
)
from heterobandits.model.belief_cells import belief_cells
from heterobandits.model.prior import Prior
from heterobandits.model.team import Team
from heterobandits.provenance import fingerprint

WordsFunction = Callable[[int, int], npt.NDArray[np.uint32]]

Proven = Literal["nothing", "intervals", "regret"]

UCB_MAX_ASSIGNMENTS = 200_000
# what every guarantee assumes of agents and outcomes, in the words that somebody has for them
REPORT_ASSUMPTIONS_FORM = (
    "sensitivities and false positive rates are as believed, the {tests} of a visit are independent, "
    "{agents} who visit one {arm} in one {round} look independently of each other, and outcomes are missing for reasons that do not depend on them"
)
REPORT_ASSUMPTIONS = REPORT_ASSUMPTIONS_FORM.format(
    agents="agents", arm="arm", round="round", tests="tests"
)
ASSUMPTIONS = f"means stand still, {REPORT_ASSUMPTIONS}"  # and what all but alarms do

CATALOGUE: "dict[str, Policy]" = {}  # filled by `catalogue`


@dataclass(frozen=True)
class Known:
    """What a user's own policy receives before a round, for many trials at once.

    Attributes
    ----------
    pulls, successes
        The two tables, shape (agents, arms, trials); they cannot be written to. They are of whole numbers or, while visits are
        under way that count with what is expected of them, of real ones.
    team
        The agents as listed: `sensitivities`, `slope`, `names`, the `order` in which they pick.
    rounds
        The rounds elapsed or, where a visit yields several tests, the most pulls of an arm if these are more: t in
        the logarithms. In a simulation with several tests it differs from trial to trial and is an array.
    delta, horizon
        The parameters of the policy.
    """

    pulls: LearningTable
    successes: LearningTable
    team: Team
    rounds: int | npt.NDArray[np.int64]
    delta: float
    horizon: int | Literal["anytime"]
    _words: WordsFunction

    def words(self, count: int) -> npt.NDArray[np.uint32]:
        """Random words of this round, shape (count, trials): the same whenever the round is played again."""
        agents, arms, _ = self.pulls.shape
        return self._words(slots(agents, arms).own, count)

    def uniforms(self, count: int) -> Floats:
        """The same as numbers in [0, 1)."""
        return np.asarray(self.words(count) * WORD_SIZE)


@dataclass(frozen=True)
class Policy:
    """How agents are sent to arms.

    Parameters
    ----------
    name
        What it is called in tables, files and on the command line.
    index
        Your own rule: `index(known)` takes a `Known` and returns the index of every arm in every trial,
        shape (arms, trials), or (agents, arms, trials) with `index_per="agent"`.
    index_per
        What an index belongs to: an arm, shared by all agents; an agent and an arm; or a
        whole assignment.
    first
        Who picks first: the most sensitive agent, or a random one in each round.
    sorted_by
        What the agents are sorted by on the arms of the highest index: the index itself, or
        the policy's estimate, mostly the posterior mean.
    delta
        The probability with which the policy's bounds may fail.
    memory
        For a policy that forgets: the rounds in its window, or those after which a round counts for 1/e; None for others.
    horizon
        "anytime" puts the rounds elapsed into the logarithm, as in the paper's experiments;
        a number of rounds puts that there, as in its theory, or the most tests that an arm can have in them, until there
        are more. For a policy of a season it is the
        season's length; "anytime" is as long again as it has lasted, and in a simulation that one's horizon.
    equation, guarantee, cost, summary
        What `heterobandits policies` shows.
    proves, fixed_horizon
        What the guarantee is about: nothing, the intervals, or the regret as well; and whether it is for a
        horizon fixed beforehand, and up to it, alone. `proven` says what that comes to with the horizon set. All
        guarantees need what `ASSUMPTIONS` says.
    needs_means
        The policy knows the true means and can only be simulated.
    learns
        Whether what was seen enters the index at all.
    title, colour, dashes
        How it is called and drawn in figures and reports; its name in the next free colour if not given.
    origin
        Whether it is one of the paper's five, goes beyond them, is for places that change, or a baseline to compare with.
    source
        Where the rule comes from.
    rule
        The compiled rule of a policy of the catalogue.
    """

    name: str
    index: Callable[[Known], LearningTable] | None = None
    index_per: Literal["arm", "agent", "assignment"] = "arm"
    first: Literal["most sensitive", "random"] = "most sensitive"
    sorted_by: Literal["index", "estimate"] = "index"
    delta: float = DEFAULT_DELTA
    horizon: int | Literal["anytime"] = "anytime"
    equation: str = ""
    guarantee: str = "none claimed"
    proves: Proven = "nothing"
    fixed_horizon: bool = False
    cost: str = "A·N"
    summary: str = ""
    needs_means: bool = False
    learns: bool = True
    title: str = ""
    colour: str = ""
    dashes: str | tuple[int, tuple[int, ...]] = "-"
    origin: Literal["paper", "beyond", "forgetting", "baseline", "own"] = "own"
    source: str = ""
    rule: Rule | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", parse_name(self.name, "name"))
        object.__setattr__(self, "delta", parse_delta(self.delta))
        if not isinstance(self.horizon, str) or self.horizon != "anytime":
            rounds = parse_integer(self.horizon, "a policy's horizon", 1, HORIZON_MAX_ROUNDS)
            object.__setattr__(self, "horizon", rounds)
        if self.index is None:
            self._take_rule()
        if self.forgets:
            memory = DEFAULT_MEMORY_ROUNDS if self.memory is None else self.memory
            rounds = parse_integer(memory, "a policy's memory", 2, MEMORY_MAX_ROUNDS)
            object.__setattr__(self, "memory", rounds)
        elif self.memory is not None:
            raise InvalidInput(
                f"memory is {repr_of(self.memory)}: {self.name} forgets nothing, {' and '.join(forgetting_policies())} do"
            )
        if self.index is None:
            return
        if not callable(self.index):
            raise InvalidInput(f"index is {repr_of(self.index)}: a function of what is known")
        if self.name in CATALOGUE or self.rule is not None:
            raise InvalidInput(f"name is {self.name!r}: that policy is in the catalogue")
        parse_choice(self.index_per, "index_per", ("arm", "agent"))
        parse_choice(self.first, "first", ("most sensitive", "random"))
        parse_choice(self.sorted_by, "sorted_by", ("index",))
        if self.index_per == "agent" and self.first == "random":
            raise InvalidInput("an index per agent needs first='most sensitive'")

    def _take_rule(self) -> None:
        """The rule of a policy of the catalogue, and what follows from it."""
        if self.rule is None:
            if self.name not in CATALOGUE:
                raise unknown_name("policy", self.name, list(CATALOGUE))
            known = CATALOGUE[self.name]
            for field in ("index_per", "first", "sorted_by", "needs_means"):
                if getattr(self, field) != getattr(known, field):
                    raise InvalidInput(
                        f"{field} of {self.name!r} is {getattr(known, field)!r}: "
                        f"take the catalogue's policy, policy({self.name!r})"
                    )
            object.__setattr__(self, "rule", known.rule)
        assert self.rule is not None
        object.__setattr__(self, "index_per", self.rule.index_per)
        object.__setattr__(self, "sorted_by", self.rule.sorted_by)

    def __reduce__(self) -> Any:
        """A policy of the catalogue travels by its name: compiled rules stay at home."""
        if self.index is None:
            return policy, (self.name, self.delta, self.horizon, self.memory)
        return super().__reduce__()

    @property
    def label(self) -> str:
        """The name, with the parameters that are not the default ones."""
        changed = self._changed()
        return self.name + (f"({', '.join(changed)})" if changed else "")

    def __repr__(self) -> str:
        """How it is made: by its name in the catalogue, or with a function of one's own."""
        if self.rule is not None:
            return f"policy({', '.join([repr(self.name), *self._changed()])})"
        index = f"index={getattr(self.index, '__qualname__', repr_of(self.index))}"
        return f"Policy({', '.join([repr(self.name), index, *self._changed()])})"

    def _changed(self) -> list[str]:
        """The parameters that are not the default ones."""
        changed = []
        if self.delta != DEFAULT_DELTA:
            changed.append(f"delta={self.delta:g}")
        if self.horizon != "anytime":
            changed.append(f"horizon={self.horizon}")
        if self.memory not in (None, DEFAULT_MEMORY_ROUNDS):
            changed.append(f"memory={self.memory}")
        return changed

    @property
    def proven(self) -> Proven:
        """What is proven of the policy as configured: with "anytime" nothing that is for a fixed horizon."""
        return "nothing" if self.fixed_horizon and self.horizon == "anytime" else self.proves

    @property
    def parameters(self) -> dict[str, Any]:
        """Name and parameters, as they stand in files, and for one's own a fingerprint of its index."""
        own = {} if self.index is None else self._own_parameters()
        forgets = {} if self.memory is None else {"memory": self.memory}
        return {"name": self.name, "delta": self.delta, "horizon": self.horizon, **own, **forgets}

    def _own_parameters(self) -> dict[str, Any]:
        assert self.index is not None
        return {
            "index": fingerprint(self.index),
            "index_per": self.index_per,
            "first": self.first,
        }

    @property
    def leads(self) -> bool:
        """Whether the arms of the highest estimate lead, and an index above the estimate is that of a challenger."""
        return self.rule is not None and self.rule.leads

    @property
    def forgets(self) -> str:
        """How it forgets, as its rule says; nothing if it does not."""
        return "" if self.rule is None else self.rule.forgets

    @property
    def in_season(self) -> bool:
        """Whether it goes by the rounds that are left of a season."""
        return self.rule is not None and self.rule.season

    def until(self, horizon: int) -> "Policy":
        """The same, for a season of this many rounds if it needs one and none was stated."""
        return (
            replace(self, horizon=horizon) if self.in_season and self.horizon == "anytime" else self
        )

    @property
    def window(self) -> int:
        """The rounds in its window; 0 if it has none."""
        return (self.memory or 0) if self.forgets == "window" else 0

    @property
    def fade(self) -> float:
        """What a round counts for beside the one after it."""
        return 1.0 - 1.0 / (self.memory or 1) if self.forgets == "discount" else 1.0

    def recalled(self, t: Floats, tests: int) -> Floats:
        """How much it remembers of t rounds, or of t tests of an arm that were at most so many in a round.

        Of a window, at least the most tests that an arm can have in it: a number fixed beforehand, as the union bound needs.
        """
        if self.forgets == "discount":
            return np.asarray(tests * (1.0 - self.fade ** (t / tests)) / (1.0 - self.fade))
        return tests * np.minimum(t, self.window) if self.window else t

    def check_size(self, agents: int, arms: int) -> None:
        """Refuse a policy that ranks whole assignments when there are too many of them."""
        count = math.perm(arms, agents)
        if self.index_per == "assignment" and count > UCB_MAX_ASSIGNMENTS:
            amount = f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"
            raise InvalidInput(
                f"{self.name} would have to rank {amount} assignments of {agents} agents to "
                f"{arms} arms, over the limit of {UCB_MAX_ASSIGNMENTS:,}: use another policy, "
                "such as min-width"
            )

    def rows(self, agents: int) -> int:
        """The number of index rows: one that all agents share, or one for each; a second one to sort by."""
        return agents if self.index_per == "agent" else 1 + (self.sorted_by == "estimate")

    @property
    def dealt(self) -> int:
        """How the arms picked are dealt to the agents, as `core.assignment` numbers it."""
        if self.sorted_by == "estimate":
            return int(BY_SECOND_ROW)
        return int(BY_CHANCE if self.first == "random" else BY_INDEX)

    def draws(self, agents: int, arms: int) -> int:
        """The number of random words that turns or indices are drawn with."""
        turns = agents if self.first == "random" else 0
        return turns if self.rule is None else max(turns, self.rule.words * arms)

    def first_draw(self, agents: int, arms: int) -> int:
        """The slot of the first of these: that of the ties if the rule must know how they are broken."""
        where = slots(agents, arms)
        return int(where.ties if self.leads else where.draws)

    def log_terms(self, team: Team, arms: int, elapsed: int, count: int = 1) -> Floats:
        """The log term of the rule after elapsed, elapsed + 1, ... rounds, `count` of them."""
        return self.log_terms_at(np.arange(elapsed, elapsed + count), team, arms)

    def log_terms_at(
        self, elapsed: npt.NDArray[np.int64], team: Team, arms: int, recalled: Any = 0.0
    ) -> Floats:
        """The log term of the rule after each of these numbers of rounds.

        Before the first round nothing was pulled, and it has no say. The most tests that an arm can have up to a
        horizon stand in their place until they are more   docs/model.md (7). What a window has of an arm, `recalled`, counts if it is more than can have been expected of it.
        """
        assert self.rule is not None
        size = indices.Size(len(team), len(team.kinds), arms)
        if self.in_season:
            left = elapsed if self.horizon == "anytime" else self.horizon - elapsed
            rounds = np.maximum(1.0, left.astype(np.float64))
            return np.asarray(self.rule.log_terms(rounds, size, self.delta))
        tests = max(team.tests)
        least = 1.0 if self.horizon == "anytime" else float(self.horizon * tests)
        t = np.maximum(least, elapsed.astype(np.float64))
        t = np.maximum(self.recalled(t, tests), recalled)
        return np.asarray(self.rule.log_terms(t, size, self.delta))

    def agents(self, team: Team) -> Any:
        """The agents as the rule's kernel takes them: with what calibration says of them, if it looks at that."""
        boxed = self.rule is not None and self.rule.calibrated
        return team.boxed(0.5 * self.delta) if boxed else team.arrays

    def own_rows(
        self,
        team: Team,
        pulls: LearningTable,
        successes: LearningTable,
        elapsed: int | npt.NDArray[np.int64],
        words: WordsFunction,
    ) -> Floats:
        """The index rows of a user's function, shape (rows, arms, trials)."""
        assert self.index is not None
        agents, arms, trials = pulls.shape
        tables = (pulls.view(), successes.view())
        for table in tables:
            table.flags.writeable = False
        answer = self.index(Known(*tables, team, elapsed, self.delta, self.horizon, words))
        wanted = (arms, trials) if self.index_per == "arm" else (agents, arms, trials)
        try:
            if np.iscomplexobj(answer):
                raise TypeError
            index = np.asarray(answer, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"policy {self.name!r} gave {repr_of(answer)}: an array of numbers, shape {wanted}"
            ) from None
        if index.shape != wanted:
            raise InvalidInput(
                f"policy {self.name!r} gave an index of shape {index.shape}: {wanted} is wanted "
                f"for {agents} agents, {arms} arms and {trials} trials"
            )
        if np.isnan(index).any():
            raise InvalidInput(f"policy {self.name!r} gave an index that is not a number (NaN)")
        return np.ascontiguousarray(index[None] if self.index_per == "arm" else index)

    def index_rows(
        self,
        team: Team,
        pulls: LearningTable,
        successes: LearningTable,
        elapsed: int | npt.NDArray[np.int64],
        words: WordsFunction,
        prior: Prior | None = None,
    ) -> Floats:
        """The index rows after `elapsed` rounds, shape (rows, arms, trials), agents as listed.

        Tables of real numbers, in which visits under way count, go to the kernel for these. `words(first, count)` gives random
        words of the round, shape (count, trials), by their slots.
        """
        if self.rule is None:
            return self.own_rows(team, pulls, successes, elapsed, words)
        agents, arms, trials = pulls.shape
        most = pulls.sum(axis=0).max(axis=0) if self.window else 0.0
        L = self.log_terms_at(np.full(trials, elapsed), team, arms, most)
        keys = words(self.first_draw(agents, arms), self.rule.words * arms)
        out = np.empty((self.rows(agents), arms, trials))
        real = self.forgets != "" or pulls.dtype.kind == "f"
        cell = np.float64 if real else np.int32
        tables = (np.ascontiguousarray(table, cell) for table in (pulls, successes))
        prior = self.prior_of(prior)
        cells = belief_cells(team, prior, float(pulls.sum(axis=0).max()))
        seen = see(self.agents(team), *tables, log_term=L, keys=keys, cells=cells)
        fill = self.rule.kernel(real, prior is not None)
        fill(seen, desk(agents, trials, cell), out)
        return out

    @property
    def takes_prior(self) -> bool:
        """Whether it goes by what is believed of the means beforehand."""
        return self.rule is not None and self.rule.believed is not None

    def prior_of(self, prior: Prior | None) -> Prior | None:
        """The prior as far as the policy goes by it: None where that is uniform, for which its rule is written."""
        uniform = prior is None or prior.is_uniform or not self.takes_prior
        return None if uniform else prior

    @property
    def has_band(self) -> bool:
        """Whether it has intervals of the form estimate ± width."""
        return self.rule is not None and self.rule.band is not None

    def band(
        self, team: Team, pulls: LearningTable, successes: LearningTable
    ) -> tuple[Floats, Floats]:
        """Estimates and half widths of the policy's intervals, with its horizon in the logarithm, as in `log_terms_at`, or,
        if an arm was pulled more often than that, the pulls.

        Shape (rows, arms, trials): a row for each agent if these are of its own outcomes, else one row. Where
        nothing was pulled the estimate is 0.5 and the width infinite.
        """
        assert self.rule is not None
        assert self.rule.band is not None
        agents, arms, trials = pulls.shape
        most = pulls.sum(axis=0, dtype=np.int64).max(axis=0)
        L = self.log_terms_at(most, team, arms)
        tables = (np.ascontiguousarray(table, np.int32) for table in (pulls, successes))
        rows = agents if self.rule.band.per == "agent" else 1
        estimate, width = np.empty((2, rows, arms, trials))
        seen = see(team.arrays, *tables, log_term=L)
        self.rule.band.fill(seen, desk(agents, trials), estimate, width)
        return estimate, width

    @property
    def simulated_only(self) -> str:
        """Why it can be simulated but not planned with; nothing if it can be planned with."""
        if self.needs_means:
            return "knows the true means"
        if self.index_per == "assignment":
            return "ranks whole assignments and needs every outcome of every round"
        return ""


@cache
def all_assignments(agents: int, arms: int) -> npt.NDArray[np.int32]:
    """All ways to send the agents to different arms, shape (assignments, agents)."""
    return np.array(list(itertools.permutations(range(arms), agents)), np.int32)


def forgetting_policies() -> tuple[str, ...]:
    """The policies that forget."""
    return tuple(name for name, entry in CATALOGUE.items() if entry.forgets)


def policy(
    name: str | Policy,
    delta: float | None = None,
    horizon: int | Literal["anytime"] | None = None,
    memory: int | None = None,
) -> Policy:
    """The catalogue's policy of this name, with its parameters set.

    Examples
    --------
    >>> policy("min-width", horizon=5000).label
    'min-width(horizon=5000)'
    """
    if isinstance(name, Policy):
        entry = name
    elif isinstance(name, str) and name in CATALOGUE:
        entry = CATALOGUE[name]
    else:
        raise unknown_name("policy", name, list(CATALOGUE))
    changes: dict[str, Any] = {}
    if delta is not None:
        changes["delta"] = delta
    if horizon is not None:
        changes["horizon"] = horizon
    if memory is not None:
        changes["memory"] = memory
    return replace(entry, **changes) if changes else entry


def parse_policies(policies: str | Policy | Iterable[str | Policy]) -> tuple[Policy, ...]:
    """The policies of a run, by name or as records; their labels must differ."""
    if isinstance(policies, (str, Policy)):
        policies = [policies]
    entries = tuple(policy(p) for p in parse_list(policies, "policies", "policies"))
    if not entries:
        raise InvalidInput("policies is empty: at least one policy")
    labels = [entry.label for entry in entries]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise InvalidInput(f"policy {label!r} is given twice: once is enough")
    return entries
