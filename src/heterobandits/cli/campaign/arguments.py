"""How people write agents, arms and outcomes on the command line: Ana=river, Chi=3/12, Ana@ford=1.

Names may have these marks themselves: what counts is which parts are names that are known.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from heterobandits.campaigns.audit.history_text import waiting_in_words
from heterobandits.errors import InvalidInput, repr_of

if TYPE_CHECKING:
    from heterobandits.campaigns.rounds import PlannedRound
    from heterobandits.campaigns.state import State

# where it stands, whose visit, the outcome as text
OutcomeEntry = tuple[str, str | tuple[str, str], str]


def is_known_name(find: Callable[[str], int], text: str) -> bool:
    """Whether an agent or arm has this name or id."""
    try:
        find(text)
    except InvalidInput:
        return False
    return True


def split_names(
    text: str, mark: str, left: Callable[[str], int], right: Callable[[str], bool]
) -> tuple[str, str]:
    """Split a text at the mark between two names that may contain it themselves; if no split fits, at the last mark."""
    places = [i for i, letter in enumerate(text) if letter == mark]
    for i in reversed(places):
        if is_known_name(left, text[:i]) and right(text[i + 1 :]):
            return text[:i], text[i + 1 :]
    first, _, last = text.rpartition(mark)
    return first, last


def parse_pairs(state: "State", texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Agents and arms written as Ana=river."""
    made = []
    for text in texts:
        if "=" not in text:
            raise InvalidInput(
                f"{option} is {repr_of(text)}: an agent and an arm, such as Ana=river"
            )
        made.append(split_names(text, "=", state.agent, lambda arm: is_known_name(state.arm, arm)))
    return made


def parse_visit(state: "State", text: str) -> str | tuple[str, str]:
    """A visit written as Ana, or as Ana@ford if she went to several arms."""
    if is_known_name(state.agent, text) or "@" not in text:
        return text
    return split_names(text, "@", state.agent, lambda arm: is_known_name(state.arm, arm))


def parse_outcomes(state: "State", texts: Sequence[str]) -> Iterator[OutcomeEntry]:
    """Outcomes written as Ana=1 Chi=3/12 Dan=-."""
    for text in texts:
        name, mark, outcome = text.rpartition("=")
        if not mark:
            raise InvalidInput(f"{repr_of(text)} has no outcome: such as Ana=1 or Chi=3/12")
        yield text, parse_visit(state, name), outcome


def collect_outcomes(
    state: "State",
    round: "PlannedRound",
    entries: Iterable[OutcomeEntry],
    kind: Literal["reported", "corrected"],
) -> dict[Any, Any]:
    """Collect a round's outcomes by agent and arm, as the service takes them; all mistakes are named at once.

    That is also what the log would refuse as events of this kind.
    """
    from heterobandits.campaigns.amounts import check_amount
    from heterobandits.campaigns.events import Draft
    from heterobandits.campaigns.files.csv_tables import parse_outcome
    from heterobandits.campaigns.outcomes import body_of_counts, body_of_visit, find_visit
    from heterobandits.campaigns.reducer import state_after_drafts
    from heterobandits.campaigns.state import member_id
    from heterobandits.campaigns.validation import FieldErrors, parse_campaign_outcome

    errors, made = FieldErrors(), dict[Any, Any]()

    def read(key: Any, text: str, place: str) -> None:
        try:
            agent, arm = find_visit(state, round, key)
            outcome = parse_outcome(text)
            counts = parse_campaign_outcome(outcome, state.agents[agent].name)
            told = round.told.get((agent, arm))
            if told is None or told.counts != counts:  # the same again is no mistake
                check_amount(state, round, (agent, arm), counts)
                body = body_of_visit(round, (agent, arm)) | body_of_counts(counts)
                state_after_drafts(state, [Draft(kind, body)])  # which refuses what cannot be
        except InvalidInput as error:
            raise InvalidInput(f"{place}: {error}") from None
        pair = (member_id("agent", agent), member_id("arm", arm))
        if pair in made:
            raise InvalidInput(f"{place}: that visit is there twice: once is enough")
        made[pair] = outcome

    for place, key, text in entries:
        errors.of(place, read, key, text)
    errors.end()
    return made


def find_round(state: "State", number: int | None) -> "PlannedRound":
    """The round with this number, or the only one that waits."""
    if number is not None:
        return state.round(number)
    if len(state.waiting) == 1:
        return state.round(min(state.waiting))
    if not state.waiting:
        raise InvalidInput("no round waits for an outcome: plan one, or say which with --round")
    waiting = "; ".join(waiting_in_words(state, n) for n in sorted(state.waiting))
    raise InvalidInput(f"several rounds wait: {waiting}: say which with --round")


def parse_places(state: "State", text: str) -> tuple[str, list[str]]:
    """Where an agent went, written as Ana=ford+gate; names may have these marks themselves."""
    if "=" not in text:
        raise InvalidInput(f"{repr_of(text)} says no arm: such as Ana=ford, or Ana=- for none")

    def arms(right: str) -> list[str]:
        return [] if right == "-" else join_arm_parts(state, right.split("+"))

    agent, right = split_names(
        text, "=", state.agent, lambda end: all(is_known_name(state.arm, arm) for arm in arms(end))
    )
    return agent, arms(right)


def join_arm_parts(state: "State", parts: Sequence[str]) -> list[str]:
    """The arms named by parts around plus signs, each the longest known name; unknown parts stay as they are."""
    made, begin = list[str](), 0
    while begin < len(parts):
        ends = range(len(parts), begin + 1, -1)
        end = next(
            (e for e in ends if is_known_name(state.arm, "+".join(parts[begin:e]))), begin + 1
        )
        made.append("+".join(parts[begin:end]))
        begin = end
    return made
