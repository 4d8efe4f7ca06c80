"""A campaign whose names are as long as people make them: forty letters, one word or many, in two directions, and pictures."""

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author

LETTERS = 40
LONG_NAMES = (
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "Aïssatou Marie-Thérèse N'Diaye-Courtemontagne",
    "محطة مراقبة الحياة البرية في الوادي الكبير جدا",
    "🦏🐘🦒🦓🐃" * 8,
    "Łukasz Wiśniewski-Brzęczyszczykiewicz III.",
    "Mbalangwe Nkosazana Dlamini-Zuma Thandiwe O",
)
AUTHOR = Author("Véronique-Alexandrine de la Rochefoucauld"[:LETTERS])


def name_of(number):
    """One of the names, forty letters of it, with a number where they begin anew."""
    again, which = divmod(number, len(LONG_NAMES))
    end = f"{again + 1}" if again else ""
    return LONG_NAMES[which][: LETTERS - len(end)] + end


def long_named_season(log, agents=6, arms=13, rounds=4):
    """The id of a campaign of such names: all rounds but the last were reported, in part; with notes, links and a change by hand."""
    made = service.create(
        log,
        AUTHOR,
        name=name_of(1),
        agents=[{"name": name_of(n), "sensitivity": 0.5 + 0.05 * (n % 8), "tests": 1 + n % 3} for n in range(agents)],
        arms=[name_of(n) for n in range(arms)],
        season=26,
    )  # fmt: skip
    campaign = made.state.campaign
    for number in range(1, rounds + 1):
        state = service.plan_round(log, campaign, AUTHOR, absent=["agent-2"]).state
        sent = state.rounds[-1].sent if number < rounds else []
        found = {
            state.agents[agent].name: (arm % 2, 1) for agent, arm in sent[: len(sent) - number + 1]
        }
        if found:
            report_outcomes(log, campaign, AUTHOR, number, found)
    sent = state.rounds[-1].sent
    free = next(arm.name for n, arm in enumerate(state.arms) if n not in [n for _, n in sent])
    service.override(log, campaign, AUTHOR, rounds, state.agents[sent[0][0]].name, [free])
    service.add_note(log, campaign, AUTHOR, name_of(0) + " " + name_of(3), 1)
    for number, role in enumerate(("owner", "planner", "reporter", "viewer")):
        link = issue_link(log, campaign, AUTHOR, role=role, name=name_of(number))
    revoke_link(log, campaign, AUTHOR, link[0].events[0].body["link"])
    return campaign
