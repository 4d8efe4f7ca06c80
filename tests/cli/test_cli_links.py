"""`heterobandits campaign link`, `links` and `revoke`, and the day on which a season ends."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from heterobandits.campaigns.links import hash_of_token
from heterobandits.campaigns.storage.link_keys import LINK_KEY_VARIABLE
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import Store
from parks import opened, park

TOKEN = re.compile(r"hb_[0-9a-f]{12}_[0-9a-f]{12}_[\w-]{43}")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv(LINK_KEY_VARIABLE, raising=False)
    log = opened(tmp_path)
    park(log)
    log.store.close()
    return tmp_path / "campaigns.db"


def state_of(file):
    with Store(file) as store:
        log = Repository(store)
        (head,) = store.heads()
        return log.state(head.campaign)


def test_a_link_is_made_listed_shown_again_and_revoked(called, file):
    code, out, err = called(
        "campaign", "link", file, "Ana's phone", "--agent", "Ana", "--until", "2999-12-31"
    )
    assert (code, err) == (0, "")
    token = TOKEN.search(out)[0]
    (link,) = state_of(file).links.values()
    assert (link.role, link.agent, link.expires) == ("reporter", 0, "2999-12-31T23:59:59.000000Z")
    assert link.token_hash == hash_of_token(token)
    code, out, _ = called("campaign", "links", file)
    assert code == 0
    for text in (link.id, "Ana's phone", "reporter of Ana", link.made[:10], "never", "2999-12-31"):
        assert text in out
    assert token not in out
    assert TOKEN.search(called("campaign", "links", file, "--show", link.id)[1])[0] == token
    code, out, _ = called("campaign", "revoke", file, link.id)
    assert code == 0
    assert out == f"revoked the link {link.id} of Ana's phone\n"
    assert "revoked" in called("campaign", "links", file)[1]
    code, _, err = called("campaign", "links", file, "--show", link.id)
    assert code == 2
    assert "cannot be shown again" in err


def test_until_when_if_nobody_says(called, file):
    year = (datetime.now(UTC) + timedelta(365)).date()
    for more, day in (([], year), (["--until", "none"], None), (["--until", ""], None)):
        code, out, _ = called(
            "campaign", "link", file, "Ana", "--agent", "Ana", "--format", "json", *more
        )
        assert code == 0
        expires = json.loads(out)["link"]["expires"]
        if day is None:
            assert expires is None
        else:
            assert abs(datetime.fromisoformat(expires).date() - day) <= timedelta(1)
    assert called("campaign", "set", file, "--ends", "2999-12-05")[0] == 0
    _, out, _ = called("campaign", "link", file, "Ana", "--agent", "Ana", "--format", "json")
    assert json.loads(out)["link"]["expires"].startswith("3000-01-05")
    code, _, err = called("campaign", "link", file, "Ana", "--agent", "Ana", "--until", "30")
    assert code == 2
    assert "is not a day" in err


def test_a_planners_link_is_shown_once(called, file):
    code, _, err = called("campaign", "link", file, "Pia", "--role", "planner")
    assert code == 0
    assert "shown this once" in err
    (link,) = state_of(file).links
    assert called("campaign", "links", file, "--show", link)[0] == 2
    assert called("campaign", "links", file, "--show", "0123456789ab")[0] == 2
    assert called("campaign", "revoke", file, "0123456789ab")[0] == 2


def test_the_day_on_which_a_season_ends(called, file, tmp_path):
    code, _, _ = called(
        "campaign", "new", tmp_path / "new.db", "--name", "South", "--template", "rangers", "--ends", "2031-06-30"
    )  # fmt: skip
    assert code == 0
    assert state_of(tmp_path / "new.db").ends == "2031-06-30"
    code, out, _ = called("campaign", "set", file, "--season", "26", "--ends", "2031-06-30")
    assert code == 0
    assert out == "changed the season to one of 26 rounds, until 2031-06-30\n"
    assert called("campaign", "set", file, "--ends", "none")[0] == 0
    state = state_of(file)
    assert (state.season, state.ends) == (26, None)
    code, _, err = called("campaign", "set", file, "--ends", "soon")
    assert code == 2
    assert "a day, such as 2030-12-31" in err
