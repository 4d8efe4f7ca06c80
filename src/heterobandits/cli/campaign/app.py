"""`heterobandits campaign`: live problems with a history, in a file or a database, without a server."""

from collections.abc import Callable

import typer

from heterobandits.cli.campaign.files import (
    export_command,
    import_command,
    list_command,
    new_command,
    verify_command,
)
from heterobandits.cli.campaign.links import link_command, links_command, revoke_command
from heterobandits.cli.campaign.options import check_extra
from heterobandits.cli.campaign.rounds import (
    cancel_command,
    close_command,
    correct_command,
    note_command,
    override_command,
    plan_command,
    report_command,
    undo_command,
    withdraw_command,
)
from heterobandits.cli.campaign.team import (
    add_command,
    archive_command,
    believe_command,
    bring_back_command,
    forget_command,
    remember_command,
    rename_command,
    retire_command,
    revise_command,
    set_command,
    unarchive_command,
)
from heterobandits.cli.campaign.views import (
    agents_command,
    explain_command,
    history_command,
    project_command,
    shadow_command,
    status_command,
)

app = typer.Typer(
    help="Run a campaign: plan rounds, report what came of them, and see what is known.",
)
CAMPAIGN_COMMANDS: dict[str, Callable[..., int | None]] = {
    "new": new_command,
    "plan": plan_command,
    "report": report_command,
    "status": status_command,
    "explain": explain_command,
    "correct": correct_command,
    "withdraw": withdraw_command,
    "override": override_command,
    "close": close_command,
    "cancel": cancel_command,
    "undo": undo_command,
    "note": note_command,
    "history": history_command,
    "add": add_command,
    "retire": retire_command,
    "return": bring_back_command,
    "forget": forget_command,
    "remember": remember_command,
    "rename": rename_command,
    "revise": revise_command,
    "believe": believe_command,
    "set": set_command,
    "archive": archive_command,
    "unarchive": unarchive_command,
    "link": link_command,
    "links": links_command,
    "revoke": revoke_command,
    "agents": agents_command,
    "shadow": shadow_command,
    "project": project_command,
    "export": export_command,
    "import": import_command,
    "verify": verify_command,
    "list": list_command,
}
for name, command in CAMPAIGN_COMMANDS.items():
    app.command(name)(command)
app.callback()(check_extra)
