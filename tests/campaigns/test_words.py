"""What a campaign calls its agents, arms, rounds and tests: chosen once, kept in the log, and changed by its owner."""

import pytest

from heterobandits.campaigns import serialization, service
from heterobandits.campaigns.audit.history_text import EventNarrator
from heterobandits.campaigns.events import Draft
from heterobandits.campaigns.files.templates import load_template, template_files
from heterobandits.campaigns.reducer import fold_events, state_after_drafts
from heterobandits.campaigns.storage import snapshots
from heterobandits.campaigns.validation import InvalidFields
from heterobandits.campaigns.words import parse_words, parse_words_list, render_word
from heterobandits.errors import InvalidInput
from heterobandits.planner.vocabulary import DEFAULT_WORDS
from parks import VERA, opened, park

PARK_WORDS = {"agent": "ranger", "arm": "area", "round": "week", "test": "check"}
IRREGULAR = {"agent": "person", "agents": "people"}


@pytest.fixture
def log(tmp_path):
    made = opened(tmp_path)
    yield made
    made.store.close()


class TestParse:
    def test_plurals_are_regular_unless_they_are_said(self):
        words = parse_words({"agent": "PCR team", "arm": "city", "round": "sortie", "test": "box"})
        assert (words.agents, words.arms, words.rounds, words.tests) == (
            "PCR teams",
            "cities",
            "sorties",
            "boxes",
        )
        assert parse_words(IRREGULAR).agents == "people"
        assert (words.Agents, words.Arm) == ("PCR teams", "City")

    def test_one_form_may_be_both(self):
        assert parse_words_list("fish/fish,area,week,check").agents == "fish"

    @pytest.mark.parametrize("given", ["", " ", "week 2", "<b>", "a--b", "x" * 31, 7])
    def test_no_word(self, given):
        for kind in ("agent", "agents"):
            with pytest.raises(InvalidInput, match="a word of 1 to 30 letters"):
                parse_words({kind: given})

    @pytest.mark.parametrize(
        "given",
        [
            {"agent": "week", "round": "week"},
            {"agent": "Round"},
            {"test": "x", "tests": "Arms"},
            {"where": "area"},
        ],
    )
    def test_words_that_nobody_could_tell_apart(self, given):
        with pytest.raises(InvalidFields):
            parse_words(given)

    def test_four_words_in_a_line(self):
        assert parse_words_list(" ranger, area ,week,check") == parse_words(PARK_WORDS)
        assert parse_words_list("person/people,,week,").arm == "arm"
        with pytest.raises(InvalidInput, match="four words"):
            parse_words_list("ranger,area")

    def test_what_is_typed_is_shown_again(self):
        words = parse_words(IRREGULAR)
        assert render_word(words, "agent") == "person/people"
        assert render_word(words, "arm") == "arm"

    def test_articles_and_counts(self):
        words = parse_words(PARK_WORDS)
        assert (words.an_agent, words.an_arm) == ("a ranger", "an area")
        assert [words.count(n, "round") for n in (0, 1, 2)] == ["0 weeks", "1 week", "2 weeks"]

    @pytest.mark.parametrize("template", sorted(template_files()))
    def test_templates_suggest_words(self, template):
        assert parse_words(load_template(template)["words"]) != DEFAULT_WORDS


class TestEvents:
    def test_a_campaign_without_them_is_written_as_before(self, log):
        for given in ({}, {"words": {}}, {"words": DEFAULT_WORDS.body}):
            campaign = park(log, name=f"Park {len(given)} {given}", **given)
            assert "words" not in log.store.read(campaign)[0].body
            assert log.state(campaign).words == DEFAULT_WORDS

    def test_they_are_said_changed_kept_and_undone(self, log):
        campaign = park(log, words=PARK_WORDS)
        assert log.store.read(campaign)[0].body["words"] == parse_words(PARK_WORDS).body
        service.choose_words(log, campaign, VERA, PARK_WORDS | IRREGULAR)
        state = log.state(campaign)
        assert state.words == parse_words(PARK_WORDS | IRREGULAR)
        assert serialization.campaign(state)["words"]["agents"] == "people"
        assert snapshots.unpack_state(snapshots.pack_state(state)).words == state.words
        assert fold_events(log.store.read(campaign)).words == state.words
        assert not service.choose_words(log, campaign, VERA, state.words).events
        service.undo(log, campaign, VERA, state.number)
        assert log.state(campaign).words == parse_words(PARK_WORDS)

    def test_the_history_says_them(self, log):
        campaign = park(log)
        service.choose_words(log, campaign, VERA, PARK_WORDS)
        narrator = EventNarrator()
        *_, text = map(narrator.tell, log.store.read(campaign))
        assert text == "chose the words ranger, area, week and check"

    @pytest.mark.parametrize(
        "words",
        [
            {},
            PARK_WORDS,
            "week",
            DEFAULT_WORDS.body | {"agent": "9"},
            DEFAULT_WORDS.body | {"agent": "round"},
        ],
    )
    def test_an_event_that_no_version_wrote(self, log, words):
        campaign = park(log)
        with pytest.raises(InvalidInput):
            state_after_drafts(log.state(campaign), [Draft("words chosen", {"words": words})])
