"""`heterobandits campaign new`, `list`, `export`, `import` and `verify`: where campaigns come from and go to."""

import sys
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.campaigns.audit.history_text import printable
from heterobandits.campaigns.audit.recovery import entry_of, namesake, readable_events
from heterobandits.cli.campaign.options import (
    DAMAGED,
    CampaignOption,
    FileArgument,
    LevelOption,
    PolicyOption,
    SeasonOption,
    WhoOption,
    by,
    campaign_named,
    log_of,
    print_note,
    season_of,
    shown_work,
)
from heterobandits.cli.campaign.text import (
    print_done,
    print_json,
)
from heterobandits.cli.options import QuietOption, TableOrJson

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import Found
    from heterobandits.campaigns.audit.verification import Anchor, Verified
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Done, Log

NOT_COMPARED = 1  # the exit code of verify, if only the events of an audit could be checked


def new_command(
    file: FileArgument,
    name: Annotated[str, typer.Option(help="What the campaign is called.", metavar="NAME")],
    from_: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--from", help="Two CSV files: the agents, and the arms.", metavar="AGENTS.CSV ARMS.CSV"
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="Made-up agents and arms to try it with: rangers, tests or hotels.",
            metavar="TEMPLATE",
        ),
    ] = None,
    policy: PolicyOption = None,
    delta: LevelOption = None,
    seed: Annotated[int, typer.Option(help="Determines all ties and draws.", metavar="S")] = 0,
    season: SeasonOption = None,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Make a campaign, in a new file or beside others.

    Example: heterobandits campaign new park.db --name "North park" --template rangers
    """
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.csv_tables import read_team
    from heterobandits.campaigns.files.templates import example
    from heterobandits.errors import InvalidInput

    if (from_ is None) == (template is None):
        raise InvalidInput("--from or --template: one of them says who and where")
    given: dict[str, Any] = {}
    if template is not None:
        given |= example(template)
    elif from_ is not None:
        given["agents"], given["arms"] = read_team(*from_)
    if season is not None:
        given["season"] = season_of(season)
    given |= {"name": name, "policy": policy, "delta": delta, "seed": seed}

    def make(log: "Log") -> "Done":
        there = namesake(log, name)
        if there is not None:
            raise InvalidInput(f"{file} has a {there.title} already: choose another name")
        return service.create(log, by(who), **given)

    done = made_in(file, make)
    if format == "table":
        print(f"{done.state.campaign} in {file}")
    print_done(done.state, done, format)


def made_in(file: str, make: "Callable[[Log], Done]") -> "Done":
    """What is made in a database; a file that is not there yet is only begun if it will succeed."""
    from heterobandits.campaigns.storage.database import is_url

    if not is_url(file) and not Path(file).exists():
        with TemporaryDirectory() as folder, log_of(str(Path(folder) / "try"), create=True) as log:
            make(log)
    with log_of(file, create=True) as log:
        return make(log)


def list_command(file: FileArgument, format: TableOrJson = "table") -> None:
    """List the campaigns of a file, with what is wrong with those that cannot be read."""
    import json

    from heterobandits.cli.campaign.tables import print_table

    with log_of(file) as log:
        there = [(head, entry_of(log, head.campaign)) for head in log.store.heads()]
    if format == "json":
        print(json.dumps([
            {
                "campaign": one.campaign,
                "name": one.name,
                "created": head.created,
                "changed": head.time,
                "number": head.number,
                "season": one.state and one.state.season,
                "rounds": one.state and len(one.state.rounds),
                "waiting": one.state and sorted(one.state.waiting),
                "wrong": one.wrong,
            }
            for head, one in there
        ]))  # fmt: skip
        return
    rows = [
        (
            one.campaign,
            one.name,
            "?" if one.state is None else rounds_in_words(one.state),
            "?" if one.state is None else f"{len(one.state.waiting):,}",
            head.time[:16].replace("T", " "),
        )
        for head, one in there
    ]
    print_table(("id", "name", "rounds", "waiting", "changed (UTC)"), rows, right=(2, 3))
    for _, one in there:
        if one.wrong is not None:
            print(one.damage)


def rounds_in_words(state: "State") -> str:
    """How many rounds are planned, and of how many."""
    return f"{len(state.rounds):,}" + ("" if state.season is None else f" of {state.season:,}")


def export_command(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option(help="A file to write to; else stdout.", metavar="F")
    ] = None,
    visits: Annotated[
        bool, typer.Option("--visits", help="The visits as CSV, for a spreadsheet.")
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="The audit: a page for people, with all events in it.")
    ] = False,
    campaign: CampaignOption = None,
) -> int:
    """Write all events, a line of JSON for each, the visits as CSV, or the audit as a page.

    Of a damaged log all events are written that can be read; then the exit code is 1.
    """
    from heterobandits.campaigns.audit import report
    from heterobandits.campaigns.events import line
    from heterobandits.campaigns.files.csv_tables import visits_csv
    from heterobandits.errors import InvalidInput
    from heterobandits.output.files import write_aside, writing_to

    if visits and audit:
        raise InvalidInput("--visits and --audit: one or the other")
    with log_of(file) as log:
        one = campaign_named(log, campaign, file)
        if visits:
            text = visits_csv(one.whole)
        elif audit:
            text = report.audit(log.store.read(one.campaign, 0, one.whole.number))
        else:
            text = "".join(f"{line(event)}\n" for event in readable_events(log, one.campaign))
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # whatever the encoding of the terminal is
        sys.stdout.buffer.flush()
    else:
        encoding = "utf-8-sig" if visits else "utf-8"  # without a mark spreadsheets guess
        with writing_to(output):
            write_aside(output, lambda path: path.write_bytes(text.encode(encoding)))
        print_note(f"{one.name} is in {output}")
    if one.wrong is None:
        return 0
    print_note(one.damage)
    return DAMAGED


def import_command(
    file: FileArgument,
    events: Annotated[
        Path,
        typer.Argument(help="What export has written.", metavar="EVENTS", show_default=False),
    ],
    keep_links: Annotated[
        bool, typer.Option("--keep-links", help="Let the links that come along open here, too.")
    ] = False,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Take a campaign that was exported elsewhere, or what is new in it.

    Whoever wrote the file may know the tokens of its links, so they are revoked here unless they are kept.
    """
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.csv_tables import read_text
    from heterobandits.planner.plans import count_text

    text = read_text(events)
    done = made_in(
        file, lambda log: service.import_events(log, by(who), text, keep_links=keep_links)
    )
    state = done.state
    if format == "json":
        print_json(state, {"number": state.number, "hash": state.hash, "new": len(done.events)})
        return
    print(f"{state.campaign} in {file}: {state.name}")
    rounds = count_text(len(state.rounds), "round")
    print(f"{count_text(len(done.events), 'new event')} of {state.number:,}, {rounds}")
    last = sum(bool(row.strip()) for row in text.split("\n"))  # event of the file
    ended = sum(event.number > last and event.kind == "link revoked" for event in done.events)
    if ended:
        print(f"{count_text(ended, 'link')} of it revoked here: --keep-links would let them open")


