"""The first start on a machine: the server answers while kernels are compiled, says how far that is, and compiles them once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import httpx
import pytest
from numba import config

from browsers import DESKTOP, PHONE, browser, person, violations  # noqa: F401 - fixture
from heterobandits.campaigns import service
from heterobandits.campaigns.links import issue_link
from heterobandits.campaigns.outcomes import report_outcomes
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.policies.catalogue import RECOMMENDED_FOR_HORIZON
from heterobandits.web.auth import (
    ALL_RULES_ROUTES,
    OWN_RULE_ROUTES,
    PAGE_BASE,
    REPORT_ROUTES,
    ROUTE_ROLES,
    WHY_ROUTES,
)  # fmt: skip
from heterobandits.web.pages.paper import digest_of_text
from heterobandits.web.pages.plan import STAYED_HOME
from heterobandits.web.warmup import Warmup, WarmupProgress, rules_to_load
from serving import NORTH, OWNER, SERVE, Asker, Server, Visitor, app_on

ME = Author("Vera")
BEARER = {"Authorization": f"Bearer {OWNER}"}
compiles = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture
def park(tmp_path):
    """An app whose rules are not loaded, and a campaign with a round that waits."""
    app, log = app_on(tmp_path / "x.db")
    campaign = service.create(log, ME, **NORTH).state.campaign
    service.plan_round(log, campaign, ME)
    app.state.warmup = Warmup()
    return app, log, campaign


class TestWaiting:
    """What needs rules is told to wait, and nothing else is."""

    def test_programs_are_told_when_to_ask_again(self, park):
        app, _, campaign = park
        with Asker(app) as ask:
            answer = ask.post(f"/api/campaigns/{campaign}/rounds")
            assert answer.status_code == 503
            assert answer.json()["type"] == "/problems/getting-ready"
            assert f"0 of {len(app.state.warmup.rules)} rules compiled" in answer.json()["detail"]
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert ask.get(f"/api/campaigns/{campaign}").json()["rounds"] == 1

    def test_people_see_how_far_it_is_on_a_page_that_opens_by_itself(self, park):
        app, _, campaign = park
        app.state.warmup.loaded = 3
        app.state.warmup.rules = ["a", "b", "c", *app.state.warmup.rules]
        with Visitor(app, OWNER) as visitor:
            page = visitor.get(f"/campaigns/{campaign}/plan")
            assert page.status_code == 503
            assert f"3 of {len(app.state.warmup.rules)} rules compiled" in page.text
            assert int(page.headers["refresh"]) < 10
            assert f'href="/campaigns/{campaign}/report"' in page.text
            sent = visitor.submit(f"/campaigns/{campaign}/plan", look="1")
            assert sent.status_code == 503
            assert "refresh" not in sent.headers
            assert "Nothing was done" in sent.text

    def test_reporting_and_all_that_needs_no_rules_works(self, park):
        app, _, campaign = park
        with Visitor(app, OWNER) as visitor:
            for part in ("/report", "/rounds", "/rounds/1", "/history", "/team"):
                assert visitor.get(f"/campaigns/{campaign}{part}").status_code == 200
            assert visitor.get("/").status_code == 200
        with Asker(app) as ask:
            told = {"successes": 1, "tests": 1}
            path = f"/api/campaigns/{campaign}/rounds/1/outcomes/Ana"
            assert ask.put(path, json=told).status_code == 201

    def test_a_campaign_opens_once_its_own_rule_is_there(self, park):
        app, log, campaign = park
        other = service.create(log, ME, **NORTH | {"policy": "greedy"}).state.campaign
        app.state.warmup.rules = [RECOMMENDED_FOR_HORIZON, "greedy"]
        app.state.warmup.loaded = 1
        with Asker(app) as ask:
            base = f"/api/campaigns/{campaign}"
            assert ask.get(f"{base}/answers").status_code == 200
            assert ask.get(f"{base}/shadow?policy=greedy").status_code == 503
            assert ask.get(f"/api/campaigns/{other}/answers").status_code == 503
            assert ask.get("/api/health").json()["ready"] is False
            app.state.warmup.loaded = 2
            assert ask.get(f"/api/campaigns/{other}/answers").status_code == 200
            health = ask.get("/api/health").json()
            assert (health["ready"], health["rules_ready"], health["rules"]) == (True, 2, 2)

    @pytest.mark.parametrize(("on_change", "waits"), [("forget", True), ("nothing", False)])
    def test_reports_wait_where_each_may_show_that_an_arm_has_changed(self, park, on_change, waits):
        """And only there: elsewhere these, which say nothing, are refused for that."""
        app, log, _ = park
        campaign = service.create(log, ME, **NORTH, on_change=on_change).state.campaign
        service.plan_round(log, campaign, ME)
        values = {"campaign": campaign, "round": 1, "agent": "Ana"}
        with Asker(app) as ask, Visitor(app, OWNER) as visitor:
            for method, route in sorted(REPORT_ROUTES):
                path = route.format(**values)
                if route.startswith("/api"):
                    answer = ask.request(method, path)
                else:
                    answer = visitor.submit(path)
                assert (answer.status_code == 503) == waits, route
                if waits:
                    assert 1 <= int(answer.headers["retry-after"]) <= 60
                    assert "/report" not in answer.text
            app.state.warmup.loaded = 1
            told = {"successes": 1, "tests": 1}
            path = f"/api/campaigns/{campaign}/rounds/1/outcomes/Ana"
            assert ask.put(path, json=told).status_code == 201

    def test_a_phone_is_told_so_in_a_way_that_keeps_the_report(self, park):
        app, log, _ = park
        campaign = service.create(log, ME, **NORTH, on_change="forget").state.campaign
        service.plan_round(log, campaign, ME)
        with Visitor(app, OWNER) as phone:
            headers = {"Origin": "http://127.0.0.1", "Accept": "application/json"}
            path = f"/campaigns/{campaign}/rounds/1/outcomes/agent-1"
            answer = phone.post(path, data={"do": "found"}, headers=headers)
            assert answer.status_code == 503
            assert answer.json()["type"] == "/problems/getting-ready"
            page = phone.get(f"/campaigns/{campaign}/plan")
            assert "Reports have to wait" in page.text
            assert f'href="/campaigns/{campaign}/report"' not in page.text

    def test_why_waits_and_the_round_does_not(self, park):
        app, _, campaign = park
        with Visitor(app, OWNER) as visitor:
            assert visitor.get(f"/campaigns/{campaign}/rounds/1").status_code == 200
            for why in ("why", "why=", "why=1", "saved=1&why=1"):
                assert visitor.get(f"/campaigns/{campaign}/rounds/1?{why}").status_code == 503
            app.state.warmup.loaded = 1
            assert visitor.get(f"/campaigns/{campaign}/rounds/1?why=1").status_code == 200

    def test_who_may_not_see_it_is_told_nothing_of_it(self, park):
        app, log, campaign = park
        _, token = issue_link(log, campaign, ME, role="reporter", name="Femi")
        for holder, status in ((None, 401), (token, 403)):
            with Asker(app, holder) as ask:
                for method, route in sorted(OWN_RULE_ROUTES | ALL_RULES_ROUTES):
                    if route.startswith("/api"):
                        path = route.format(campaign=campaign, round=1)
                        assert ask.request(method, path).status_code == status, route

    def test_the_tables_name_routes(self):
        tables = (OWN_RULE_ROUTES, ALL_RULES_ROUTES, REPORT_ROUTES, WHY_ROUTES)
        named = [route for table in tables for route in table]
        assert set(named) <= set(ROUTE_ROLES)
        assert len(set(named)) == len(named)
        assert all("{campaign}" in route for _, route in OWN_RULE_ROUTES)

    @pytest.mark.parametrize("seconds", [None, 0.2, 30.0, 4_000.0])
    def test_when_to_ask_again(self, seconds):
        assert 1 <= WarmupProgress(1, 2, seconds).retry_after <= 60


NEEDING = """
import json, os, re, sys
from pathlib import Path
from numba.core import event
from serving import OWNER, Asker, Visitor, app_on

