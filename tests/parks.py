"""What tests of campaigns share: a park with three rangers, and a log in a file."""

from heterobandits.campaigns import service
from heterobandits.campaigns.storage.repository import Author, Repository
from heterobandits.campaigns.storage.store import Store

VERA = Author("Vera")
AGENTS = [
    {"name": "Ana", "sensitivity": 0.9},
    {"name": "Ben", "sensitivity": 0.6, "false_positive_rate": 0.05},
    {"name": "Chi", "calibration": [17, 20], "tests": 12},
]
ARMS = ["river", "hill", "gate", "lake", "ford"]


class Watched(Store):
    """A store that counts the events that are read from it."""

    counted = 0

    def read(self, *given):
        found = super().read(*given)
        self.counted += len(found)
        return found

    def news(self, *given):
        found = super().news(*given)
        self.counted += len(found or ())
        return found

    def latest(self, *given):
        found = super().latest(*given)
        self.counted += sum(len(events) for _, events in found)
        return found


def opened(folder, name="campaigns.db"):
    return Repository(Store(folder / name))


def park(log, **changes):
    """The id of a new campaign."""
    given = {"name": "North park", "agents": AGENTS, "arms": ARMS, "seed": 3} | changes
    return service.create(log, VERA, **given).state.campaign
