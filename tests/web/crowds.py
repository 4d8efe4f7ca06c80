"""A server under load: planners and reporters over many campaigns, what they were told, and whether it holds afterwards.

Everything goes through a real `heterobandits serve` and plain HTTP connections. `Crowd` remembers every acknowledged write;
`lost` compares that with the log.
"""

import http.client
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from urllib.parse import quote, urlsplit

from heterobandits.campaigns.audit.verification import replay_events
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import Store

TOKEN = "owner-" + "0123456789abcdef" * 4
PATIENCE = 120  # seconds until a server answers, kernels compiled
GONE = (ConnectionError, http.client.HTTPException, OSError)


class Server:
    """`heterobandits serve` on a database, on a port of its own."""

    def __init__(self, database, workers=1):
        self.database, self.workers = str(database), workers
        self.start()

    def start(self):
        program = "from heterobandits.cli import main; raise SystemExit(main())"
        count = str(self.workers)
        command = ("serve", "--database", self.database, "--port", "0", "--workers", count)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *command],
            env=os.environ | {"HETEROBANDITS_OWNER_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        deadline = time.monotonic() + PATIENCE
        while True:
            line = self.process.stdout.readline()
            self.lines.append(line)
            found = [word for word in line.split() if word.startswith("http://")]
            if found:
                break
            if not line or time.monotonic() > deadline:
                raise AssertionError("".join(self.lines))
        self.address = urlsplit(found[0]).netloc
        self.drain = threading.Thread(target=self._drain, args=(self.process.stdout,))
        self.drain.start()
        first = Caller(self, TOKEN)
        first.until_it_answers()
        first.close()

    def _drain(self, stream):
        with stream:
            self.lines.extend(stream)

    def kill(self):
        """As the power going: nothing is finished, nothing is said."""
        self.process.kill()
        self.process.wait()
        self.drain.join()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.drain.join()
        return code


class Caller:
    """One who calls, over a connection that stays open."""

    def __init__(self, server, token):
        self.server, self.token, self.connection = server, token, None

    def call(self, method, path, body=None, **headers):
        """The status, the answer and the number of the state, or None if the server went away."""
        said = None if body is None else json.dumps(body)
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.server.address, timeout=60)
                self.connection.connect()
            self.connection.request(method, path, said, sent)
            answer = self.connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None, answer.getheader("ETag")
        except GONE:
            self.close()
            return None

    def close(self):
        if self.connection is not None:
            with suppress(*GONE):
                self.connection.close()
        self.connection = None

    def until_it_answers(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.call("GET", "/api/health")
            if found is not None and found[0] == 200:
                return
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)


