"""A state as bytes, so that it need not be folded again: only for speed, and safe to delete.

Rounds stay packed until somebody looks at them: who plans the next round looks at none.
"""

import base64
import hashlib
import json
import zlib
from dataclasses import asdict, astuple

import numpy as np

from heterobandits.arrays import Integers
from heterobandits.campaigns.reducer import policy_body
from heterobandits.campaigns.rounds import Rounds
from heterobandits.campaigns.state import Agent, Arm, Link, State
from heterobandits.campaigns.validation import parse_policy
from heterobandits.errors import InvalidInput
from heterobandits.planner.knowledge import Forgetting
from heterobandits.planner.roster import AgentRow, Reports
from heterobandits.planner.vocabulary import words_of_body
from heterobandits.provenance import PACKAGE_FOLDER

SNAPSHOT_SOURCES = (  # of what is in a snapshot
    "events.py", "reducer.py", "validation.py", "rounds.py", "storage/snapshots.py", "state.py",
    "../planner/knowledge.py", "../planner/roster.py", "../planner/visits.py",
    "words.py", "../planner/vocabulary.py"
)  # fmt: skip
SNAPSHOT_DIGEST_BYTES = 32  # bytes of a hash, before the rest
SNAPSHOT_MIN_EVENTS = 500  # events from which on a snapshot is worth it


def digest_of_snapshot_sources() -> str:
    """A digest of the sources that make a snapshot: snapshots from other sources are ignored."""
    sources = ((PACKAGE_FOLDER / "campaigns" / name).read_bytes() for name in SNAPSHOT_SOURCES)
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


SNAPSHOT_FORMAT = digest_of_snapshot_sources()


def pack_state(state: State) -> bytes:
    """A state as bytes."""
    fields = {
        "campaign": state.campaign,
        "number": state.number,
        "hash": state.hash,
        "created": state.created,
        "changed": state.changed,
        "name": state.name,
        "agents": [[agent.name, agent.row, agent.retired] for agent in state.agents],
        "rows": [[row.agent, row.since, row.reports.body] for row in state.rows],
        "arms": [list(astuple(arm)) for arm in state.arms],
        "policy": policy_body(state.policy),
        "seed": state.seed,
        "season": state.season,
        "rounds": state.rounds.packed,
        "links": [asdict(link) for link in state.links.values()],
        "pulls": _encode_table(state.pulls),
        "successes": _encode_table(state.successes),
        "waiting": sorted(state.waiting),
        "plans_by": state.plans_by,
        "forgotten": state.forgotten,
        "on_change": state.on_change,
        "archived": state.archived,
        "ends": state.ends,
        "words": state.words.body,
    }
    data = json.dumps(fields, separators=(",", ":")).encode()
    return hashlib.sha256(data).digest() + zlib.compress(data, 1)


def unpack_state(data: bytes) -> State:
    """The state that `pack_state` wrote."""
    text = zlib.decompress(data[SNAPSHOT_DIGEST_BYTES:])
    if hashlib.sha256(text).digest() != data[:SNAPSHOT_DIGEST_BYTES]:
        raise InvalidInput("a snapshot that is damaged")
    fields = json.loads(text)
    shape = (len(fields["rows"]), len(fields["arms"]))
    return State(
        **{
            name: fields[name]
            for name in (
                "campaign",
                "number",
                "hash",
                "created",
                "changed",
                "name",
                "seed",
                "season",
                "plans_by",
                "on_change",
                "archived",
                "ends",
            )
        },
        agents=[Agent(*item) for item in fields["agents"]],
        rows=[AgentRow(agent, since, Reports.of(given)) for agent, since, given in fields["rows"]],
        arms=[
            Arm(*item, *(None if shape is None else (shape[0], shape[1]) for shape in shapes))
            for *item, shapes in ((*arm[:4], arm[4:]) for arm in fields["arms"])
        ],
        policy=parse_policy(**fields["policy"], season=fields["season"]),
        rounds=Rounds(fields["rounds"]),
        links={item["id"]: Link(**item) for item in fields["links"]},
        pulls=_decode_table(fields["pulls"], shape),
        successes=_decode_table(fields["successes"], shape),
        waiting=frozenset(fields["waiting"]),
        words=words_of_body(fields["words"]),
        forgotten=tuple(Forgetting(*entry) for entry in fields["forgotten"]),
    )


def _encode_table(table: Integers) -> str:
    return base64.b64encode(table.astype("<i4").tobytes()).decode()


def _decode_table(text: str, shape: tuple[int, int]) -> Integers:
    return np.frombuffer(base64.b64decode(text), "<i4").reshape(shape).astype(np.int64)
