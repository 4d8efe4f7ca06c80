"""A campaign leaves as a file of events, and comes in from one."""

from heterobandits.campaigns.events import (
    Draft,
    Event,
    OnShare,
    announce_progress,
    check_chain,
    is_far_ahead,
    parse_event_line,
    render_event_line,
)
from heterobandits.campaigns.reducer import LinkEnded, fold_events
from heterobandits.campaigns.service import history
from heterobandits.campaigns.storage.repository import (
    CREATION_KEY_SCOPE,
    Author,
    Repository,
    WriteResult,
    seal_drafts,
)
from heterobandits.campaigns.validation import parse_display_name, parse_plain_text
from heterobandits.errors import InvalidInput, repr_of


def export_events(log: Repository, campaign: str) -> str:
    """All events, a line of JSON for each."""
    return "".join(f"{render_event_line(event)}\n" for event in history(log, campaign))


def import_events(
    log: Repository,
    request: Author,
    text: str,
    *,
    keep_links: bool = False,
    tell: OnShare = lambda share: None,
) -> WriteResult:
    """The campaign that was exported, with the same events and hashes; what is there already goes on from where it stands.

    Whoever wrote the file may have sealed it anew, and knows the tokens of its links. So if any of the new events was by a
    link, the log says that they were imported; and links that are new here are revoked, unless they are to be kept. It tells
    how far the looking is, which may end it; once it writes, it writes all.
    """
    again = log.repeated(CREATION_KEY_SCOPE, request)
    if again is not None:
        return again
    given = [row for row in text.removeprefix("\ufeff").split("\n") if row.strip()]
    rows = [parse_event_line(row) for row in announce_progress(given, tell, 0.0, 0.3)]
    events = list(check_chain(announce_progress(rows, tell, 0.3, 0.6)))
    if not events:
        raise InvalidInput("nothing to import: a file of events, a line of JSON for each")
    for who in {event.who for event in events}:
        parse_display_name(who, "who")
    for event in events:
        if event.key is not None:
            parse_plain_text(event.key, "key")
        if is_far_ahead(event.time):
            raise InvalidInput(
                f"event {event.number} is of {event.time}, more than a day ahead: the clock it was taken from was wrong, "
                "or this machine's is"
            )
    campaign = events[0].campaign
    there = log.store.read(campaign)
    if not there:
        new = events_after_import(events, 0, request, keep_links, tell)
        return log.begin_with(events + new, request)
    if [event.hash for event in events[: len(there)]] != [
        event.hash for event in there[: len(events)]
    ]:
        raise InvalidInput(
            f"there is a campaign {repr_of(campaign)} with another history: they part after event "
            f"{count_common_events(events, there)}"
        )
    if len(events) > len(there):
        new = events[len(there) :]
        new += events_after_import(events, len(there), request, keep_links, tell)
        log.append(new, CREATION_KEY_SCOPE, request)
        return WriteResult(log.state(campaign), new)
    log.check_owner(request)
    return WriteResult(log.state(campaign), [])


def events_after_import(
    events: list[Event], known: int, request: Author, keep: bool, tell: OnShare
) -> list[Event]:
    """What follows on events from elsewhere, which are checked here.

    If any after event `known` was by a link, they are said to be imported; the links among them are revoked, unless they are kept.
    """
    try:
        state = fold_events(announce_progress(events, tell, 0.6, 1.0))
    except LinkEnded as error:  # which is no fault of the link that imports
        raise InvalidInput(
            f"an event of the file is by a link that did not hold: {error}"
        ) from None
    came = [] if keep else [one for one in state.links.values() if one.event > known]
    drafts = [Draft("link revoked", {"link": one.id}) for one in came if not one.revoked]
    if any(event.link is not None for event in events[known:]):
        drafts.insert(0, Draft("imported", {"first": known + 1, "last": len(events)}))
    return seal_drafts(drafts, state, request)


def count_common_events(one: list[Event], other: list[Event]) -> int:
    """The number of events, from the first on, that two histories share."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a.hash != b.hash:
            break
        same += 1
    return same
