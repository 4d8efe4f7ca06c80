"""The service under load, on a real server: killed, without a disk, without its database for a while. Nothing told is lost.

The long versions are in benchmarks/campaign_load.py; their figures stand in docs/campaigns.md.
"""

import resource
from pathlib import Path

import pytest

from crowds import Crowd, Server, lost

pytestmark = pytest.mark.server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "load.db")
    return request.getfixturevalue("postgres").fresh()


@pytest.fixture
def server(database):
    server = Server(database)
    yield server
    if server.process.poll() is None:
        server.stop()


@pytest.fixture
def crowd(server):
    return Crowd(server, campaigns=5)


def told(crowd):
    return len(crowd.rounds) + len(crowd.outcomes)


class TestHolding:
    """What was acknowledged is there, whatever happened."""

    @pytest.mark.nightly
    def test_under_load_there_are_only_honest_conflicts(self, server, crowd):
        crowd.run(planners=2, reporters=6, seconds=3)
        assert crowd.unexpected == []
        assert len(crowd.rounds) > 5
        assert len(crowd.outcomes) > 20
        assert server.stop() == 0
        assert lost(crowd, server.database) == []

    @pytest.mark.slow
    def test_killed_at_any_moment_it_goes_on(self, server, crowd):
        for seconds in (0.6, 1.8):
            before = told(crowd)
            crowd.run(planners=2, reporters=6, seconds=seconds, end=server.kill)
            assert lost(crowd, server.database) == []
            server.start()
            assert told(crowd) > before
        crowd.run(planners=1, reporters=2, seconds=0.5)
        assert crowd.unexpected == []
        assert lost(crowd, server.database) == []


class TestPostgres:
    """A server of its own that goes and comes back."""

    @pytest.fixture
    def database(self, postgres):
        return postgres.fresh()

    @pytest.mark.nightly
    def test_restarted_in_the_middle_nothing_is_lost(self, server, crowd, postgres):
        crowd.run(planners=2, reporters=6, seconds=1, end=postgres.restart)
        before = told(crowd)
        crowd.run(planners=2, reporters=6, seconds=1)
        assert told(crowd) > before
        assert {status for _, status, _ in crowd.unexpected} <= {503}
        assert lost(crowd, server.database) == []


class TestDisk:
    """A disk that is full for a while."""

    @pytest.fixture
    def database(self, tmp_path):
        return str(tmp_path / "load.db")

    @pytest.mark.slow
    def test_it_says_so_and_goes_on_when_there_is_room_again(self, server, crowd):
        crowd.run(planners=1, reporters=3, seconds=0.5)
        assert crowd.unexpected == []
        wal = Path(f"{server.database}-wal")
        _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (wal.stat().st_size, most))
        crowd.run(planners=1, reporters=3, seconds=1.5)
        assert {status for _, status, _ in crowd.unexpected} == {503}
        assert "disk" in crowd.unexpected[0][2]["detail"]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
        crowd.unexpected.clear()
        before = told(crowd)
        crowd.run(planners=1, reporters=3, seconds=0.5)
        assert crowd.unexpected == []
        assert told(crowd) > before
        assert lost(crowd, server.database) == []