class Loads(event.Listener):
    number = 0
    def on_start(self, one):
        Loads.number += 1
    def on_end(self, one):
        pass

event.register("numba:compiler_lock", Loads())  # which is taken to compile a kernel and to load one
app, log = app_on(Path(sys.argv[1]))
for method, path, body in json.load(sys.stdin):
    with Visitor(app) as visitor, Asker(app) as ask:
        visitor.headers["Cookie"] = f"hb_owner={OWNER}"
        Loads.number = 0
        if path.startswith("/api") or path == "/metrics":
            answer = ask.request(method, path, json=body)
        elif method == "GET":
            answer = visitor.get(path)
        else:
            answer = visitor.submit(path, **(body or {}))
    print(json.dumps([method, path, answer.status_code, Loads.number]))
"""


@compiles
@pytest.mark.slow
def test_what_does_not_wait_needs_no_kernel(tmp_path):
    """Every page and every answer that is not in the tables, in a process that has loaded none; so do reports, links and cards."""
    _, log = app_on(tmp_path / "x.db")
    campaign = service.create(log, ME, **NORTH).state.campaign
    for _ in range(2):
        service.plan_round(log, campaign, ME)
    report_outcomes(log, campaign, ME, 1, {"Ana": 1, "Ben": 0})
    done, token = issue_link(log, campaign, ME, role="reporter", name="Ana", agent="Ana")
    forgetful = service.create(log, ME, **NORTH, on_change="forget").state.campaign
    service.plan_round(log, forgetful, ME)
    chis = f"arm-{log.state(campaign).round(2).arms_of(2)[0] + 1}"
    text = "1,Chi,,0,12"
    anas = f"arm-{log.state(campaign).round(1).arms_of(0)[0] + 1}"
    said = f"HB1;{campaign};agent-1;1;;{anas};0/1;5;;;"
    line = f"{said};{zlib.crc32(said.encode()):08x}"
    values = {
        "campaign": campaign, "round": "2", "agent": "Ana", "arm": "river", "token": token, "link": done.events[0].body["link"], "name": "site.css",
    }  # fmt: skip
    names = sorted(set(ROUTE_ROLES) - OWN_RULE_ROUTES - ALL_RULES_ROUTES)
    asked = [(method, route, None) for method, route in names if method == "GET"]
    base = "/api/campaigns/{campaign}"
    asked += [
        ("PUT", f"{base}/rounds/{{round}}/outcomes/{{agent}}", {"successes": 1, "tests": 1}),
        ("PUT", f"{base}/rounds/{{round}}/overrides/Ben", {"arms": ["river"]}),
        (
            "POST",
            f"{PAGE_BASE}/rounds/{{round}}/outcomes/agent-3",
            {"do": "found", "arm": chis, "key": "3"},
        ),
        (
            "POST",
            f"{PAGE_BASE}/rounds/{{round}}/override",
            {"agent": "agent-2", "arm": STAYED_HOME, "key": "4"},
        ),
        ("POST", f"{PAGE_BASE}/rounds/{{round}}/table", {"key": "5"}),
        (
            "POST",
            f"{PAGE_BASE}/paste",
            {"do": "save", "text": text, "looked": digest_of_text(text), "key": "6"},
        ),
        ("POST", f"{PAGE_BASE}/report/handover", {"do": "save", "lines": line, "key": "7"}),
        ("POST", f"{base}/links", {"role": "viewer", "name": "Eva"}),
        ("POST", f"{base}/notes", {"text": "x"}),
        ("POST", f"{base}/agents", {"agents": [{"name": "Mal", "sensitivity": 0.5}]}),
        ("POST", f"{base}/rounds/{{round}}/close", None),
        ("POST", "/api/campaigns", NORTH | {"name": "South park"}),
        ("POST", f"{PAGE_BASE}/notes", {"text": "x", "key": "1"}),
        ("POST", f"{PAGE_BASE}/cards", {"agent": "Ben", "key": "2"}),
    ]
    wanted = [
        (method, re.sub(r"{(\w+)}", lambda name: values[name[1]], route), body)
        for method, route, body in asked
    ] + [
        (method, path.format(campaign=forgetful), body)
        for method, path, body in (
            ("GET", f"{PAGE_BASE}/rounds/1", None),
            ("GET", f"{PAGE_BASE}/report", None),
            ("POST", f"{base}/rounds/1/close", None),
        )
    ]
    done = subprocess.run(
        [sys.executable, "-c", NEEDING, str(tmp_path / "x.db")], input=json.dumps(wanted), text=True, capture_output=True,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(wanted), done.stderr
    assert [one for one in found if one[2] >= 400 or one[3]] == []


FOLLOWING = """
import json, os, sys
from numba.core import event
from heterobandits.core.compiled import KernelCache
from heterobandits.web.warmup import Warmup

