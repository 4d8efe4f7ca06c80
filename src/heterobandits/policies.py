"""The catalogue: every policy's name, equation, who picks first and what the agents share.

A policy is a function from the two tables of learning, pulls and successes, to an index;
agents then go to the arms of the highest index. The equations stand in `core/indices.py`,
one small compiled function each, in the paper's symbols; here stands everything else that
is known of a policy. A policy of your own is an entry with a NumPy function:

>>> import numpy as np
>>> def optimism(pulls, successes, sensitivities, rounds):
...     s = sensitivities[:, None, None]
...     information = (s**2 * pulls).sum(axis=0)
...     weighted = (s * successes).sum(axis=0)
...     with np.errstate(divide="ignore", invalid="ignore"):
...         index = weighted / information + 0.3 / np.sqrt(information)
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

from heterobandits.core.assignment import BY_CHANCE, BY_INDEX, BY_SECOND_ROW
from heterobandits.core.indices import RULES, fill_indices, fill_log_terms, log_term
from heterobandits.errors import (
    DEFAULT_DELTA,
    MOST_ROUNDS,
    InvalidInput,
    choice,
    fraction,
    listed,
    shown,
    unknown,
    whole_number,
)

Table = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

MAX_ASSIGNMENTS = 200_000

CATALOGUE: "dict[str, Policy]" = {}  # filled below


@dataclass(frozen=True)
class Policy:
    """How agents are sent to arms.

    Parameters
    ----------
    name
        What it is called in tables, files and on the command line.
    index
        Your own rule: `index(pulls, successes, sensitivities, rounds)`, where both tables have
        the shape (agents, arms, trials), `sensitivities` the believed ones of the agents and
        `rounds` the number of rounds elapsed. It returns the index of every arm in every
        trial, shape (arms, trials), or (agents, arms, trials) with `index_per="agent"`.
        It must not change the tables. The catalogue's policies have compiled rules instead.
    index_per
        What an index belongs to: an arm, shared by all agents; an agent and an arm; or a
        whole assignment.
    first
        Who picks first: the most sensitive agent, or a random one in each round.
    sorted_by
        What the agents are sorted by on the arms of the highest index: the index itself, or
        the posterior mean.
    delta
        The probability with which the policy's bounds may fail.
    horizon
        "anytime" puts the rounds elapsed into the logarithm, as in the paper's experiments;
        a number of rounds puts that there, as in its theory.
    equation, guarantee, cost, summary
        What `heterobandits policies` shows.
    proven
        What the guarantee is about: nothing, the intervals, or the regret as well.
    needs_means
        The policy knows the true means and can only be simulated.
    title, colour, dashes
        How it is called and drawn in figures and reports; its name in the next free colour if not given.
    origin
        Whether it is one of the paper's five, goes beyond them, or is a baseline to compare with.
    source
        Where the rule comes from.
    """

    name: str
    index: Callable[[Table, Table, Table, int], Table] | None = None
    index_per: Literal["arm", "agent", "assignment"] = "arm"
    first: Literal["most sensitive", "random"] = "most sensitive"
    sorted_by: Literal["index", "estimate"] = "index"
    delta: float = DEFAULT_DELTA
    horizon: int | Literal["anytime"] = "anytime"
    equation: str = ""
    guarantee: str = "none claimed"
    proven: Literal["nothing", "intervals", "regret"] = "nothing"
    cost: str = "A·N"
    summary: str = ""
    needs_means: bool = False
    title: str = ""
    colour: str = ""
    dashes: str | tuple[int, tuple[int, ...]] = "-"
    origin: Literal["paper", "beyond", "baseline", "own"] = "own"
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInput(f"name is {shown(self.name)}: a policy's name is a text")
        object.__setattr__(self, "delta", fraction(self.delta, "delta"))
        if not isinstance(self.horizon, str) or self.horizon != "anytime":
            rounds = whole_number(self.horizon, "a policy's horizon", 1, MOST_ROUNDS)
            object.__setattr__(self, "horizon", rounds)
        if self.index is None:
            if self.name not in RULES:
                raise unknown("policy", self.name, RULES)
            known = CATALOGUE.get(self.name, self)
            for field in ("index_per", "first", "sorted_by", "needs_means"):
                if getattr(self, field) != getattr(known, field):
                    raise InvalidInput(
                        f"{field} of {self.name!r} is {getattr(known, field)!r}: "
                        f"take the catalogue's policy, policy({self.name!r})"
                    )
        else:
            if not callable(self.index):
                raise InvalidInput(f"index is {shown(self.index)}: a function of the two tables")
            if self.name in RULES:
                raise InvalidInput(f"name is {self.name!r}: that policy is in the catalogue")
            choice(self.index_per, "index_per", ("arm", "agent"))
            choice(self.first, "first", ("most sensitive", "random"))
            choice(self.sorted_by, "sorted_by", ("index",))
            if self.index_per == "agent" and self.first == "random":
                raise InvalidInput("an index per agent needs first='most sensitive'")

    @property
    def label(self) -> str:
        """The name, with the parameters that are not the default ones."""
        changed = []
        if self.delta != DEFAULT_DELTA:
            changed.append(f"delta={self.delta:g}")
        if self.horizon != "anytime":
            changed.append(f"horizon={self.horizon}")
        return self.name + (f"({', '.join(changed)})" if changed else "")

    @property
    def parameters(self) -> dict[str, Any]:
        """Name and parameters, as they stand in files."""
        return {"name": self.name, "delta": self.delta, "horizon": self.horizon}

    def check_size(self, agents: int, arms: int) -> None:
        """Refuse a policy that ranks whole assignments when there are too many of them."""
        count = math.perm(arms, agents)
        if self.index_per == "assignment" and count > MAX_ASSIGNMENTS:
            amount = f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"
            raise InvalidInput(
                f"{self.name} would have to rank {amount} assignments of {agents} agents to "
                f"{arms} arms, over the limit of {MAX_ASSIGNMENTS:,}: use another policy, "
                "such as min-width"
            )

    @property
    def rule(self) -> int:
        """The number of this policy's compiled rule."""
        return int(RULES.index(self.name))

    def rows(self, agents: int) -> int:
        """The number of index rows: one that all agents share, or one for each; a second one to sort by."""
        return agents if self.index_per == "agent" else 1 + (self.sorted_by == "estimate")

    @property
    def dealt(self) -> int:
        """How the arms picked are dealt to the agents, as `core.assignment` numbers it."""
        if self.sorted_by == "estimate":
            return int(BY_SECOND_ROW)
        return int(BY_CHANCE if self.first == "random" else BY_INDEX)

    def log_terms(self, s: Floats, arms: int, elapsed: int, count: int) -> Floats:
        """The log term of the compiled rule after elapsed, elapsed + 1, ... rounds, `count` of them."""
        out = np.empty(count)
        ranked = float(math.perm(arms, len(s))) if self.index_per == "assignment" else 1.0
        size = (len(s), len(set(s.tolist())), arms, ranked)
        if self.horizon == "anytime":
            fill_log_terms(self.rule, elapsed, *size, self.delta, out)
        else:
            out[:] = log_term(self.rule, float(self.horizon), *size, self.delta)
        return out

    def own_rows(
        self, s: Floats, pulls: Table, successes: Table, order: npt.NDArray[np.intp], elapsed: int
    ) -> Floats:
        """The index rows of a user's function, shape (rows, arms, trials).

        Sensitivities, tables and rows have the agents in picking order; the function sees
        them in the order in which the user listed them.
        """
        assert self.index is not None
        as_listed = np.argsort(order)
        agents, arms, trials = pulls.shape
        answer = self.index(pulls[as_listed], successes[as_listed], s[as_listed], elapsed)
        wanted = (arms, trials) if self.index_per == "arm" else (agents, arms, trials)
        try:
            if np.iscomplexobj(answer):
                raise TypeError
            index = np.asarray(answer, np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"policy {self.name!r} gave {shown(answer)}: an array of numbers, shape {wanted}"
            ) from None
        if index.shape != wanted:
            raise InvalidInput(
                f"policy {self.name!r} gave an index of shape {index.shape}: {wanted} is wanted "
                f"for {agents} agents, {arms} arms and {trials} trials"
            )
        if np.isnan(index).any():
            raise InvalidInput(f"policy {self.name!r} gave an index that is not a number (NaN)")
        return np.ascontiguousarray(index[None] if self.index_per == "arm" else index[order])

    def index_rows(
        self,
        s: Floats,
        pulls: Table,
        successes: Table,
        order: npt.NDArray[np.intp],
        elapsed: int,
        draws: npt.NDArray[np.uint32],
    ) -> Floats:
        """The index rows after `elapsed` rounds, shape (rows, arms, trials), agents in picking order.

        `draws` are the words of the round that means are drawn with, by thompson and its kin, two for each arm.
        """
        if self.index is not None:
            return self.own_rows(s, pulls, successes, order, elapsed)
        agents, arms, trials = pulls.shape
        (L,) = self.log_terms(s, arms, elapsed, 1)
        out = np.empty((self.rows(agents), arms, trials))
        unknown_means = np.empty(arms)  # read by the oracle's rule alone
        known = np.zeros((arms, trials), np.bool_)
        fill_indices(self.rule, s, unknown_means, pulls, successes, L, draws, known, out)
        return out

    @property
    def simulated_only(self) -> str:
        """Why it can be simulated but not planned with; nothing if it can be planned with."""
        if self.needs_means:
            return "knows the true means"
        if self.index_per == "assignment":
            return "ranks whole assignments and needs every outcome of every round"
        return ""


