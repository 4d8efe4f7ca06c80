"""`heterobandits campaign new`, `list`, `export`, `import` and `verify`: where campaigns come from and go to."""

import sys
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterobandits.campaigns.audit.recovery import entry_of, find_namesake, readable_events
from heterobandits.cli.campaign.options import (
    CampaignOption,
    EndsOption,
    FileArgument,
    LevelOption,
    PolicyOption,
    PriorKindOption,
    SeasonOption,
    StatedOption,
    WhoOption,
    WordsOption,
    author_of,
    find_campaign,
    open_repository,
    parse_ends_option,
    parse_season_option,
    print_note,
    show_share,
)
from heterobandits.cli.campaign.text import (
    print_json,
    print_write_result,
)
from heterobandits.cli.exit_codes import EXIT_FAILURE
from heterobandits.cli.options import QuietOption, TableOrJson
from heterobandits.cli.terminal import print_table
from heterobandits.errors import InvalidInput, escape_text, normalize_name, repr_of

if TYPE_CHECKING:
    from heterobandits.campaigns.audit.recovery import CampaignEntry
    from heterobandits.campaigns.audit.verification import Anchor, VerifiedLog
    from heterobandits.campaigns.state import State
    from heterobandits.campaigns.storage.repository import Repository, WriteResult


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
    ends: EndsOption = None,
    words: WordsOption = None,
    prior: PriorKindOption = None,
    stated: StatedOption = None,
    last_season: Annotated[
        Path | None,
        typer.Option(
            help="Visits of a season before: a CSV file with arm, successes and tests, and the agent's sensitivity if it erred.",
            metavar="VISITS.CSV",
        ),
    ] = None,
    counts: Annotated[
        float,
        typer.Option(
            help="What a test of last season counts for: 1 as if it were made now, 0 nothing.",
            metavar="C",
        ),
    ] = 1.0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be known beforehand, and make nothing."),
    ] = False,
    who: WhoOption = None,
    format: TableOrJson = "table",
) -> None:
    """Make a campaign, in a new file or beside others.

    Example: heterobandits campaign new park.db --name "North park" --template rangers
    """
    from heterobandits.campaigns import service
    from heterobandits.campaigns.files.csv_tables import (
        heading_of_agents,
        read_team,
        read_text,
    )
    from heterobandits.campaigns.files.templates import load_template
    from heterobandits.campaigns.words import parse_words_list

    if (from_ is None) == (template is None):
        raise InvalidInput("--from or --template: one of them says who and where")
    given: dict[str, Any] = {}
    if template is not None:
        given |= load_template(template)
    elif from_ is not None:
        given["agents"], given["arms"] = read_team(*from_)
        heading = heading_of_agents(read_text(from_[0]))
        if heading:
            typer.echo(f"the first line of {from_[0]}, {heading}, is taken as a heading", err=True)
    if season is not None:
        given["season"] = parse_season_option(season)
    if ends is not None:
        given["ends"] = parse_ends_option(ends)
    if words is not None:
        given["words"] = parse_words_list(words)
    given |= {"name": name, "policy": policy, "delta": delta, "seed": seed, "prior": prior}
    given["arms"] = arms_with_priors(given["arms"], stated, last_season, counts)
    if dry_run:
        print_priors(given)
        return

    def make(log: "Repository") -> "WriteResult":
        there = find_namesake(log, name)
        if there is not None:
            raise InvalidInput(f"{file} has a {there.title} already: choose another name")
        return service.create(log, author_of(who), **given)

    done = create_in(file, make)
    if format == "table":
        print(f"{done.state.campaign} in {file}")
    print_write_result(done.state, done, format)


def arms_with_priors(
    arms: list[Any], stated: str | None, last_season: Path | None, counts: float
) -> list[Any]:
    """The arms with what last season found of them, and with what is stated of all others of which nothing is known."""
    from heterobandits.campaigns.files.csv_tables import read_last_season

    entries: list[dict[str, Any]] = [
        {"name": arm} if isinstance(arm, str) else dict(arm) for arm in arms
    ]
    before = {} if last_season is None else read_last_season(last_season, entries, counts)
    for entry in entries:
        if entry.get("prior") is None:
            entry["prior"] = before.get(entry["name"], stated)
    return entries


