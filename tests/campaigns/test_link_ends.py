"""Until when links hold: a day, by the day on which the season ends."""

from datetime import UTC, date, datetime, timedelta

import pytest

from heterobandits.campaigns import service
from heterobandits.campaigns.link_ends import default_last_day, parse_last_day
from heterobandits.campaigns.reducer import fold_events
from heterobandits.campaigns.storage import snapshots
from heterobandits.errors import InvalidInput
from parks import VERA, opened, park


@pytest.fixture
def log(tmp_path):
    made = opened(tmp_path)
    yield made
    made.store.close()


def today():
    return datetime.now(UTC).date()


class TestSeasonsEnd:
    def test_a_campaign_without_it_is_written_as_before(self, log):
        campaign = park(log, season=26)
        assert "ends" not in log.store.read(campaign)[0].body
        service.set_season(log, campaign, VERA, 30)
        assert log.store.read(campaign)[1].body == {"season": 30}
        assert log.state(campaign).ends is None

    def test_it_is_said_changed_kept_and_taken_back(self, log):
        campaign = park(log, season=26, ends="2031-06-30")
        assert log.state(campaign).ends == "2031-06-30"
        service.set_season(log, campaign, VERA, 27)
        assert log.state(campaign).ends == "2031-06-30"
        service.set_season(log, campaign, VERA, 27, "2031-07-07")
        state = log.state(campaign)
        assert (state.season, state.ends) == (27, "2031-07-07")
        assert snapshots.unpack_state(snapshots.pack_state(state)).ends == "2031-07-07"
        assert fold_events(log.store.read(campaign)).ends == "2031-07-07"
        service.set_season(log, campaign, VERA, 27, None)
        assert log.state(campaign).ends is None

    @pytest.mark.parametrize("day", ["soon", "2031-02-29", 20310101, "2031-6-30", "2031-06-30T00"])
    def test_what_is_no_day(self, log, day):
        with pytest.raises(InvalidInput, match=r"ends is .*: a day, such as 2030-12-31"):
            park(log, ends=day)


class TestDefault:
    def test_a_month_after_the_season(self, log):
        state = log.state(park(log, season=26, ends="2999-12-05"))
        assert default_last_day(state) == "3000-01-05"

    def test_a_month_from_now_if_the_season_is_over(self, log):
        state = log.state(park(log, ends="2020-01-31"))
        left = date.fromisoformat(default_last_day(state)) - today()
        assert timedelta(28) <= left <= timedelta(31)

    def test_a_year_if_nobody_knows_however_many_rounds_there_are(self, log):
        for season in (None, 26, 100_000):
            state = log.state(park(log, season=season, name=f"park {season}"))
            left = date.fromisoformat(default_last_day(state)) - today()
            assert timedelta(364) <= left <= timedelta(366)


class TestLastDay:
    def test_it_holds_to_the_end_of_that_day(self):
        assert parse_last_day(" 2999-12-31 ") == "2999-12-31T23:59:59.000000Z"
        assert parse_last_day(today().isoformat()).startswith(today().isoformat())

    def test_blank_is_for_ever(self):
        assert parse_last_day("") is None
        assert parse_last_day("  ") is None

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("30", "is not a day"),
            ("2999-02-30", "is not a day"),
            ("31.12.2999", "is not a day"),
            ("2020-01-01", "is over"),
        ],
    )
    def test_anything_else_is_refused(self, text, said):
        with pytest.raises(InvalidInput, match=said):
            parse_last_day(text)