@cache
def assignments(agents: int, arms: int) -> npt.NDArray[np.int32]:
    """All ways to send the agents to different arms, shape (assignments, agents)."""
    return np.array(list(itertools.permutations(range(arms), agents)), np.int32)


CATALOGUE |= {
    entry.name: entry
    for entry in (
        Policy(
            "min-width",
            title="Min-Width",
            colour="#0000ff",
            origin="paper",
            source="Gordon, Rolf and Tambe 2024",
            summary="all outcomes of an arm, weighted for the narrowest interval",
            equation="W/V + sqrt(ln(2N·G(t,A)/δ) / 2V),  V = Σ s²c,  W = Σ s·y",
            guarantee="for a fixed horizon: all intervals hold, regret O(sqrt(T ln T)), with probability 1 − δ",
            proven="regret",
        ),
        Policy(
            "min-ucb",
            title="Min-UCB",
            colour="#008000",
            dashes="--",
            origin="paper",
            source="Gordon, Rolf and Tambe 2024",
            summary="the least of the agents' own upper bounds of an arm",
            equation="min over agents of  y/(s·c) + sqrt(ln(2AN·t/δ) / 2c) / s",
            guarantee="for a fixed horizon: all upper bounds hold with probability 1 − δ",
            proven="intervals",
        ),
        Policy(
            "no-sharing",
            title="No-Sharing",
            colour="#ff8c00",
            dashes="-.",
            origin="paper",
            source="Gordon, Rolf and Tambe 2024",
            index_per="agent",
            summary="each agent by its own outcomes alone",
            equation="y/(s·c) + sqrt(ln(2AN·t/δ) / 2c) / s",
            guarantee="for a fixed horizon: all intervals hold with probability 1 − δ",
            proven="intervals",
        ),
        Policy(
            "cucb",
            title="CUCB",
            colour="#00a5c8",
            dashes=":",
            origin="paper",
            source="Chen, Wang and Yuan 2013, as used by Gordon, Rolf and Tambe 2024",
            first="random",
            summary="all outcomes of an arm, sensitivities ignored; agents in random order",
            equation="Σy/Σc + sqrt(ln(2N·t/δ) / 2Σc)",
            guarantee="only for agents of equal sensitivity",
        ),
        Policy(
            "ucb",
            title="UCB",
            colour="#d62728",
            dashes=(0, (5, 1, 1, 1, 1, 1)),
            origin="paper",
            source="Auer, Cesa-Bianchi and Fischer 2002, as used by Gordon, Rolf and Tambe 2024",
            index_per="assignment",
            summary="one index for every assignment of all agents",
            equation="Y/C + sqrt(ln(2t·N!/(N−A)!/δ) / 2C),  Y, C of the assignment",
            guarantee="none for summed outcomes that are not rescaled to [0, 1]",
            cost="N!/(N−A)!",
        ),
        Policy(
            "min-width-grouped",
            title="Min-Width, grouped",
            colour="#6a5acd",
            dashes=(0, (4, 1)),
            origin="beyond",
            source="docs/beyond.md (1)",
            summary="min-width that counts agents of equal sensitivity as one",
            equation="W/V + sqrt(ln(2N·G(t,K)/δ) / 2V),  K distinct sensitivities",
            guarantee="for a fixed horizon: all intervals hold with probability 1 − δ",
            proven="intervals",
        ),
        Policy(
            "mixture-width",
            title="Mixture-Width",
            colour="#8e44ad",
            dashes=(0, (6, 2)),
            origin="beyond",
            source="docs/beyond.md (2); Robbins 1970",
            summary="min-width's estimate with an interval valid at all rounds at once",
            equation="W/V + sqrt((V+ρ)/2 · (ln(N/δ) + ln(1+V/ρ)/2)) / V,  ρ = 1",
            guarantee="all intervals hold in all rounds, for ever, with probability 1 − δ",
            proven="intervals",
        ),
        Policy(
            "kl-ucb",
            title="KL-UCB",
            colour="#2f4f4f",
            dashes=(0, (3, 1, 1, 1)),
            origin="beyond",
            source="docs/beyond.md (4); Garivier and Cappé 2011",
            summary="the largest mean whose exact likelihood is within ln t of the greatest",
            equation="max{μ : l(μ) ≥ max l − ln t},  l = Σy·ln μ + Σ (c−y)·ln(1−sμ)",
            guarantee="none proven here",
        ),
        Policy(
            "posterior-ratio",
            title="Posterior-Ratio",
            colour="#d4a017",
            dashes="--",
            origin="beyond",
            source="docs/beyond.md (6)",
            summary="the largest mean that the exact likelihood of all outcomes has not ruled out",
            equation="max{μ : l(μ) ≥ ln ∫exp l − ln(N/δ)}",
            guarantee="all intervals hold in all rounds, for ever, and regret is O(sqrt(T ln T)), with probability 1 − δ",
            proven="regret",
        ),
        Policy(
            "posterior-ratio-decay",
            title="Posterior-Ratio, decaying",
            colour="#9a7d0a",
            dashes=":",
            origin="beyond",
            source="docs/beyond.md (8)",
            summary="posterior-ratio with δ/t for δ, so that no failure lasts",
            equation="max{μ : l(μ) ≥ ln ∫exp l − ln(N·t/δ)}",
            guarantee="all intervals hold from round t on with probability 1 − δ/t; expected regret O(sqrt(T ln T))",
            proven="regret",
        ),
        Policy(
            "posterior-sorted",
            title="Posterior-Sorted",
            colour="#c2185b",
            origin="beyond",
            source="docs/beyond.md (6)",
            sorted_by="estimate",
            summary="posterior-ratio chooses the arms, the posterior mean who goes to which of them",
            equation="as posterior-ratio; on these arms ∫μ·exp l / ∫exp l",
            guarantee="all intervals hold in all rounds, for ever, and regret is O(sqrt(T ln T)), with probability 1 − δ",
            proven="regret",
        ),
        Policy(
            "thompson",
            title="Thompson",
            colour="#5d8aa8",
            dashes="-.",
            origin="beyond",
            source="docs/beyond.md (9); Thompson 1933",
            summary="a mean drawn from the exact posterior of each arm",
            equation="x drawn with density exp l / ∫exp l",
            guarantee="none proven here",
        ),
        Policy(
            "thompson-sorted",
            title="Thompson-Sorted",
            colour="#1b7a8c",
            dashes=(0, (2, 2)),
            origin="beyond",
            source="docs/beyond.md (9)",
            sorted_by="estimate",
            summary="thompson chooses the arms, the posterior mean who goes to which of them",
            equation="as thompson; on these arms ∫μ·exp l / ∫exp l",
            guarantee="none proven here",
        ),
        Policy(
            "greedy",
            title="Greedy",
            colour="#8c564b",
            dashes="--",
            origin="baseline",
            source="baseline",
            summary="Min-Width's estimate without a width",
            equation="W/V",
            guarantee="none: may settle on wrong arms for ever",
        ),
        Policy(
            "random",
            title="Random",
            colour="#7f7f7f",
            dashes=":",
            origin="baseline",
            source="baseline",
            summary="any assignment, each as likely as another",
            equation="0",
            guarantee="none: regret grows with every round",
        ),
        Policy(
            "oracle",
            title="Oracle",
            colour="#000000",
            origin="baseline",
            source="baseline",
            needs_means=True,
            summary="plays the optimum; knows the true means",
            equation="μ",
            guarantee="regret 0",
        ),
    )
}

RECOMMENDED = "posterior-sorted"  # ahead of the paper's five wherever `heterobandits compare` looks
PAPER = tuple(name for name, entry in CATALOGUE.items() if entry.origin == "paper")
BEYOND = tuple(name for name, entry in CATALOGUE.items() if entry.origin == "beyond")


def policy(
    name: str | Policy,
    *,
    delta: float | None = None,
    horizon: int | Literal["anytime"] | None = None,
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
        raise unknown("policy", name, list(CATALOGUE))
    changes: dict[str, Any] = {}
    if delta is not None:
        changes["delta"] = delta
    if horizon is not None:
        changes["horizon"] = horizon
    return replace(entry, **changes) if changes else entry


def chosen(policies: str | Policy | Iterable[str | Policy]) -> tuple[Policy, ...]:
    """The policies of a run: one or several, by name or as made; labels must differ."""
    if isinstance(policies, (str, Policy)):
        policies = [policies]
    entries = tuple(policy(p) for p in listed(policies, "policies", "policies"))
    if not entries:
        raise InvalidInput("policies is empty: at least one policy")
    labels = [entry.label for entry in entries]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise InvalidInput(f"policy {label!r} is given twice: once is enough")
    return entries