def print_priors(given: dict[str, Any]) -> None:
    """What would be known of every arm of a campaign before its first round, after checking all of it."""
    from heterobandits.campaigns import service
    from heterobandits.model.prior import render_shape

    body = service.body_of_creation(**given)
    rows = [
        (arm["name"], render_shape(arm["prior"]) if "prior" in arm else "nothing")
        for arm in body["arms"]
    ]
    print_table(("arm", "known beforehand"), rows)


def create_in(file: str, make: "Callable[[Repository], WriteResult]") -> "WriteResult":
    """Make something in a database; a new file is created only after a trial run succeeds."""
    from heterobandits.campaigns.storage.database import is_database_url

    if not is_database_url(file) and not Path(file).exists():
        with (
            TemporaryDirectory() as folder,
            open_repository(str(Path(folder) / "try"), create=True) as log,
        ):
            make(log)
    with open_repository(file, create=True) as log:
        return make(log)


def list_command(file: FileArgument, format: TableOrJson = "table") -> None:
    """List the campaigns of a file, with what is wrong with those that cannot be read."""
    import json

    with open_repository(file) as log:
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
                "archived": one.state and one.state.archived,
                "wrong": one.wrong,
            }
            for head, one in there
        ]))  # fmt: skip
        return
    rows = [
        (
            one.campaign,
            one.name + " (archived)" * (one.state is not None and one.state.archived),
            "?" if one.state is None else render_round_count(one.state),
            "?" if one.state is None else f"{len(one.state.waiting):,}",
            head.time[:16].replace("T", " "),
        )
        for head, one in there
    ]
    print_table(("id", "name", "rounds", "waiting", "changed (UTC)"), rows, right=(2, 3))
    for _, one in there:
        if one.wrong is not None:
            print(one.damage)


def render_round_count(state: "State") -> str:
    """The number of planned rounds, out of how many, in words."""
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
    from heterobandits.campaigns.events import render_event_line
    from heterobandits.campaigns.files.csv_tables import render_visits
    from heterobandits.output.files import explain_write_errors, write_atomic

    if visits and audit:
        raise InvalidInput("--visits and --audit: one or the other")
    with open_repository(file) as log:
        one = find_campaign(log, campaign, file)
        if visits:
            tellings = log.store.tellings(one.campaign, ("reported", "corrected"))
            text = render_visits(one.whole, tellings)
        elif audit:
            text = report.render_audit(log.store.read(one.campaign, 0, one.whole.number))
        else:
            text = "".join(
                f"{render_event_line(event)}\n" for event in readable_events(log, one.campaign)
            )
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # whatever the encoding of the terminal is
        sys.stdout.buffer.flush()
    else:
        encoding = "utf-8-sig" if visits else "utf-8"  # without a mark spreadsheets guess
        with explain_write_errors(output):
            write_atomic(output, lambda path: path.write_bytes(text.encode(encoding)))
        print_note(f"{one.name} is in {output}")
    if one.wrong is None:
        return 0
    print_note(one.damage)
    return EXIT_FAILURE


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
    from heterobandits.campaigns.exchange import import_events
    from heterobandits.campaigns.files.csv_tables import read_text
    from heterobandits.planner.plans import render_count

    text = read_text(events)
    done = create_in(
        file, lambda log: import_events(log, author_of(who), text, keep_links=keep_links)
    )
    state = done.state
    if format == "json":
        print_json(state, {"number": state.number, "hash": state.hash, "new": len(done.events)})
        return
    print(f"{state.campaign} in {file}: {state.name}")
    rounds = state.words.count(len(state.rounds), "round")
    print(f"{render_count(len(done.events), 'new event')} of {state.number:,}, {rounds}")
    last = sum(bool(row.strip()) for row in text.split("\n"))  # event of the file
    ended = sum(event.number > last and event.kind == "link revoked" for event in done.events)
    if ended:
        print(f"{render_count(ended, 'link')} of it revoked here: --keep-links would let them open")


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
    from heterobandits.campaigns.audit.verification import verify_log as check
    from heterobandits.campaigns.storage.database import StoreUnavailable

    anchor = Anchor(hash, least).checked()
    if is_html_page(file):
        return verify_audit(file, campaign, anchor, format, quiet)
    with open_repository(file) as log, show_share("verifying", quiet) as tell:
        one = find_campaign(log, campaign, file)
        try:
            whole = check(log, one.campaign, tell, anchor)
        except StoreUnavailable:  # which says nothing about the campaign
            raise
        except InvalidInput as error:
            raise InvalidInput(f"{one.title}: {escape_text(str(error))}") from None
    print_verification(one, whole, format)
    return 0


