"""The key of links: made once, kept beside the database, and without it nothing is lost but printing a link again."""

import os
import subprocess
import sys

import pytest

from heterobandits.campaigns.exchange import export_events
from heterobandits.campaigns.links import (
    find_token,
    hash_of_token,
    issue_link,
    living_links,
    revoke_link,
)
from heterobandits.campaigns.storage import maintenance
from heterobandits.campaigns.storage.link_keys import LINK_KEY_VARIABLE, LinkKeys
from heterobandits.campaigns.storage.repository import Repository
from heterobandits.campaigns.storage.store import Store
from heterobandits.errors import InvalidInput
from parks import VERA, opened, park

SETTLE = """
import sys
from heterobandits.campaigns.storage.link_keys import LinkKeys
keys = LinkKeys.beside(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(keys.settle().decode())
"""


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv(LINK_KEY_VARIABLE, raising=False)


@pytest.fixture
def log(tmp_path):
    made = opened(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def link(log):
    """The id of a campaign, the id of a reporter's link of it, and its token."""
    campaign = park(log)
    done, token = issue_link(log, campaign, VERA, role="reporter", name="Ana", agent="Ana")
    return campaign, done.events[0].body["link"], token


def again(log, campaign, link):
    state = log.state(campaign)
    return find_token(log, state, state.links[link])


class TestFile:
    def test_it_is_made_with_the_first_link_and_for_its_owner_alone(self, log, tmp_path):
        campaign = park(log)
        path = tmp_path / "campaigns.db.key"
        issue_link(log, campaign, VERA, role="planner", name="Pia")
        assert not path.exists()  # a planner's link is made with no key
        issue_link(log, campaign, VERA, role="viewer", name="the wall")
        assert path.stat().st_mode & 0o777 == 0o600
        text = path.read_text()
        issue_link(log, campaign, VERA, role="viewer", name="another wall")
        assert path.read_text() == text
        assert sorted(one.name for one in tmp_path.glob("*.key*")) == [path.name]

    def test_of_many_processes_one_makes_it(self, tmp_path):
        database = tmp_path / "campaigns.db"
        several = [
            subprocess.Popen(
                [sys.executable, "-c", SETTLE, str(database)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        for one in several:
            assert one.stdout.readline() == "ready\n"
        for one in several:
            one.stdin.write("\n")
            one.stdin.flush()
        keys = {one.communicate(timeout=60)[0] for one in several}
        assert len(keys) == 1
        assert len(keys.pop().strip()) == 43  # 32 bytes in base 64
        assert [one.name for one in tmp_path.iterdir()] == ["campaigns.db.key"]

    def test_a_symbolic_link_to_a_database_has_the_key_of_the_database(self, tmp_path):
        real = tmp_path / "real.db"
        Store(real).close()
        (tmp_path / "other.db").symlink_to(real)
        assert LinkKeys.beside(tmp_path / "other.db").path == tmp_path / "real.db.key"

    def test_whoever_else_may_read_it_is_warned_of(self, log, link, tmp_path):
        path = tmp_path / "campaigns.db.key"
        assert log.store.link_keys.warning is None
        path.chmod(0o640)
        assert "chmod 600" in log.store.link_keys.warning
        findings = list(maintenance.check_database(tmp_path / "campaigns.db"))
        assert [one.what for one in findings if not one.fine] == ["key of links"]

    def test_it_is_in_no_backup(self, log, link, tmp_path):
        copy = maintenance.backup_database(tmp_path / "campaigns.db", tmp_path / "copy.db")
        assert not (tmp_path / "copy.db.key").exists()
        assert log.store.link_keys.find() not in copy.read_bytes()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_where_it_cannot_be_kept_a_link_is_made_all_the_same(self, log, tmp_path):
        campaign = park(log)
        tmp_path.chmod(0o500)
        try:
            done, token = issue_link(log, campaign, VERA, role="viewer", name="wall")
        finally:
            tmp_path.chmod(0o700)
        assert again(log, campaign, done.events[0].body["link"]) is None
        assert hash_of_token(token) == done.events[0].body["token_hash"]


class TestAgain:
    """A link can be shown again exactly as long as the key is there that it was made with."""

    def test_with_the_key(self, log, link, tmp_path):
        campaign, key, token = link
        assert again(log, campaign, key) == token
        with Store(tmp_path / "campaigns.db") as store:  # another process, say
            assert again(Repository(store), campaign, key) == token
        assert token.rpartition("_")[2] not in export_events(log, campaign)

    def test_without_it_or_with_another(self, log, link, tmp_path):
        campaign, key, token = link
        path = tmp_path / "campaigns.db.key"
        kept = path.read_text()
        path.unlink()
        assert again(log, campaign, key) is None
        assert log.state(campaign).links[key].token_hash == hash_of_token(token)
        done, other = issue_link(log, campaign, VERA, role="viewer", name="wall")
        assert path.read_text() != kept
        assert again(log, campaign, key) is None
        assert again(log, campaign, done.events[0].body["link"]) == other
        path.write_text(kept)
        assert again(log, campaign, key) == token
        path.write_text("half")
        assert again(log, campaign, key) is None
        assert log.store.link_keys.settle() is None  # what is there is not written over
        assert "not whole" in log.store.link_keys.lack

    def test_the_variable_counts_before_the_file(self, log, link, tmp_path, monkeypatch):
        campaign, key, token = link
        monkeypatch.setenv(LINK_KEY_VARIABLE, "k" * 32)
        assert again(log, campaign, key) is None
        monkeypatch.setenv(LINK_KEY_VARIABLE, (tmp_path / "campaigns.db.key").read_text())
        assert again(log, campaign, key) == token
        monkeypatch.setenv(LINK_KEY_VARIABLE, "short")
        with pytest.raises(InvalidInput, match=f"{LINK_KEY_VARIABLE} has 5 letters: at least 32"):
            again(log, campaign, key)

    @pytest.mark.parametrize("role", ["owner", "planner"])
    def test_never_of_who_may_write_everything(self, log, role):
        campaign = park(log)
        issue_link(log, campaign, VERA, role="viewer", name="wall")  # so that there is one
        done, _ = issue_link(log, campaign, VERA, role=role, name="Olga")
        link = done.events[0].body["link"]
        assert again(log, campaign, link) is None

    def test_a_database_that_is_no_file_has_the_variable_alone(self, monkeypatch):
        keys = LinkKeys.beside("postgresql://hb@127.0.0.1/park")
        assert keys.settle() is None
        assert LINK_KEY_VARIABLE in keys.lack
        monkeypatch.setenv(LINK_KEY_VARIABLE, "k" * 40)
        assert keys.settle() == b"k" * 40
        assert keys.lack is None


class TestLivingLinks:
    def issue(self, log, campaign, expires, agent="Ana", role="reporter"):
        done, token = issue_link(
            log, campaign, VERA, role=role, name=agent or "all", agent=agent, expires=expires
        )
        return done.events[0].body["link"], token

    def test_the_one_that_holds_longest_and_then_the_newest(self, log):
        campaign = park(log)
        self.issue(log, campaign, "2990-01-01T00:00:00Z")
        last, token = self.issue(log, campaign, "2999-01-01T00:00:00Z")
        self.issue(log, campaign, "2995-01-01T00:00:00Z")
        self.issue(log, campaign, None, agent=None)
        ((agent, (link, found)),) = living_links(log, log.state(campaign)).items()
        assert (agent, link.id, found) == (0, last, token)
        self.issue(log, campaign, None)
        newest, _ = self.issue(log, campaign, None)
        assert living_links(log, log.state(campaign))[0][0].id == newest
        revoke_link(log, campaign, VERA, newest)
        assert living_links(log, log.state(campaign))[0][0].expires is None
        self.issue(log, campaign, None, agent="Ben")
        assert set(living_links(log, log.state(campaign))) == {0, 1}
