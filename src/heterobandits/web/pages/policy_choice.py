"""Which policies a form offers: those that are recommended first, each with what it is for, and the others for researchers."""

from collections.abc import Iterable

from heterobandits.policies.catalogue import RECOMMENDED_PURPOSES
from heterobandits.policies.policy import CATALOGUE
from heterobandits.web.pages.base import select_options

OptionGroup = tuple[str, list[tuple[str, str, bool]]]  # its heading, and its options


def policy_groups(value: str, names: Iterable[str], own: str = "") -> list[OptionGroup]:
    """The options of a field for one of these policies; `own` is marked as that of the campaign."""
    known = list(names)
    offered = [name for name in RECOMMENDED_PURPOSES if name in known]
    others = [name for name in known if name not in offered]

    def text(name: str) -> str:
        purpose = RECOMMENDED_PURPOSES.get(name)
        title = CATALOGUE[name].title if purpose is None else f"{CATALOGUE[name].title}: {purpose}"
        return f"{title} (of this campaign)" if name == own else title

    groups = (("Recommended", offered), ("For researchers", others))
    return [
        (heading, select_options([(name, text(name)) for name in some], value))
        for heading, some in groups
        if some
    ]


def plannable_policies() -> list[str]:
    """Those that a campaign can be planned with."""
    return [name for name, entry in CATALOGUE.items() if not entry.simulated_only]