def verify_audit(
    file: str, campaign: str | None, anchor: "Anchor", format: str, quiet: bool
) -> int:
    """Check an audit, print the result, and return the exit code."""
    from heterobandits.campaigns.audit import report
    from heterobandits.campaigns.audit.verification import VerifiedLog
    from heterobandits.campaigns.files.csv_tables import read_text

    path = Path(file)
    if path.stat().st_size > report.AUDIT_MAX_BYTES:
        raise InvalidInput(
            f"{file} has over {report.AUDIT_MAX_BYTES // 1_000_000} MB: no audit is that long"
        )
    text = read_text(path)
    with show_share("verifying", quiet) as tell:
        try:
            found = report.check_audit(text, tell, anchor)
        except InvalidInput as error:
            raise InvalidInput(f"{file}: {escape_text(str(error))}") from None
    state = found.state
    if campaign is not None and normalize_name(campaign) not in (state.campaign, state.name):
        raise InvalidInput(
            f"{file} is the audit of {state.name!r} ({state.campaign}), not of {repr_of(campaign)}"
        )
    whole = VerifiedLog(state.number, len(state.rounds), state.hash, found.anchored)
    print_verification(state, whole, format, made_with=found.maker, same_page=found.same)
    if format == "table" and found.same:
        print("the page says what its events say, to the letter")
    elif format == "table":
        print(
            "THE TEXT OF THE PAGE IS NOT WHAT THIS VERSION MAKES OF ITS EVENTS: "
            f"{escape_text(found.differs or '')}. It says that {found.maker} has made it, and this is {report.audit_maker()}: do not "
            "rely on the text unless that version confirms it"
        )
    return 0 if found.same else EXIT_FAILURE


def print_verification(
    of: "State | CampaignEntry", whole: "VerifiedLog", format: str, **more: Any
) -> None:
    """Print that a campaign is intact."""
    from heterobandits.campaigns.audit.verification import VERIFICATION_CAVEAT
    from heterobandits.planner.plans import render_count

    if format == "json":
        if whole.anchored is not None:
            more["anchored"] = whole.anchored
        found = {"events": whole.events, "rounds": whole.rounds, "hash": whole.hash}
        print_json(of, found | more)
        return
    events, plans = render_count(whole.events, "event"), render_count(whole.rounds, "plan")
    print(f"{of.name} is whole: {events}, {plans} made again")
    print(f"hash {whole.hash}")
    if whole.anchored is None:
        print(VERIFICATION_CAVEAT)
    else:
        print(f"event {whole.anchored:,} has the hash given: up to it nothing has changed since")


def is_html_page(file: str) -> bool:
    """Whether a file is an HTML page, judged by its first bytes."""
    from heterobandits.campaigns.audit.report import PAGE_PREFIX

    if not Path(file).is_file():
        return False
    try:
        with Path(file).open("rb") as opened:
            first = opened.read(len(PAGE_PREFIX) + len(BOM_UTF8))
    except OSError:  # which is said where it is opened as a database
        return False
    return first.removeprefix(BOM_UTF8).lower().startswith(PAGE_PREFIX)
