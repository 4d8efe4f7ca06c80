"""What one link costs the others: `python benchmarks/one_link.py [--seconds 6] [--connections 8] [--database FILE] [--only known]`.

A season of 20 agents, 50 arms and 400 rounds (8,400 events) is asked for one thing by many connections of one link. Meanwhile
others, in other campaigns, report, preview a plan, and open a plan of 60 agents and 100 arms. How long they wait is printed, also
as a multiple of what they wait while nobody else asks. The database is SQLite, and kept if it is named; one process serves.
"""

import argparse
import http.client
import itertools
import json
import math
import multiprocessing
import sys
import tempfile
import threading
import time
from pathlib import Path

from heterobandits.campaigns.outcomes import report_outcomes

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "web"))

from page_speed import season

from crowds import GONE, TOKEN, Caller, Server
from heterobandits.campaigns import service
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store

ME = Author("benchmark")
SHARE = 0.95
SIZES = (("small", 6, 10), ("wide", 60, 100))  # the campaigns of the others: agents and arms
REST = 0.05  # seconds that those who are measured wait between two requests
JSON = {"Content-Type": "application/json"}
FLOODS = (  # what is called, whose link, method, path, body and header
    ("nobody", None, None, None, None, {}),
    ("health", None, "GET", "/api/health", None, {}),
    ("explanations", "viewer", "GET", "{api}/rounds/350/explanations", None, {}),
    ("explanations of any round", "viewer", "GET", "{api}/rounds/{any}/explanations", None, {}),
    ("page of a round with why", "viewer", "GET", "{home}/rounds/350?why", None, {}),
    ("page of an old round's reports", "reporter", "GET", "{home}/report?round=1", None, {}),
    ("the same key again", "reporter", "PUT", "{api}/rounds/350/outcomes/agent-1", {"successes": 1, "tests": 1},
     {"If-Match": "*", "Idempotency-Key": "again"}),
    ("known page", "viewer", "GET", "{home}", None, {}),
    ("visits.csv", "viewer", "GET", "{api}/visits.csv", None, {}),
    ("export", "planner", "GET", "{api}/export", None, {}),
    ("projection", "viewer", "GET", "{api}/projection?rounds=50", None, {}),
    ("shadow", "viewer", "GET", "{api}/shadow?policy=min-width", None, {}),
    ("corrections", "reporter", "PUT", "{api}/rounds/350/outcomes/agent-2", {"successes": "{turn}", "tests": 1},
     {"If-Match": "*"}),
)  # fmt: skip


def prepare(database: str, seconds: float) -> None:
    """Make the campaigns, unless they are there, and rounds to be reported in so much time."""
    store = Store(database)
    log = Repository(store)
    if not store.heads():
        season(log, 20, 50, 400)
        for name, agents, arms in SIZES:
            team = [{"name": f"ranger {a}", "sensitivity": 0.9} for a in range(agents)]
            service.create(log, ME, name=name, agents=team, arms=[f"area {n}" for n in range(arms)])
    _, small, wide = (log.state(head.campaign) for head in store.heads())
    for number in range(len(wide.rounds) + 1, 31):
        service.plan_round(log, wide.campaign, ME)
        found = {f"agent-{a + 1}": (a + number) % 2 for a in range(len(wide.agents))}
        report_outcomes(log, wide.campaign, ME, number, found)
    for _ in range(len(small.waiting), math.ceil(seconds / REST / len(small.agents))):
        service.plan_round(log, small.campaign, ME)
    store.close()


def flood(address, counts, stop, place, token, method, path, body, headers):
    """Ask for it again as soon as it is answered, until told to stop."""
    campaign = place.rpartition("/")[2]
    sent = JSON | headers
    if token is not None:
        sent |= {"Authorization": f"Bearer {token}", "Cookie": f"hb_{campaign}={token}"}
    for turn in itertools.count():
        if stop.is_set():
            return
        said = None if body is None else json.dumps(body).replace('"{turn}"', str(turn % 2))
        where = path.format(api=f"/api{place}", home=place, any=1 + 37 * turn % 400)
        connection = http.client.HTTPConnection(address, timeout=120)
        try:
            connection.request(method, where, said, sent)
            answer = connection.getresponse()
            answer.read()
            with counts.get_lock():
                counts[answer.status] += 1
        except GONE:
            pass
        finally:
            connection.close()


