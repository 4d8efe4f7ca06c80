"""Pages: who may open them, what every one of them is sent with, where links lead, and that names are text on all of them."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link, revoke_link
from heterobandits.campaigns.outcomes import correct_outcomes, report_outcomes
from heterobandits.campaigns.storage.repository import Author
from heterobandits.web.app import PAGE_MODULES as ROOMS
from heterobandits.web.auth import (
    ANYONE_ROLES,
    OWNER_ACCESS,
    PAGE_BASE,
    PAGE_ROUTE_ROLES,
    PLANNER_ACCESS,
    READER_ACCESS,
    REPORTER_ACCESS,
    SERVER_ROLES,
)
from heterobandits.web.pages.base import CONTENT_SECURITY_POLICY, static_files
from heterobandits.web.request_fields import Form
from logs import run_sql
from markup import Page
from paths import DOCS
from serving import NORTH, OWNER, Asker, Visitor, app_on

ME = Author("Vera")
ROLES = ("owner", "planner", "reporter", "viewer")
# Said again, in the words of the documentation, and by page instead of by role.
LOOKS = {f"GET {PAGE_BASE}{part}" for part in ("", "/wall", "/rounds", "/rounds/{round}", "/ahead", "/ahead/run", "/compare", "/visits.csv")}  # fmt: skip
REPORTING = {f"GET {PAGE_BASE}/report", f"POST {PAGE_BASE}/rounds/{{round}}/outcomes/{{agent}}"}
MAY = {"viewer": LOOKS, "reporter": REPORTING}
MAY["planner"] = LOOKS | REPORTING | {
    f"{name.split()[0]} {PAGE_BASE}{name.split()[1]}"
    for name in (
        "GET /plan", "POST /plan", "POST /rounds/{round}/override", "POST /rounds/{round}/close",
        "GET /rounds/{round}/cancel", "POST /rounds/{round}/cancel", "POST /undo",
        "POST /forgotten/{arm}", "GET /history", "POST /notes", "GET /audit.html", "GET /events.ndjson",
        "GET /rounds/{round}/table", "POST /rounds/{round}/table", "GET /paste", "POST /paste",
        "POST /report/handover",
    )
}  # fmt: skip
MAY["owner"] = MAY["planner"] | {
    f"{name.split()[0]} {PAGE_BASE}{name.split()[1]}"
    for name in (
        "GET /team", "POST /agents", "POST /agents/{agent}", "POST /arms", "POST /arms/{arm}",
        "POST /settings", "POST /links", "GET /links/{link}", "POST /links/{link}", "POST /cards",
    )
}  # fmt: skip
MAY["server"] = MAY["owner"] | {"GET /new", "POST /new", "POST /new/check", "POST /new/try"}
HOSTILE = "<b>x</b> {{ 7*7 }} & \"two\" 'one' --> </script>"
FIELDS = {  # that would change something
    f"POST {PAGE_BASE}/agents": {"name": "Mal", "sensitivity": "0.5"},
    f"POST {PAGE_BASE}/agents/{{agent}}": {"do": "rename", "name": "Mal"},
    f"POST {PAGE_BASE}/arms": {"names": "moon", "name": "moon"},
    f"POST {PAGE_BASE}/arms/{{arm}}": {"do": "rename", "name": "moon"},
    f"POST {PAGE_BASE}/forgotten/{{arm}}": {"do": "forget"},
    f"POST {PAGE_BASE}/settings": {"do": "name", "name": "taken over"},
    f"POST {PAGE_BASE}/links": {"role": "owner", "name": "Mal"},
    f"POST {PAGE_BASE}/links/{{link}}": {"do": "revoke"},
    f"POST {PAGE_BASE}/cards": {"round": "1"},
    f"POST {PAGE_BASE}/notes": {"text": "hello"},
    f"POST {PAGE_BASE}/undo": {"event": "1"},
    f"POST {PAGE_BASE}/rounds/{{round}}/table": {
        "visit": "agent-1 ARM",
        "was": "",
        "found": "1",
        "of": "1",
    },
    f"POST {PAGE_BASE}/paste": {"do": "look", "text": "1,Ana,,1,1"},
    f"POST {PAGE_BASE}/report/handover": {"do": "save", "lines": "HB1;x;x"},
    f"POST {PAGE_BASE}/rounds/{{round}}/override": {"agent": "agent-1", "arm": "arm-1"},
    f"POST {PAGE_BASE}/rounds/{{round}}/outcomes/{{agent}}": {"do": "found", "arm": "ARM"},
}


class World:
    """A campaign with a round that waits, and links of every role."""

    def __init__(self, folder, **changes):
        self.app, self.log = app_on(folder / "campaigns.db")
        self.app.state.slowing.FIRST = 0.0
        self.id = service.create(self.log, ME, **NORTH | changes).state.campaign
        self.south = service.create(self.log, ME, **NORTH | {"name": "South"}).state.campaign
        state = service.plan_round(self.log, self.id, ME).state
        self.arm = f"arm-{state.rounds[0].assignment[0] + 1}"
        self.tokens = {"server": OWNER}
        for role in ROLES:
            self.tokens[role] = self.issued(role, name=f"{role} link")
        self.link = self.tokens["viewer"].split("_")[2]

    def issued(self, role, name=None, agent=None, campaign=None):
        where = (self.log, campaign or self.id, ME)
        name = name or f"somebody {len(self.log.state(where[1]).links)}"
        return issue_link(*where, role=role, name=name, agent=agent)[1]

    @property
    def state(self):
        return self.log.state(self.id)

    def address(self, route):
        known = {
            "campaign": self.id,
            "round": "1",
            "agent": "agent-1",
            "arm": "arm-1",
            "link": self.link,
        }
        return re.sub(r"{(\w+)}", lambda name: known.get(name[1], "x"), route)  # fmt: skip

    def asked(self, visitor, name):
        method, route = name.split(" ", 1)
        fields = {
            key: value.replace("ARM", self.arm) for key, value in FIELDS.get(name, {}).items()
        }
        if method == "GET":
            return visitor.get(self.address(route))
        return visitor.submit(self.address(route), **fields)


def damage(database, campaign):
    """Change the first event of a campaign behind our code, and throw its snapshots away."""
    triggers = run_sql(str(database), "SELECT name FROM sqlite_master WHERE type = 'trigger'")
    run_sql(
        str(database),
        *(f"DROP TRIGGER {name}" for (name,) in triggers),
        "DELETE FROM snapshots",
        f"UPDATE events SET who = 'Mallory' WHERE number = 1 AND campaign = '{campaign}'",
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("site"))
    yield made
    made.log.store.close()


GUARDED = sorted(f"{m} {r}" for (m, r), roles in PAGE_ROUTE_ROLES.items() if roles != ANYONE_ROLES)


class TestTable:
    """The table of pages is what is documented, and has all pages of the app."""

    def test_it_has_every_page(self):
        there = {
            (method, route.path)
            for room in ROOMS
            for route in room.router.routes
            for method in route.methods
        }
        assert there == set(PAGE_ROUTE_ROLES)

    def test_it_says_what_the_documentation_says(self):
        for role, may in MAY.items():
            assert {
                f"{m} {r}" for (m, r), roles in PAGE_ROUTE_ROLES.items() if role in roles
            } == may
        public = {f"{m} {r}" for (m, r), roles in PAGE_ROUTE_ROLES.items() if roles == ANYONE_ROLES}
        assert public == {
            "GET /", "GET /enter/{token}", "POST /enter/{token}", "GET /leave", "POST /leave", "GET /static/{name}",
            "GET /worker.js",
        }  # fmt: skip

    def test_the_documentation_has_every_page_and_who_may(self):
        page = (DOCS / "web-pages.md").read_text("utf-8")
        words = {
            "anyone": ANYONE_ROLES, "who has it": ANYONE_ROLES, "server's owner": SERVER_ROLES, "owner": OWNER_ACCESS,
            "owner, planner": PLANNER_ACCESS, "owner, planner, viewer": READER_ACCESS,
            "owner, planner, reporter": REPORTER_ACCESS,
        }  # fmt: skip
        told = {
            tuple(name.split(" ")): words[who]
            for names, who in re.findall(r"^\| (`[A-Z]+ /[^|]*) \| ([^|]+) \|", page, re.M)
            for name in re.findall(r"`([A-Z]+ /[^`]*)`", names)
        }
        assert told == PAGE_ROUTE_ROLES


class TestEveryPage:
    """With every role on every page: what is not allowed is refused and changes nothing."""

    @pytest.mark.parametrize("role", ROLES)
    def test_what_a_role_may_not(self, world, role):
        before = world.log.store.heads()
        with Visitor(world.app, world.tokens[role]) as visitor:
            for name in GUARDED:
                if name not in MAY[role]:
                    answer = world.asked(visitor, name)
                    # who holds no link of the server's owner is nobody where no campaign is named
                    assert answer.status_code == (403 if "{campaign}" in name else 401), name
                    assert "North" not in answer.text
        assert world.log.store.heads() == before

    def test_without_a_link_or_with_one_that_holds_no_longer(self, world):
        before = world.log.store.heads()
        revoked = world.issued("owner")
        with Visitor(world.app, revoked) as late, Visitor(world.app) as nobody:
            revoke_link(world.log, world.id, ME, revoked.split("_")[2])
            before = world.log.store.heads()
            for name in GUARDED:
                for visitor in (late, nobody):
                    answer = world.asked(visitor, name)
                    assert answer.status_code == 401, name
                    assert "North" not in answer.text
        assert world.log.store.heads() == before

    def test_with_a_link_of_another_campaign(self, world):
        before = world.log.store.heads()
        foreign = world.issued("owner", campaign=world.south)
        before = world.log.store.heads()
        with Visitor(world.app) as visitor:
            visitor.cookies.set(f"hb_{world.id}", foreign)  # as if it were of this one
            for name in GUARDED:
                answer = world.asked(visitor, name)
                assert answer.status_code == (404 if "{campaign}" in name else 401), name
        assert world.log.store.heads() == before

    def test_a_bearer_token_opens_no_page(self, world):
        with Asker(world.app) as program:
            assert program.get(f"/campaigns/{world.id}").status_code == 401

    def test_a_cookie_opens_nothing_of_the_programs(self, world):
        with Visitor(world.app, OWNER) as visitor:
            assert visitor.get(f"/api/campaigns/{world.id}").status_code == 401

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:81"},
            {"Origin": "https://127.0.0.1"},
            {"Origin": "ftp://127.0.0.1"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {},
        ],
    )
    def test_a_write_from_elsewhere_is_refused(self, world, headers):
        before = world.log.store.heads()
        with Visitor(world.app, OWNER) as visitor:
            for name in GUARDED:
                method, route = name.split(" ", 1)
                if method == "POST":
                    answer = visitor.post(
                        world.address(route), data=FIELDS.get(name), headers=headers
                    )
                    assert answer.status_code == 403, name  # fmt: skip
            assert visitor.post("/leave", headers=headers).status_code == 403
        assert world.log.store.heads() == before

    def test_a_write_that_the_browser_calls_our_own_is_taken(self, tmp_path):
        own = World(tmp_path)
        path = f"/campaigns/{own.id}/notes"
        headers = {"Sec-Fetch-Site": "same-origin"}
        with Visitor(own.app, OWNER) as visitor:
            assert visitor.post(path, data={"text": "hello"}, headers=headers).status_code == 303

    @pytest.mark.slow
    def test_what_a_role_may(self, tmp_path):
        """In a world of its own for each: nothing is refused that is allowed."""
        for role in ("server", *ROLES):
            folder = tmp_path / role
            folder.mkdir()
            own = World(folder)
            with Visitor(own.app, own.tokens[role]) as visitor:
                last = ("links/", "POST /campaigns/{campaign}/rounds/{round}/cancel")
                for name in sorted(
                    MAY[role], key=lambda name: (any(one in name for one in last), name)
                ):
                    answer = own.asked(visitor, name)
                    fine = (200, 303, 422, 412) if name.endswith("/undo") else (200, 303, 422)
                    assert answer.status_code in fine, (role, name, answer.text)
            own.log.store.close()

    def test_every_page_is_sent_with_what_keeps_it_private(self, world):
        with Visitor(world.app, OWNER) as visitor:
            for name in ["GET /", *GUARDED]:
                answer = world.asked(visitor, name) if name.startswith("GET") else None
                if answer is None or "ahead/run" in name:
                    continue
                assert answer.headers["cache-control"] == "no-store", name
                assert answer.headers["x-content-type-options"] == "nosniff", name
                if answer.headers["content-type"].startswith("text/html") and "audit" not in name:
                    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
                    assert answer.headers["referrer-policy"] == "same-origin"
                    assert "style=" not in answer.text  # which the policy would not show
                    assert " onclick" not in answer.text
                    for place in Page(answer.text).references:
                        assert place.startswith(("/", "#", "?")), place  # no other host

    def test_the_policy_allows_nothing_inline(self):
        assert "unsafe" not in CONTENT_SECURITY_POLICY
        assert "default-src 'none'" in CONTENT_SECURITY_POLICY


class TestLinks:
    """Where a link leads, and how one leaves."""

    def test_its_token_becomes_a_cookie_that_no_script_reads(self, world):
        with Visitor(world.app) as visitor:
            answer = visitor.get(f"/enter/{world.tokens['planner']}")
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"hb_{world.id}={world.tokens['planner']};")
            assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
            assert "Secure" not in cookie
            assert world.tokens["planner"] not in answer.text
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert f'content="0; url=/campaigns/{world.id}"' in answer.text

    def test_a_cookie_lives_no_longer_than_its_link(self, world):
        def age(days):
            expires = (datetime.now(UTC) + timedelta(days=days)).isoformat()
            _, token = issue_link(
                world.log, world.id, Author("Vera"), role="viewer", name="wall", expires=expires
            )
            with Visitor(world.app) as visitor:
                cookie = visitor.get(f"/enter/{token}").headers["set-cookie"]
            return int(re.search(r"Max-Age=(\d+)", cookie)[1])

        assert 2 * 86_400 - 60 < age(2) <= 2 * 86_400
        assert age(1000) == 400 * 86_400  # which is the most that browsers take

    def test_over_tls_the_cookie_goes_nowhere_else(self, world):
        with Visitor(world.app) as visitor:
            visitor.cookies.set(
                "hb_owner", OWNER
            )  # anybody may have set it who answers without TLS
            assert visitor.get("https://127.0.0.1/new").status_code == 401
            answer = visitor.get(f"https://127.0.0.1/enter/{OWNER}")
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"__Host-hb_owner={OWNER};")
            assert {"Secure", "Path=/"} <= set(cookie.split("; "))
            assert "Domain" not in cookie
            for name in ("hb_owner", "hb_" + world.id):  # what another host or port may have set
                visitor.cookies.set(name, world.tokens["viewer"])
            team = visitor.get(f"https://127.0.0.1/campaigns/{world.id}/team")
            assert team.status_code == 200  # and not 403, as for a viewer
            visitor.get(f"https://127.0.0.1/enter/{world.tokens['owner']}")
            agreed = visitor.post(
                f"https://127.0.0.1/enter/{world.tokens['owner']}",
                headers={"Origin": "https://127.0.0.1"},
            )
            assert agreed.status_code == 303
            assert visitor.get("https://127.0.0.1/new").status_code == 200
            assert visitor.get(f"https://127.0.0.1/campaigns/{world.id}/team").status_code == 200
            left = visitor.post("https://127.0.0.1/leave", headers={"Origin": "https://127.0.0.1"})
            ended = left.headers.get_list("set-cookie")
            assert len(ended) == 4
            assert all("Max-Age=0" in one for one in ended)
            own = [one for one in ended if one.startswith("__Host-")]
            assert [one for one in ended if "Secure" in one] == own  # or browsers keep them

    @pytest.mark.parametrize(
        ("role", "place"),
        [("server", "/"), ("owner", ""), ("planner", ""), ("reporter", "/report"), ("viewer", "/wall")],
    )  # fmt: skip
    def test_each_role_begins_where_it_works(self, world, role, place):
        with Visitor(world.app) as visitor:
            page = visitor.get(f"/enter/{world.tokens[role]}").text
            goes = "/" if role == "server" else f"/campaigns/{world.id}{place}"
            assert f"url={goes}" in page
            assert visitor.get(goes).status_code == 200

    def test_a_link_that_opens_nothing_says_so(self, world):
        with Visitor(world.app) as visitor:
            for token in ("hb_x", "hb_" + "0" * 12 + "_" + "0" * 12 + "_x", OWNER + "x"):
                answer = visitor.get(f"/enter/{token}")
                assert answer.status_code == 404
                assert "opens nothing" in answer.text
                assert "set-cookie" not in answer.headers

    def test_who_holds_one_link_comes_to_its_page_and_who_holds_none_is_told(self, world):
        with Visitor(world.app) as visitor:
            assert "Open your link" in visitor.get("/").text
        with Visitor(world.app, world.tokens["viewer"]) as visitor:
            assert visitor.get("/").headers["location"] == f"/campaigns/{world.id}/wall"
        both = (world.tokens["viewer"], world.issued("planner", campaign=world.south))
        with Visitor(world.app, *both) as visitor:
            page = visitor.get("/").text
            assert f"/campaigns/{world.id}/wall" in page
            assert f'href="/campaigns/{world.south}"' in page
            assert "/new" not in page

    @pytest.mark.parametrize("held", ["server", "owner"])
    def test_it_replaces_no_other_that_opens_unasked(self, world, held):
        name = f"hb_{world.id}"
        with Visitor(world.app, world.tokens[held]) as visitor:
            path = f"/enter/{world.tokens['viewer']}"
            answer = visitor.get(path, headers={"Sec-Fetch-Site": "same-site"})
            assert "set-cookie" not in answer.headers
            assert world.tokens["viewer"] not in answer.text
            page = Page(answer.text).text
            mine = {
                "server": "the owner of this server",
                "owner": "owner link (owner of North park)",
            }
            assert f"holds that of {mine[held]}" in page
            assert "the link of viewer link (viewer of North park)" in page
            assert visitor.get(f"/campaigns/{world.id}/team").status_code == 200
            for origin in ("http://evil.example", "null", "http://127.0.0.1:81"):
                answer = visitor.post(path, headers={"Origin": origin})
                assert answer.status_code == 403
                assert "set-cookie" not in answer.headers
            answer = visitor.submit(path)
            assert (answer.status_code, answer.headers["location"]) == (
                303,
                f"/campaigns/{world.id}/wall",
            )
            assert answer.headers["set-cookie"].startswith(f"{name}={world.tokens['viewer']};")
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert visitor.get(f"/campaigns/{world.id}/team").status_code == 403
            assert "set-cookie" in visitor.get(path).headers  # it is the same

    def test_at_once_if_what_is_held_opens_nothing_or_is_of_another_campaign(self, world):
        gone = world.issued("owner")
        south = world.issued("owner", campaign=world.south)
        with Visitor(world.app, gone, south) as visitor:
            revoke_link(world.log, world.id, Author("Vera"), gone.split("_")[2])
            assert "set-cookie" in visitor.get(f"/enter/{world.tokens['viewer']}").headers
            assert "set-cookie" in visitor.get(f"/enter/{OWNER}").headers  # which replaces none

    def test_from_another_site_it_asks_once_more_from_here(self, world):
        path = f"/enter/{world.tokens['viewer']}"
        with Visitor(world.app) as visitor:
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": ""}):
                visitor.cookies.clear()
                number = "0" * 32
                for again in ("", "?here", "?here=", f"?here={number}"):
                    answer = visitor.get(f"{path}{again}", headers=headers)
                    cookie = answer.headers["set-cookie"]
                    number = re.fullmatch(r"hb_here=([0-9a-f]{32}); .*", cookie)[1]
                    assert {"HttpOnly", "SameSite=strict", "Max-Age=600"} <= {*cookie.split("; ")}
                    assert f'href="?here={number}"' in answer.text
                    # by itself only once: a browser without cookies would go round and round
                    assert (f'content="0; url=?here={number}"' in answer.text) == (not again)
                    visitor.cookies.clear() if not again else None
                answer = visitor.get(f"{path}?here={number}", headers=headers)
                assert answer.headers["set-cookie"].startswith(f"hb_{world.id}=")
                assert f"url=/campaigns/{world.id}/wall" in answer.text
            visitor.cookies.clear()
            answer = visitor.get(f"{path}?here", headers={"Sec-Fetch-Site": "same-origin"})
            assert answer.headers["set-cookie"].startswith(f"hb_{world.id}=")
            assert visitor.submit("/enter/hb_x").status_code == 404

    def test_two_links_of_a_browser_stand_beside_each_other(self, world):
        with Visitor(world.app, OWNER, world.tokens["viewer"]) as visitor:
            assert visitor.get(f"/campaigns/{world.id}/team").status_code == 403
            assert visitor.get(f"/campaigns/{world.south}/team").status_code == 200

    def test_of_very_many_links_twenty_are_looked_at(self, world):
        many = [f"hb_{i:012x}=hb_{i:012x}_1_a" for i in range(1, 21)]
        own = f"hb_{world.id}={world.tokens['planner']}"
        with Visitor(world.app) as visitor:
            for cookies, status in (([*many[1:], own], 303), ([*many, own], 200)):
                answer = visitor.get("/", headers={"Cookie": "; ".join(cookies)})
                assert answer.status_code == status  # to its campaign, or to nothing that opens
            mine = f"hb_owner={OWNER}"  # the last of all, and not lost among them
            page = visitor.get("/", headers={"Cookie": "; ".join([*many[1:], own, mine])}).text
        assert "North park" in page
        assert "1 more link than" in Page(page).text

    def test_leaving_forgets_all_links(self, world):
        with Visitor(world.app, OWNER, world.tokens["viewer"]) as visitor:
            answer = visitor.submit("/leave")
            assert answer.status_code == 303
            ended = answer.headers.get_list("set-cookie")
            assert len(ended) == 2
            assert all("Max-Age=0" in one for one in ended)
            assert "Open your link" in visitor.get("/").text

    def test_a_damaged_campaign_is_in_nobodys_way(self, tmp_path):
        own = World(tmp_path)
        damage(tmp_path / "campaigns.db", own.south)
        fresh, _ = app_on(tmp_path / "campaigns.db")
        with Visitor(fresh, OWNER) as visitor:
            page = visitor.get("/").text
            assert "cannot be read" in page
            assert visitor.get(f"/campaigns/{own.id}").status_code == 200
        with Asker(fresh) as ask:
            listed = ask.get("/api/campaigns").json()
        assert [one["id"] for one in listed["campaigns"]] == [own.id]
        ((which, wrong),) = [(one["id"], one["wrong"]) for one in listed["damaged"]]
        assert which == own.south
        assert "event 1" in wrong

    def test_a_browser_that_holds_a_link_of_it_goes_on_with_others(self, tmp_path):
        own = World(tmp_path)
        token = own.issued("planner", campaign=own.south)
        damage(tmp_path / "campaigns.db", own.south)
        fresh, _ = app_on(tmp_path / "campaigns.db")
        fresh.state.slowing.FIRST = 0.0
        held = f"hb_{own.south}={token}"
        with Visitor(fresh) as visitor:
            page = visitor.get("/", headers={"Cookie": held}).text
            assert "Open your link" in page
            assert "event 1" not in page
            held += f"; hb_{own.id}={own.tokens['planner']}"
            answer = visitor.get("/", headers={"Cookie": held})
            assert (answer.status_code, answer.headers["location"]) == (303, f"/campaigns/{own.id}")


class TestErrors:
    """A person who meets an error sees a page that says what it is."""

    @pytest.mark.parametrize(
        "path", ["/nowhere", "/campaigns", "/static/no.css", "/campaigns/CAMPAIGN/rounds/x", "/campaigns/CAMPAIGN/rounds/99"]
    )  # fmt: skip
    def test_what_is_not_there(self, world, path):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.get(path.replace("CAMPAIGN", world.id))
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")
        assert 'role="alert"' in answer.text

    def test_what_fails_unforeseen_is_a_page_too_and_says_nothing_of_why(self, tmp_path, monkeypatch):  # fmt: skip
        from heterobandits.web.pages import plan

        own = World(tmp_path)

        def broken(*_):
            raise RuntimeError("a secret of the server")

        monkeypatch.setattr(plan, "waiting_text", broken)
        with Asker(own.app, None, strict=False) as visitor:
            visitor.cookies.set("hb_owner", OWNER)
            answer = visitor.get(f"/campaigns/{own.id}/rounds")
        assert answer.status_code == 500
        assert "The server failed" in answer.text
        assert "secret" not in answer.text

    def test_a_form_that_is_none(self, world):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.post(
                f"/campaigns/{world.id}/plan", content=b"seen=%ff", headers={"Origin": "http://127.0.0.1"}
            )  # fmt: skip
        assert answer.status_code == 400

    def test_a_form_that_is_too_large(self, world):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.submit(f"/campaigns/{world.id}/notes", text="x" * 1_100_000)
        assert answer.status_code == 413
        assert "The body is too large" in answer.text

    def test_a_method_that_is_not_for_it(self, world):
        with Visitor(world.app, OWNER) as visitor:
            answer = visitor.put(f"/campaigns/{world.id}")
        assert answer.status_code == 405
        assert f"PUT is not for “/campaigns/{world.id}”" in answer.text

    def test_fields_of_a_form(self):
        form = Form(b"a=1&a=+2+&b=&c=%C3%A9")
        assert (form.text("a"), form.texts("a"), form.whole("a")) == ("2", ["1", "2"], 2)
        assert (form.text("b"), form.texts("b"), form.whole("b")) == ("", [], None)
        assert form.text("c") == "é"


class TestHostileNames:
    """Markup in names is text on every page."""

    def test_everywhere(self, tmp_path):
        names = {
            "name": HOSTILE,
            "agents": [{"name": f"{HOSTILE} {i}", "sensitivity": 0.9 - 0.2 * i} for i in range(3)],
            "arms": [{"name": f"{HOSTILE} place {i}"} for i in range(4)],
        }
        own = World(tmp_path, **names)
        token = own.issued("owner", name=HOSTILE)
        outcomes = {f"{HOSTILE} 0": 1, f"{HOSTILE} 1": 0}
        report_outcomes(own.log, own.id, ME, 1, outcomes)
        correct_outcomes(own.log, own.id, ME, 1, {f"{HOSTILE} 0": 0})
        service.add_note(own.log, own.id, ME, HOSTILE)
        service.override(own.log, own.id, ME, 1, f"{HOSTILE} 2", [f"{HOSTILE} place 0"])
        shown = 0
        with Visitor(own.app, token) as visitor:
            pages = sorted(name for name in MAY["owner"] if name.startswith("GET"))
            for name in pages:
                if name.endswith((".csv", ".ndjson", "/ahead/run")):
                    continue
                answer = own.asked(visitor, name)
                page = Page(answer.text)
                assert "<b>x</b>" not in answer.text, name
                assert "49 &amp;" not in answer.text, name  # nothing was computed
                scripts = re.findall(r"<script[^>]*>", answer.text)
                assert all(" src=" in one for one in scripts), name
                shown += page.text.count(HOSTILE)
            for query in (
                "?why",
                "?absent=agent-1&closed=arm-1&kind=forced&agent=agent-2&arm=arm-2",
            ):
                part = "/rounds/1" if query == "?why" else "/plan"
                answer = visitor.get(f"/campaigns/{own.id}{part}{query}")
                assert answer.status_code == 200
                assert "<b>x</b>" not in answer.text  # fmt: skip
        assert shown > 60


def test_pages_of_a_large_campaign_are_light(tmp_path):
    agents = [{"name": f"Ranger {i}", "sensitivity": 0.9 - 0.02 * i} for i in range(20)]
    own = World(tmp_path, agents=agents, arms=[f"area {i}" for i in range(50)])
    for number in range(1, 12):
        names = {f"Ranger {i}": i % 2 for i in range(20)}
        report_outcomes(own.log, own.id, ME, number, names)
        service.plan_round(own.log, own.id, ME)
    with Visitor(own.app, OWNER) as visitor:
        for name in MAY["owner"]:
            if name.startswith("GET") and not name.endswith((".html", ".csv", ".ndjson", "/run")):
                answer = own.asked(visitor, name)
                assert answer.status_code == 200
                assert len(answer.content) < 80_000, name
    texts = (text for name, text in static_files().items() if not name.endswith(".png"))
    assert sum(map(len, texts)) < 85_000  # all scripts and styles there are


def test_times_are_shown_in_a_way_that_scripts_can_read(world):
    with Visitor(world.app, OWNER) as visitor:
        page = visitor.get(f"/campaigns/{world.id}/rounds").text
    times = re.findall(r'<time datetime="([^"]+)">', page)
    assert times
    assert datetime.fromisoformat(times[0]) <= datetime.now(UTC)


class TestEndedLinks:
    """A link that ends while it is used."""

    @pytest.mark.parametrize("kind", ["page", "program"])
    def test_a_body_that_comes_late_is_of_a_link_that_still_holds(self, tmp_path, kind):
        own = World(tmp_path)
        token = own.tokens["planner"]
        headers = [(b"host", b"h"), (b"origin", b"http://h")]
        if kind == "page":
            path, body = f"/campaigns/{own.id}/notes", b"text=late"
            headers.append((b"cookie", f"hb_{own.id}={token}".encode()))
        else:
            path, body = f"/api/campaigns/{own.id}/notes", b'{"text": "late"}'
            headers.append((b"authorization", f"Bearer {token}".encode()))
            headers.append((b"content-type", b"application/json"))
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "scheme": "http", "server": ("h", 80), "client": ("1.1.1.1", 1), "http_version": "1.1",
        }  # fmt: skip
        statuses = []

        async def receive():  # before the body is said, the link is revoked
            revoke_link(own.log, own.id, ME, token.split("_")[2])
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            statuses.append(message.get("status"))

        asyncio.run(own.app(scope, receive, send))
        assert statuses[0] == 401
        assert all(event.kind != "note" for event in own.log.store.read(own.id))

    def test_one_that_has_ended_is_not_in_the_way_of_another(self, tmp_path):
        own = World(tmp_path)
        ended = own.issued("viewer")
        with Visitor(own.app, OWNER, ended) as visitor:
            revoke_link(own.log, own.id, ME, ended.split("_")[2])
            for part in ("", "/team", "/rounds"):
                assert visitor.get(f"/campaigns/{own.id}{part}").status_code == 200
            assert visitor.get("/").status_code == 200
        assert len(own.app.state.slowing) == 0

    def test_strange_headers_are_no_failures(self, world):
        with Visitor(world.app, OWNER) as visitor:
            assert visitor.post("/leave", headers={"Origin": "http://["}).status_code == 403
            strange = {"Origin": "http://127.0.0.1", "Cookie": f"hb_a[b]=1; hb_owner={OWNER}"}
            answer = visitor.post("/leave", headers=strange)
            assert answer.status_code == 303
            assert answer.headers["set-cookie"].startswith("hb_owner=")
            assert visitor.get("/", headers={"Cookie": "hb_=1; hb_x=2"}).status_code == 200


def test_whoever_comes_with_links_that_open_nothing_waits(tmp_path):
    own = World(tmp_path)
    with Visitor(own.app) as guess:
        guess.cookies.set("hb_owner", "hb_owner_" + "x" * 43)
        assert "Open your link" in guess.get("/").text
        guess.get(f"/campaigns/{own.id}")
        assert own.app.state.slowing.seconds("127.0.0.1") == 0.0  # FIRST is none here
        assert own.app.state.slowing._bad["127.0.0.1"][0] == 3  # two were counted, and this
