"""A client of a server of campaigns: a method for each route, typed answers, and errors as exceptions.

Every write carries a key of its own, so that it can be sent again when a connection is lost on the way, and is done once.
Agents and arms go by name or by id. Needs httpx, which `heterobandits[campaigns]` brings.
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, cast
from urllib.parse import quote

import httpx

from heterobandits.campaigns import responses_schema

CLIENT_MAX_TRIES = 5
CLIENT_FIRST_PAUSE_S = 0.2  # seconds, doubled after each try
CLIENT_MAX_PAUSE_S = 5.0
# seconds that a server may ask one to wait; who has to wait longer is told so
RETRY_AFTER_MAX_S = 60.0
RETRIED_STATUSES = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
CLIENT_TIMEOUT_S = 60.0  # that one waits for an answer

__all__ = ["CampaignError", "Campaigns", "ServerUnreachable"]


class CampaignError(Exception):
    """A request that the server refused: its status and problem details."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"status {status}"))
        self.status = status
        self.problem = dict(problem)

    @property
    def kind(self) -> str:
        """What the problem is called, such as `invalid-input` or `changed-since`."""
        return str(self.problem.get("type", "")).rpartition("/")[2]

    @property
    def errors(self) -> list[responses_schema.FieldErrorJson]:
        """The fields that are wrong."""
        return cast(list[responses_schema.FieldErrorJson], self.problem.get("errors", []))

    @property
    def current(self) -> responses_schema.CurrentJson | None:
        """What is known of the visit that was to be reported or corrected."""
        return cast(responses_schema.CurrentJson | None, self.problem.get("current"))


class ServerUnreachable(Exception):
    """No answer after several tries, or an answer that no campaign server gives."""