def flooded(*given):
    """Many connections of one link, from a process of their own."""
    *arguments, connections = given
    threads = [threading.Thread(target=flood, args=arguments) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def visits(caller, campaign):
    """All visits of a campaign of which nothing is known."""
    place = f"/api/campaigns/{campaign}/rounds"
    for entry in caller.call("GET", place)[1]["rounds"]:
        if entry["told"] < entry["visits"]:
            round = caller.call("GET", f"{place}/{entry['round']}")[1]
            yield from (
                (entry["round"], one["agent_id"]) for one in round["visits"] if one["waits"]
            )


def others(server, tokens, left, seconds):
    """How long those wait who report, preview and open a plan, and what else they were answered."""
    stop, times, odd = threading.Event(), {}, []

    def measure(what, ask, good):
        times[what] = []
        while not stop.is_set():
            begin = time.perf_counter()
            status = ask()
            times[what].append(time.perf_counter() - begin)
            if status not in good:
                odd.append((what, status))
            stop.wait(REST)

    def caller(which):
        return Caller(server, tokens[which])

    reporter, previewer = caller("small one"), caller("small two")
    campaign, wide = tokens["small"], tokens["wide"]

    def report():
        number, agent = next(left)
        path = f"/api/campaigns/{campaign}/rounds/{number}/outcomes/{agent}"
        return reporter.call("PUT", path, {"successes": 1, "tests": 1})[0]

    def preview():
        return previewer.call("POST", f"/api/campaigns/{campaign}/rounds?preview=true", {})[0]

    def plan():
        connection = http.client.HTTPConnection(server.address, timeout=120)
        cookie = {"Cookie": f"hb_{wide}={tokens['wide one']}"}
        connection.request("GET", f"/campaigns/{wide}/plan", None, cookie)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    asked = {"report": (report, (200, 201)), "preview": (preview, (200,)), "plan": (plan, (200,))}
    threads = [threading.Thread(target=measure, args=(name, *how)) for name, how in asked.items()]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return times, odd


def quantile(times):
    """What all but a few of these took at most, in milliseconds."""
    return 1000 * sorted(times)[min(len(times) - 1, int(SHARE * len(times)))]


def main() -> None:
    """Print a line for each thing that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--database")
    parser.add_argument("--only", action="append")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = given.database or str(Path(folder) / "one-link.db")
        prepare(database, given.seconds * (len(FLOODS) + 1))
        server = Server(database)
        try:
            run(server, given)
        finally:
            server.stop()


def link(owner, campaign, role, name):
    """The token of a new link."""
    body = {"role": role, "name": f"{name} {time.time_ns()}"}
    return owner.call("POST", f"/api/campaigns/{campaign}/links", body)[1]["token"]


def run(server, given) -> None:
    """Ask, and print."""
    owner = Caller(server, TOKEN)
    ids = {one["name"]: one["id"] for one in owner.call("GET", "/api/campaigns")[1]["campaigns"]}
    attacked = f"/campaigns/{ids['Big park']}"
    links = {role: link(owner, ids["Big park"], role, role) for role in ("viewer", "reporter", "planner")}  # fmt: skip
    tokens = {"small": ids["small"], "wide": ids["wide"]}
    tokens |= {f"small {n}": link(owner, ids["small"], "planner", n) for n in ("one", "two")}
    tokens["wide one"] = link(owner, ids["wide"], "planner", "one")
    left = iter(list(visits(owner, ids["small"])))
    others(server, tokens, left, 1)
    quiet = {}
    print(f"{'asked for by one link':32s} {'report':>15s} {'preview':>15s} {'plan':>15s}   answers")
    for name, role, method, path, body, headers in FLOODS:
        if given.only and name not in ("nobody", *given.only):
            continue
        counts, stop = multiprocessing.Array("i", 600), multiprocessing.Event()
        process = None
        if method is not None:
            arguments = (server.address, counts, stop, attacked, links.get(role), method, path, body, headers)  # fmt: skip
            process = multiprocessing.Process(target=flooded, args=(*arguments, given.connections))
            process.start()
            time.sleep(0.5)
        times, odd = others(server, tokens, left, given.seconds)
        stop.set()
        if process is not None:
            process.join()
        found = {what: quantile(taken) for what, taken in times.items()}
        quiet = quiet or found
        cells = " ".join(f"{found[what]:6.0f} ms x{found[what] / quiet[what]:4.1f} " for what in quiet)  # fmt: skip
        seen = {status: count for status, count in enumerate(counts) if count}
        print(f"{name:32s} {cells}   {seen} {odd[:2] if odd else ''}", flush=True)


if __name__ == "__main__":
    main()
