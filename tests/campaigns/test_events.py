"""Events: sealed one on the other, the same text for the same event, and nothing changed unseen."""

import hashlib
import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterobandits import InvalidInput
from heterobandits.campaigns.events import (
    EVENT_VERSION,
    GENESIS_HASH,
    Draft,
    canonical_json,
    check_chain,
    parse_event_line,
    render_event_line,
    seal_events,
    utc_now,
)
from heterobandits.errors import UnsupportedVersion
from logs import of_first_version

DRAFTS = [Draft("note", {"text": f"ü {i}", "round": None}) for i in range(4)]
ID = "0123456789ab"


def chain(drafts=DRAFTS, key=None):
    return seal_events(
        drafts,
        ID,
        after=0,
        previous=GENESIS_HASH,
        time="2026-03-01T09:30:00.000000Z",
        who="Vera",
        key=key,
    )


def test_a_line_of_millions_of_lists_is_refused_unread():
    row = render_event_line(chain()[0])
    flood = row.replace('"ü 0"', f"[{'[],' * 2_000_000}[]]")
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="over 2,000,000 lists"):
        parse_event_line(flood)
    assert time.monotonic() - began < 0.2
    assert parse_event_line(row) == chain()[0]


class TestHash:
    """What stands for an event and all before it."""

    def test_it_is_that_of_the_text_that_the_docs_give(self):
        first = chain()[0]
        text = (
            f'["{GENESIS_HASH}","{ID}",1,"2026-03-01T09:30:00.000000Z","Vera",null,"note",2,'
            '{"round":null,"text":"ü 0"},null]'
        )
        assert first.hash == hashlib.sha256(text.encode()).hexdigest()

    def test_one_of_version_1_has_no_link_in_it(self):
        (first,) = of_first_version(chain()[:1])
        text = (
            f'["{GENESIS_HASH}","{ID}",1,"2026-03-01T09:30:00.000000Z","Vera","note",1,'
            '{"round":null,"text":"ü 0"},null]'
        )
        assert first.hash == hashlib.sha256(text.encode()).hexdigest()
        assert "link" not in json.loads(render_event_line(first))
        assert parse_event_line(render_event_line(first)) == first
        with pytest.raises(InvalidInput, match="version 1"):
            parse_event_line(render_event_line(first)[:-1] + ',"link":"0123456789ab"}')

    def test_each_has_that_of_the_one_before(self):
        events = chain()
        assert [e.previous for e in events] == [GENESIS_HASH, *(e.hash for e in events[:-1])]
        assert list(check_chain(events)) == events

    @pytest.mark.parametrize(
        "change",
        [
            {"time": "2026-03-02T09:30:00.000000Z"},
            {"who": "Mallory"},
            {"body": {"text": "ü 2", "round": None}},
            {"kind": "round closed"},
            {"key": "k"},
            {"link": "0123456789ab"},
            {"hash": "f" * 64},
        ],
    )
    def test_a_changed_event_is_named(self, change):
        events = chain()
        events[1] = replace(events[1], **change)
        with pytest.raises(InvalidInput, match=r"^event 2 is not what its hash says"):
            list(check_chain(events))

    def test_an_event_sealed_anew_breaks_the_next(self):
        events = chain()
        events[1] = chain([DRAFTS[0], DRAFTS[2]])[1]
        with pytest.raises(InvalidInput, match=r"^event 3 does not follow on the one before"):
            list(check_chain(events))

    @pytest.mark.parametrize(
        ("some", "named"),
        [(lambda e: e[:1] + e[2:], 2), (lambda e: e[1:], 1), (lambda e: e[::-1], 1)],
    )
    def test_a_missing_one_is_named(self, some, named):
        with pytest.raises(InvalidInput, match=rf"^event {named} is missing"):
            list(check_chain(some(chain())))

    @pytest.mark.parametrize("change", [{"version": EVENT_VERSION + 1}, {"kind": "teleported"}])
    def test_a_newer_event_is_refused_never_guessed_at(self, change):
        events = chain()
        events[2] = replace(events[2], **change)
        with pytest.raises(UnsupportedVersion, match=r"event 3 .*use the newer heterobandits"):
            list(check_chain(events))

    def test_it_goes_on_after_a_state(self):
        events = chain()
        assert list(check_chain(events[2:], 2, events[1].hash)) == events[2:]
        with pytest.raises(InvalidInput, match="event 3 does not follow"):
            list(check_chain(events[2:], 2, events[0].hash))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class TestText:
    """Lines of a file."""

    @given(st.dictionaries(st.text(), JSON, max_size=4))
    def test_a_line_gives_the_same_event(self, body):
        (event,) = chain([Draft("note", body)], key="a key")
        try:
            text = render_event_line(event)
            text.encode()
        except UnicodeEncodeError:  # half characters, which names and notes do not have
            return
        assert "\n" not in text
        again = parse_event_line(text)
        assert again == event
        assert render_event_line(again) == text
        assert list(check_chain([again])) == [event]

    def test_equal_values_have_one_text(self):
        assert canonical_json({"b": 1, "a": 0.1}) == canonical_json(
            json.loads('{"a": 0.1,   "b":1}')
        )

    def test_what_is_not_finite_is_refused(self):
        with pytest.raises(ValueError, match="JSON"):
            canonical_json(float("inf"))

    @pytest.mark.parametrize(
        "text", ["", "x", "[]", "{}", "1", '{"campaign": 1}', '{"a":1,"a":2}', "[" * 100_000]
    )
    def test_what_is_no_event_is_refused_in_one_line(self, text):
        with pytest.raises(InvalidInput) as refused:
            parse_event_line(text)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 200

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("number", 0),
            ("number", "1"),
            ("number", True),
            ("version", 0),
            ("campaign", None),
            ("who", 3),
            ("time", "99991231"),
            ("time", "2026-W47-1"),
            ("time", "2026-11-16\u202e22:22:58"),
            ("time", "2026-13-01T00:00:00.000000Z"),
            ("body", {"text": json.loads("[" * 30 + "]" * 30)}),
            ("who", "\ud800"),
            ("key", "\ud800"),
            ("body", {"text": "\ud800"}),
            ("body", {"number": float("nan")}),
            ("body", []),
            ("key", 3),
            ("hash", None),
        ],
    )
    def test_fields_of_another_kind_are_refused(self, field, value):
        fields = json.loads(render_event_line(chain()[0])) | {field: value}
        with pytest.raises(InvalidInput):
            parse_event_line(json.dumps(fields))

    def test_the_time_is_in_utc(self):
        assert utc_now().endswith("Z")
        assert len(utc_now()) == len("2026-03-01T09:30:00.000000Z")