class Compiled(event.Listener):
    names = []
    def on_start(self, one):
        if isinstance(one.data["dispatcher"]._cache, KernelCache):
            self.names.append(one.data["dispatcher"].py_func.__qualname__)
    def on_end(self, one):
        pass

event.register("numba:compile", Compiled())
kernels = Warmup()
if sys.argv[1] == "before":
    kernels.load_compiled()
kernels.start_compiler()
child = kernels.compiler
if sys.argv[1] == "killed":
    os.kill(child, 9)
while not kernels.ready:
    kernels.load_next()
kernels.end_compiler()
print(json.dumps([len(Compiled.names), kernels.loaded, child is not None]))
"""


def following(how):
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWING, how], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@compiles
@pytest.mark.slow
class TestCompiler:
    """The process that compiles, on this machine's own cache."""

    def test_what_it_compiles_others_load(self):
        compiled, loaded, forked = following("beside")
        assert (compiled, loaded, forked) == (0, len(rules_to_load()), True)

    def test_where_all_is_compiled_it_is_not_needed(self):
        assert following("before") == [0, len(rules_to_load()), False]

    def test_when_it_is_killed_whoever_needs_a_rule_loads_or_compiles_it(self):
        assert following("killed")[1] == len(rules_to_load())


def processes_of(process):
    """The process and all that it has started."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in listed.read_text().split()] if listed.exists() else []


def is_gone(number):
    """Whether a process has ended; one that nobody has waited for counts."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def eventually(true):
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