class Crowd:
    """Planners and reporters, each with a connection of its own, and what they were told."""

    def __init__(self, server, campaigns=100, agents=6, arms=10, pause=0.0):
        self.server, self.pause = (
            server,
            pause,
        )  # seconds between two requests of one of them, at most
        self.lock = threading.Lock()
        self.times = defaultdict(list)
        self.statuses = defaultdict(int)
        self.rounds, self.outcomes = (
            {},
            {},
        )  # acknowledged: (campaign, round) and (campaign, round, agent)
        self.visits = []
        self.unexpected = []
        self.stopping = threading.Event()
        owner = Caller(server, TOKEN)
        self.campaigns = []
        for i in range(campaigns):
            body = {
                "name": f"campaign {i}",
                "agents": [
                    {"name": f"ranger {a}", "sensitivity": 0.5 + 0.4 * a / agents}
                    for a in range(agents)
                ],
                "arms": [{"name": f"area {n}"} for n in range(arms)],
                "seed": i,
            }
            status, made, _ = owner.call("POST", "/api/campaigns", body)
            assert status == 201, made
            self.campaigns.append(made["id"])
        owner.close()

    def run(self, planners, reporters, seconds, end=lambda: None):
        """Let them work for so long; what `end` does happens while they still do."""
        self.stopping.clear()
        jobs = [self.plan] * planners + [self.report] * reporters
        threads = [threading.Thread(target=self._work, args=(job, i)) for i, job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        self.stopping.wait(seconds)
        end()
        self.stopping.set()
        for thread in threads:
            thread.join()

    def _work(self, job, number):
        caller, luck = Caller(self.server, TOKEN), random.Random(secrets.randbits(64) + number)
        while not self.stopping.is_set():
            if job(caller, luck) is None:
                break
            self.stopping.wait(luck.uniform(0, self.pause))
        caller.close()

    def timed(self, caller, what, *call, **headers):
        begin = time.perf_counter()
        found = caller.call(*call, **headers)
        took = time.perf_counter() - begin
        if found is not None:
            with self.lock:
                self.times[what].append(took)
                self.statuses[what, found[0]] += 1
                if found[0] >= 500 or found[0] in (400, 401, 403, 404, 422):
                    self.unexpected.append((what, found[0], found[1]))
        return found

    def plan(self, caller, luck):
        """A round of some campaign, with somebody absent now and then."""
        campaign = luck.choice(self.campaigns)
        body = {"absent": ["ranger 0"]} if luck.random() < 0.2 else {}
        key = {"Idempotency_Key": secrets.token_hex(8)}
        found = self.timed(caller, "plan", "POST", f"/api/campaigns/{campaign}/rounds", body, **key)
        if found is not None and found[0] == 201:
            number = found[1]["round"]
            sent = {a["agent"]: a["arm"] for a in found[1]["assignments"]}
            with self.lock:
                self.rounds[campaign, number] = sent
                self.visits += [(campaign, number, a) for a, arm in sent.items() if arm is not None]
        return found

    def report(self, caller, luck):
        """The outcome of a visit that waits; now and then it is corrected, or somebody looks at the arms."""
        with self.lock:
            visit = self.visits.pop(luck.randrange(len(self.visits))) if self.visits else None
        if visit is None or luck.random() < 0.1:
            if visit is not None:
                with self.lock:
                    self.visits.append(visit)
            campaign = luck.choice(self.campaigns)
            return self.timed(caller, "look", "GET", f"/api/campaigns/{campaign}/arms")
        campaign, number, agent = visit
        path = f"/api/campaigns/{campaign}/rounds/{number}/outcomes/{quote(agent)}"
        found, headers = None, {"Idempotency_Key": secrets.token_hex(8)}
        for attempt in range(1 + (luck.random() < 0.05)):
            counts = {"successes": luck.randrange(2), "tests": 1}
            if attempt:
                headers = {"Idempotency_Key": secrets.token_hex(8), "If_Match": "*"}
            found = self.timed(caller, "report", "PUT", path, counts, **headers)
            if found is not None and found[0] in (200, 201):
                with self.lock:
                    self.outcomes[visit] = counts["successes"]
            elif found is None:
                with self.lock:  # it may be there or not: nobody was told
                    self.outcomes.pop(visit, None)
        return found

    def quantile(self, what, share):
        times = sorted(self.times[what])
        return times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def lost(crowd, database):
    """What was acknowledged and is not in the log; what is half there or does not follow is an error of its own."""
    store = Store(database)
    log = Repository(store)
    gone = []
    for campaign in crowd.campaigns:
        state = replay_events(store.read(campaign))
        assert state.hash == log.state(campaign).hash
        for (owner, number), sent in crowd.rounds.items():
            if owner != campaign:
                continue
            names = {
                state.agents[a].name: None if arm is None else state.arms[arm].name
                for a, arm in enumerate(state.round(number).assignment)
            }
            if names != sent:
                gone.append((campaign, number))
        for (owner, number, agent), successes in crowd.outcomes.items():
            if owner == campaign:
                round = state.round(number)
                a = state.agent(agent)
                told = round.told.get((a, round.assignment[a]))
                if told is None or told.counts != (successes, 1):
                    gone.append((campaign, number, agent, successes, told))
    store.close()
    return gone