def verify_command(
    file: Annotated[
        str,
        typer.Argument(
            help="Where campaigns are kept, as elsewhere; or an audit, the page that export --audit writes.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    campaign: CampaignOption = None,
    hash: Annotated[
        str | None,
        typer.Option(
            help="A hash written down earlier, or its first 12 digits: one of the events has to have it.",
            metavar="H",
        ),
    ] = None,
    least: Annotated[
        int | None, typer.Option(help="How many events there have to be at least.", metavar="N")
    ] = None,
    format: TableOrJson = "table",
    quiet: QuietOption = False,
) -> int:
    """Replay all events, check their hashes and make every plan again, bit for bit; of an audit, also that it says what its events say.

    That events were cut from the end, or all of them sealed anew, shows only in comparison with a number and a hash of earlier,
    from a sheet, an audit or a note: --least and --hash.

    If only the events of an audit could be checked, as another version has made it, the exit code is 1.
    """
    from heterobandits.campaigns.audit.verification import Anchor
    from heterobandits.campaigns.audit.verification import verify as check
    from heterobandits.campaigns.storage.database import StoreUnavailable
    from heterobandits.errors import InvalidInput

    anchor = Anchor(hash, least).checked()
    if is_page(file):
        return verify_audit(file, campaign, anchor, format, quiet)
    with log_of(file) as log, shown_work("verifying", quiet) as tell:
        one = campaign_named(log, campaign, file)
        try:
            whole = check(log, one.campaign, tell, anchor)
        except StoreUnavailable:  # which says nothing about the campaign
            raise
        except InvalidInput as error:
            raise InvalidInput(f"{one.title}: {printable(str(error))}") from None
    print_whole(one, whole, format)
    return 0


def verify_audit(
    file: str, campaign: str | None, anchor: "Anchor", format: str, quiet: bool
) -> int:
    """Check an audit, and say what was found; the exit code."""
    from heterobandits.campaigns.audit import report
    from heterobandits.campaigns.audit.verification import Verified
    from heterobandits.campaigns.files.csv_tables import read_text
    from heterobandits.errors import InvalidInput, composed, shown

    path = Path(file)
    if path.stat().st_size > report.MOST_BYTES:
        raise InvalidInput(
            f"{file} has over {report.MOST_BYTES // 1_000_000} MB: no audit is that long"
        )
    text = read_text(path)
    with shown_work("verifying", quiet) as tell:
        try:
            found = report.checked_audit(text, tell, anchor)
        except InvalidInput as error:
            raise InvalidInput(f"{file}: {printable(str(error))}") from None
    state = found.state
    if campaign is not None and composed(campaign) not in (state.campaign, state.name):
        raise InvalidInput(
            f"{file} is the audit of {state.name!r} ({state.campaign}), not of {shown(campaign)}"
        )
    whole = Verified(state.number, len(state.rounds), state.hash, found.anchored)
    print_whole(state, whole, format, made_with=found.maker, same_page=found.same)
    if format == "table" and found.same:
        print("the page says what its events say, to the letter")
    elif format == "table":
        print(
            "THE TEXT OF THE PAGE IS NOT WHAT THIS VERSION MAKES OF ITS EVENTS: "
            f"{printable(found.differs or '')}. It says that {found.maker} has made it, and this is {report.maker()}: do not "
            "rely on the text unless that version confirms it"
        )
    return 0 if found.same else NOT_COMPARED


def print_whole(of: "State | Found", whole: "Verified", format: str, **more: Any) -> None:
    """That a campaign is whole."""
    from heterobandits.campaigns.audit.verification import NOT_SAID
    from heterobandits.planner.plans import count_text

    if format == "json":
        if whole.anchored is not None:
            more["anchored"] = whole.anchored
        found = {"events": whole.events, "rounds": whole.rounds, "hash": whole.hash}
        print_json(of, found | more)
        return
    events, plans = count_text(whole.events, "event"), count_text(whole.rounds, "plan")
    print(f"{of.name} is whole: {events}, {plans} made again")
    print(f"hash {whole.hash}")
    if whole.anchored is None:
        print(NOT_SAID)
    else:
        print(f"event {whole.anchored:,} has the hash given: up to it nothing has changed since")


def is_page(file: str) -> bool:
    """Whether a file is an HTML page, by its first bytes."""
    from heterobandits.campaigns.audit.report import BEGINS

    if not Path(file).is_file():
        return False
    try:
        with Path(file).open("rb") as opened:
            first = opened.read(len(BEGINS) + len(BOM_UTF8))
    except OSError:  # which is said where it is opened as a database
        return False
    return first.removeprefix(BOM_UTF8).lower().startswith(BEGINS)