class Campaigns:
    """The campaigns that a token opens, on the server at `url`; also a context manager.

    Parameters
    ----------
    url
        Where the server is, such as http://127.0.0.1:8765.
    token
        What a link ends in, `hb_...`.
    """

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=CLIENT_TIMEOUT_S
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def health(self) -> responses_schema.HealthJson:
        """Whether the server can do its work."""
        return cast(responses_schema.HealthJson, self._read("/api/health"))

    def metrics(self) -> str:
        """What the server has done, as Prometheus reads it."""
        return self._send("GET", "/metrics").text

    def description(self) -> dict[str, Any]:
        """The routes as OpenAPI."""
        return cast(dict[str, Any], self._read("/api/openapi.json"))

    def campaigns(self) -> list[responses_schema.EntryJson]:
        """All campaigns, the oldest first."""
        return cast(responses_schema.EntriesJson, self._read("/api/campaigns"))["campaigns"]

    def create(
        self,
        name: str,
        agents: Iterable[Mapping[str, Any]],
        arms: Iterable[str | Mapping[str, Any]],
        *,
        policy: str | None = None,
        delta: float | None = None,
        memory: int | None = None,
        seed: int = 0,
        season: int | None = None,
        on_change: str | None = None,
        ends: str | None = None,
        words: Mapping[str, str] | None = None,
    ) -> responses_schema.CampaignJson:
        """A new campaign; an agent has a name and a sensitivity, and what else its body may have; an arm is a name, or has one."""
        body = {
            "name": name,
            "agents": [dict(agent) for agent in agents],
            "arms": [{"name": arm} if isinstance(arm, str) else dict(arm) for arm in arms],
            "policy": policy,
            "delta": delta,
            "memory": memory,
            "seed": seed,
            "season": season,
            "on_change": on_change,
            "ends": ends,
            "words": None if words is None else dict(words),
        }
        return cast(responses_schema.CampaignJson, self._write("POST", "/api/campaigns", body))

    def import_events(self, text: str, keep_links: bool = False) -> responses_schema.CampaignJson:
        """The campaign that was exported; its links are revoked here, unless they are kept."""
        sent = {"content": text.encode(), "headers": {"Content-Type": "application/x-ndjson"}}
        place = "/api/campaigns/import" + ("?keep_links=true" if keep_links else "")
        return cast(responses_schema.CampaignJson, self._send("POST", place, **sent).json())

    def campaign(self, campaign: str) -> responses_schema.CampaignJson:
        """A campaign as it stands."""
        return cast(responses_schema.CampaignJson, self._read(url_path(campaign)))

    def rename(self, campaign: str, name: str) -> responses_schema.CampaignJson:
        """Another name for a campaign."""
        return self._change(campaign, {"name": name})

    def set_policy(
        self,
        campaign: str,
        policy: str | None = None,
        delta: float | None = None,
        memory: int | None = None,
        on_change: str | None = None,
    ) -> responses_schema.CampaignJson:
        """Another policy from the next round on, or the same with another delta; or `on_change`, "nothing" or "forget"."""
        change = {"policy": policy, "delta": delta, "memory": memory, "on_change": on_change}
        return self._change(campaign, change)

    def set_season(self, campaign: str, season: int | None) -> responses_schema.CampaignJson:
        """Another number of rounds in the season; None for no end."""
        return self._change(campaign, {"season": season})

    def choose_words(
        self, campaign: str, words: Mapping[str, str]
    ) -> responses_schema.CampaignJson:
        """What agents, arms, rounds and tests are called on pages, by kind, such as {"round": "week"}; those left out by their own names."""
        return self._change(campaign, {"words": dict(words)})

    def archive(self, campaign: str, archived: bool = True) -> responses_schema.CampaignJson:
        """A campaign is put away, or back: nothing is planned meanwhile."""
        return self._change(campaign, {"archived": archived})

    def add_agents(
        self, campaign: str, agents: Iterable[Mapping[str, Any]]
    ) -> list[responses_schema.AgentJson]:
        """New agents, from the next round on."""
        body = {"agents": [dict(agent) for agent in agents]}
        made = self._write("POST", url_path(campaign, "agents"), body)
        return cast(responses_schema.AgentsJson, made)["agents"]

    def change_agent(self, campaign: str, agent: str, **change: Any) -> responses_schema.AgentJson:
        """One change of an agent: `name`, `retired`, or how it reports, with `since` "now" or "always"."""
        return cast(
            responses_schema.AgentJson,
            self._write("PATCH", url_path(campaign, "agents", agent), change),
        )

    def add_arms(
        self, campaign: str, arms: Iterable[str | Mapping[str, Any]]
    ) -> list[responses_schema.ArmJson]:
        """New arms, from the next round on."""
        body = {"arms": [{"name": arm} if isinstance(arm, str) else dict(arm) for arm in arms]}
        return cast(
            responses_schema.ArmsJson, self._write("POST", url_path(campaign, "arms"), body)
        )["arms"]

    def change_arm(self, campaign: str, arm: str, **change: Any) -> responses_schema.ArmJson:
        """One change of an arm: `name` or `retired`."""
        return cast(
            responses_schema.ArmJson, self._write("PATCH", url_path(campaign, "arms", arm), change)
        )

    def forget(self, campaign: str, arm: str) -> responses_schema.ArmJson:
        """What was seen of an arm up to the last round that was planned no longer counts."""
        done = self._write("PUT", url_path(campaign, "forgotten", arm))
        return cast(responses_schema.ArmJson, done)

    def remember(self, campaign: str, arm: str) -> responses_schema.ArmJson:
        """That an arm was forgotten is taken back."""
        done = self._send("DELETE", url_path(campaign, "forgotten", arm))
        return cast(responses_schema.ArmJson, done.json())

    def preview(self, campaign: str, **circumstances: Any) -> responses_schema.PreviewJson:
        """The plan of the next round; nothing is recorded. Takes absent, closed, forbidden and forced."""
        where = url_path(campaign, "rounds")
        answer = self._send("POST", where, json=circumstances, params={"preview": "true"})
        return cast(responses_schema.PreviewJson, answer.json())

    def plan_round(self, campaign: str, **circumstances: Any) -> responses_schema.RoundJson:
        """The next round, planned and recorded. Takes absent, closed, forbidden and forced."""
        return cast(
            responses_schema.RoundJson,
            self._write("POST", url_path(campaign, "rounds"), circumstances),
        )

    def rounds(self, campaign: str, after: int = 0) -> list[responses_schema.RoundEntryJson]:
        """All rounds after a number."""
        made: list[responses_schema.RoundEntryJson] = []
        while True:
            found = cast(
                responses_schema.RoundsJson, self._read(url_path(campaign, "rounds"), after=after)
            )
            made += found["rounds"]
            if not found["rounds"]:
                return made
            after = made[-1]["round"]

    def round(self, campaign: str, round: int) -> responses_schema.RoundJson:
        """A round: its plan and its visits."""
        return cast(responses_schema.RoundJson, self._read(url_path(campaign, "rounds", round)))

    def close_round(self, campaign: str, round: int) -> responses_schema.RoundJson:
        """Nobody waits for a round any more."""
        return cast(
            responses_schema.RoundJson,
            self._write("POST", url_path(campaign, "rounds", round, "close")),
        )

    def cancel_round(self, campaign: str, round: int) -> responses_schema.RoundsJson:
        """The last round is cancelled, of which nothing is reported; the answer has the one before it, and how many are left."""
        done = self._write("DELETE", url_path(campaign, "rounds", round))
        return cast(responses_schema.RoundsJson, done)

    def undo(self, campaign: str, event: int) -> list[responses_schema.EventJson]:
        """What was done last, with this token, is taken back if `event` is still the last; the events that say so."""
        done = self._write("POST", url_path(campaign, "undo"), {"event": event})
        return cast(responses_schema.EventsJson, done)["events"]

    def explanations(self, campaign: str, round: int) -> list[responses_schema.WhyJson]:
        """Why a round sent each agent where it was planned to go."""
        found = self._read(url_path(campaign, "rounds", round, "explanations"))
        return cast(responses_schema.ExplanationsJson, found)["explanations"]

    def override(
        self, campaign: str, round: int, agent: str, arms: Sequence[str]
    ) -> responses_schema.RoundJson:
        """Somebody went elsewhere than planned: to these arms, mostly one, or to none."""
        where = url_path(campaign, "rounds", round, "overrides", agent)
        return cast(responses_schema.RoundJson, self._write("PUT", where, {"arms": list(arms)}))

    def report(
        self,
        campaign: str,
        round: int,
        agent: str,
        successes: int | None,
        tests: int = 1,
        *,
        arm: str | None = None,
        planned: int | None = None,
        elsewhere: str | None = None,
        entered: str | None = None,
        note: str | None = None,
    ) -> responses_schema.VisitJson:
        """What came of a visit, for the first time: successes of tests, or None if it was not done.

        `planned` is the event that planned the round, `elsewhere` the arm where the agent was instead, `entered` when it was typed.
        """
        said = drop_none(planned=planned, elsewhere=elsewhere, entered=entered, note=note)
        return self._tell(campaign, round, agent, successes, tests, arm, {}, said)

    def correct(
        self,
        campaign: str,
        round: int,
        agent: str,
        successes: int | None,
        tests: int = 1,
        *,
        seen: int | None = None,
        arm: str | None = None,
        note: str | None = None,
    ) -> responses_schema.VisitJson:
        """Another outcome instead of the one reported, if that has not changed since event `seen`; the note stays if none is given."""
        said = drop_none(note=note)
        return self._tell(
            campaign, round, agent, successes, tests, arm, if_match_header(seen), said
        )

    def withdraw(
        self,
        campaign: str,
        round: int,
        agent: str,
        *,
        seen: int | None = None,
        arm: str | None = None,
    ) -> responses_schema.VisitJson:
        """What was told of a visit is taken back, if that has not changed since event `seen`."""
        where = url_path(campaign, "rounds", round, "outcomes", agent)
        sent = self._send("DELETE", where, params=drop_none(arm=arm), headers=if_match_header(seen))
        return cast(responses_schema.VisitJson, sent.json())

    def add_note(
        self, campaign: str, text: str, round: int | None = None
    ) -> responses_schema.NoteJson:
        """A note for those who read the history."""
        body = {"text": text, "round": round}
        return cast(
            responses_schema.NoteJson, self._write("POST", url_path(campaign, "notes"), body)
        )

    def arms(self, campaign: str) -> list[responses_schema.EstimateJson]:
        """What is known of every arm."""
        return cast(responses_schema.EstimatesJson, self._read(url_path(campaign, "arms")))["arms"]

    def sensitivities(self, campaign: str) -> responses_schema.SensitivitiesJson:
        """How sensitive the agents are by the visits."""
        found = self._read(url_path(campaign, "agents"))
        return cast(responses_schema.SensitivitiesJson, found)

    def answers(self, campaign: str) -> responses_schema.AnswersJson:
        """What can be said of the arms, also in words."""
        return cast(responses_schema.AnswersJson, self._read(url_path(campaign, "answers")))

    def shadow(
        self, campaign: str, policy: str, delta: float | None = None
    ) -> responses_schema.ShadowJson:
        """What another policy would have planned."""
        found = self._read(url_path(campaign, "shadow"), policy=policy, delta=delta)
        return cast(responses_schema.ShadowJson, found)

    def projection(
        self, campaign: str, rounds: int | None = None, draws: int | None = None
    ) -> responses_schema.ProjectionJson:
        """The rest of the season, or so many rounds, on draws from what is known."""
        found = self._read(url_path(campaign, "projection"), rounds=rounds, draws=draws)
        return cast(responses_schema.ProjectionJson, found)

    def worth(
        self,
        campaign: str,
        sensitivity: float,
        agent: str | None = None,
        rounds: int | None = None,
        draws: int | None = None,
        *,
        tests: int | None = None,
        false_positive_rate: float | None = None,
    ) -> responses_schema.WorthJson:
        """What one more agent that reports like this would find more, or an agent if it did."""
        asked = {
            "sensitivity": sensitivity,
            "agent": agent,
            "tests": tests,
            "false_positive_rate": false_positive_rate,
            "rounds": rounds,
            "draws": draws,
        }
        return cast(responses_schema.WorthJson, self._read(url_path(campaign, "worth"), **asked))

    def events(self, campaign: str, after: int = 0) -> list[responses_schema.EventJson]:
        """All events after a number."""
        made: list[responses_schema.EventJson] = []
        while True:
            found = cast(
                responses_schema.EventsJson, self._read(url_path(campaign, "events"), after=after)
            )
            made += found["events"]
            if not found["events"]:
                return made
            after = made[-1]["number"]

    def export(self, campaign: str) -> str:
        """All events, a line of JSON for each."""
        return self._send("GET", url_path(campaign, "export")).text

    def visits(self, campaign: str) -> str:
        """All visits as CSV."""
        return self._send("GET", url_path(campaign, "visits.csv")).text

    def links(self, campaign: str) -> list[responses_schema.LinkJson]:
        """All links of a campaign."""
        return cast(responses_schema.LinksJson, self._read(url_path(campaign, "links")))["links"]

    def issue_link(
        self,
        campaign: str,
        role: Literal["owner", "planner", "reporter", "viewer"],
        name: str,
        *,
        agent: str | None = None,
        expires: str | None = None,
    ) -> responses_schema.NewLinkJson:
        """A link for somebody; if its token was lost on the way it is null, and the link is to be revoked."""
        body = {"role": role, "name": name, "agent": agent, "expires": expires}
        return cast(
            responses_schema.NewLinkJson, self._write("POST", url_path(campaign, "links"), body)
        )

    def revoke_link(self, campaign: str, link: str) -> responses_schema.LinkJson:
        """A link no longer opens anything."""
        return cast(
            responses_schema.LinkJson, self._write("DELETE", url_path(campaign, "links", link))
        )

    def _change(self, campaign: str, change: dict[str, Any]) -> responses_schema.CampaignJson:
        return cast(responses_schema.CampaignJson, self._write("PATCH", url_path(campaign), change))

    def _tell(
        self,
        campaign: str,
        round: int,
        agent: str,
        successes: int | None,
        tests: int,
        arm: str | None,
        condition: dict[str, str],
        said: dict[str, Any],
    ) -> responses_schema.VisitJson:
        where = url_path(campaign, "rounds", round, "outcomes", agent)
        counts = {"successes": successes, "tests": tests}
        body = ({"missing": True} if successes is None else counts) | said
        sent = self._send("PUT", where, json=body, params=drop_none(arm=arm), headers=condition)
        return cast(responses_schema.VisitJson, sent.json())

    def _read(self, where: str, **parameters: Any) -> Any:
        return self._send("GET", where, params=drop_none(**parameters)).json()

    def _write(self, method: str, where: str, body: Any = None) -> Any:
        return self._send(method, where, json=body).json()

    def _send(self, method: str, where: str, **sent: Any) -> httpx.Response:
        """The answer; what may not have arrived, or came too early, is sent again, with the same key."""
        headers = {"Idempotency-Key": secrets.token_hex(16), **sent.pop("headers", {})}
        request = self._http.build_request(method, where, headers=headers, **sent)
        pause = CLIENT_FIRST_PAUSE_S
        for left in reversed(range(CLIENT_MAX_TRIES)):
            asked = 0.0
            try:
                answer = self._http.send(request)
            except httpx.TransportError as error:
                if not left:
                    raise ServerUnreachable(
                        f"{self._http.base_url}: {error or 'no answer'}"
                    ) from error
            else:
                asked = parse_retry_after(answer)
                if (
                    answer.status_code not in RETRIED_STATUSES
                    or asked > RETRY_AFTER_MAX_S
                    or not left
                ):
                    return raise_problem(answer)
            time.sleep(max(pause, asked))
            pause = min(2 * pause, CLIENT_MAX_PAUSE_S)
        raise AssertionError("the last try returns or raises")


def raise_problem(answer: httpx.Response) -> httpx.Response:
    """The answer, if it is none to a mistake."""
    if answer.is_success:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    raise CampaignError(answer.status_code, problem if isinstance(problem, dict) else {})


def parse_retry_after(answer: httpx.Response) -> float:
    """The Retry-After of an answer in seconds; 0 if it has none, or a date."""
    asked = answer.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 0.0


def url_path(campaign: str, *parts: str | int) -> str:
    """The path of a resource in a campaign; names may contain any character."""
    return "/".join(("/api/campaigns", encode_path_part(campaign), *map(encode_path_part, parts)))


def encode_path_part(part: str | int) -> str:
    """One part of a path, escaped; a part of dots alone would mean the part above.

    >>> encode_path_part("50% / ?")
    '50%25%20%2F%20%3F'
    """
    text = quote(str(part), safe="")
    return text.replace(".", "%2E") if not text.strip(".") else text


def drop_none(**parameters: Any) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in parameters.items() if value is not None}


def if_match_header(seen: int | None) -> dict[str, str]:
    """The condition that nothing has changed since an event; None takes whatever is there."""
    return {"If-Match": "*" if seen is None else f'"{seen}"'}