@compiles
@pytest.mark.slow
@pytest.mark.server
@pytest.mark.usefixtures("ends")
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
class TestFirstStart:
    """A machine that has compiled nothing."""

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
    )
    def test_it_answers_meanwhile_and_ends_at_once(self, tmp_path, workers, number, code):
        _, log = app_on(tmp_path / "x.db")
        campaign = service.create(log, ME, **NORTH).state.campaign
        service.plan_round(log, campaign, ME)
        cold = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
        server = Server(tmp_path / "x.db", "--workers", str(workers), env=cold)
        eventually(lambda: len(processes_of(server.process.pid)) == (1 if workers == 1 else 3))
        started = processes_of(server.process.pid)
        with httpx.Client(
            base_url=server.url,
            headers=BEARER,
            timeout=60,
            transport=httpx.HTTPTransport(retries=9),
        ) as ask:
            assert ask.get("/api/health").json()["ready"] is False
            place = f"/api/campaigns/{campaign}/rounds"
            assert ask.post(place).json()["type"] == "/problems/getting-ready"
            told = {"successes": 1, "tests": 1}
            assert ask.put(f"{place}/1/outcomes/Ana", json=told).status_code == 201
        eventually(lambda: list((tmp_path / "kernels").rglob("*.nbi")))  # something is saved
        began = time.monotonic()
        ended, _, err = server.end(number)
        assert ended == code
        assert "Traceback" not in err
        assert time.monotonic() - began < 30  # the compiling takes minutes
        eventually(lambda: all(map(is_gone, started)))


STUCK = f"""
from contextlib import nullcontext
from heterobandits.web import warmup
class Stuck(warmup.Warmup):
    def loading(self, note):
        return nullcontext()
warmup.prepare_kernels = lambda note: Stuck()
{SERVE}"""  # a server on which no rule is ever loaded


@pytest.mark.browser
@pytest.mark.server
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_page_that_waits_in_a_browser(browser, tmp_path):  # noqa: F811
    with Store(tmp_path / "x.db") as store:
        log = Repository(store)
        campaign = service.create(log, ME, **NORTH).state.campaign
    server = Server(tmp_path / "x.db", code=STUCK)
    for kind in (PHONE, DESKTOP):
        with person(browser, kind) as made:
            made.go(f"{server.url}/enter/{OWNER}")
            made.page.wait_for_url(f"{server.url}/")
            made.go(f"{server.url}/campaigns/{campaign}/plan")
            made.says("Getting ready")
            made.fits()
            assert violations(made.page) == []
            again = f"{server.url}/campaigns/{campaign}/plan"
            with made.page.expect_response(again):  # by itself
                pass
            made.follow("Report")
            made.page.wait_for_url("**/report")
    server.end()
