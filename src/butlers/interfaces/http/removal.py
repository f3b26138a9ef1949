"""What would go with a butler that is removed; removing it is for a home that is down.

A process that serves a butler has agents, jobs and sessions at it, some without a token, whose
database cannot be taken from under them and given back where it turns out to be in use.
"""

import shlex
from typing import Any

from fastapi import APIRouter

from butlers.host.removal import belongings
from butlers.interfaces.http.butler_access import ButlerAccess, Seated
from butlers.operation import Output

router = APIRouter(tags=["data"])


class GivenTo(Output):
    """An agent that was given the butler, whose own files are its user's to change."""

    client: str
    project: str
    """Where; "" for all that its user does."""


class RemovalPreview(Output):
    """What would go with a butler, and what removes it."""

    memories: dict[str, int]
    files: list[str]
    schedule: list[str]
    tokens: list[str]
    """The ids of its tokens."""
    sessions: int
    """How many wait to be stored."""
    connections: list[GivenTo]
    commands: list[str]
    """What removes it, typed where the home is: it must be down, and is backed up before."""


@router.get("/removal", response_model=RemovalPreview)
async def preview_removal(seat: Seated) -> Any:
    """What would go with the butler if it were removed, and the commands that remove it.

    Nothing is changed. It concerns whoever has memories there, so that only its owner may ask.
    """
    seat.must_run_jobs("a butler is removed with what every tenant has; its own tenant may ask")
    had = await belongings(seat.butler.home, seat.butler.name)
    return {
        "memories": had.memories,
        "files": had.files,
        "schedule": had.schedule,
        "tokens": [one.id for one in had.tokens],
        "sessions": len(had.sessions),
        "connections": [{"client": one.client, "project": one.project} for one in had.connections],
        "commands": _commands(seat),
    }


def _commands(seat: ButlerAccess) -> list[str]:
    home = ["--home", str(seat.butler.home.root)]
    typed = (["stop"], ["remove", seat.butler.name], ["up"])
    return [shlex.join(["butlers", *words, *home]) for words in typed]
