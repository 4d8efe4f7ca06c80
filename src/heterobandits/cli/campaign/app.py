"""`heterobandits campaign`: live problems with a history, in a file or a database, without a server."""

from collections.abc import Callable

import typer

from heterobandits.cli.campaign.files import export, import_events, list_campaigns, new, verify
from heterobandits.cli.campaign.options import installed
from heterobandits.cli.campaign.rounds import (
    add_note,
    close,
    correct,
    override,
    plan,
    report,
    withdraw,
)
from heterobandits.cli.campaign.team import add, bring_back, change, rename, retire, revise
from heterobandits.cli.campaign.views import explain, history, project, shadow, status

app = typer.Typer(
    help="Run a campaign: plan rounds, report what came of them, and see what is known.",
)
COMMANDS: dict[str, Callable[..., int | None]] = {
    "new": new,
    "plan": plan,
    "report": report,
    "status": status,
    "explain": explain,
    "correct": correct,
    "withdraw": withdraw,
    "override": override,
    "close": close,
    "note": add_note,
    "history": history,
    "add": add,
    "retire": retire,
    "return": bring_back,
    "rename": rename,
    "revise": revise,
    "set": change,
    "shadow": shadow,
    "project": project,
    "export": export,
    "import": import_events,
    "verify": verify,
    "list": list_campaigns,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.callback()(installed)
