"""Projects: what sessions work in, and who is told what each remembers."""

from typing import Annotated, Any

from pydantic import Field

from butlers.memory.flows import projects as flow
from butlers.memory.operations import fields
from butlers.memory.operations.context import OperationContext
from butlers.memory.operations.results import Instant
from butlers.memory.operations.table import OPERATIONS
from butlers.operation import Input, OperationEffect, Output, Route

_OWN = {"mcp": "whose memories a session is told is for a person to decide"}
Which = Annotated[
    fields.Name, Field(description="Its id, at least the first 4 signs of it, or its name.")
]


class ProjectTold(Output):
    """A project: what it is known by, where it was seen, and who is told what it remembers."""

    id: str
    name: str
    keys: list[str]
    """What it is known by: the address it is cloned from, its repository, its directory."""
    places: list[str]
    """Where sessions worked in it, the latest last."""
    shared: bool
    """Whether what it remembers is told in every project."""
    moved_to: str | None
    """The project it is a part of."""
    memories: int
    created_at: Instant
    last_seen_at: Instant


class ListProjects(Input):
    """Nothing: all of them."""


@OPERATIONS.add(
    output=list[ProjectTold],
    command="project list",
    example="project list",
    routes=(Route("GET", "/projects", wraps="items"),),
    left_out=_OWN,
)
async def list_projects(ctx: OperationContext, params: ListProjects) -> list[dict[str, Any]]:
    """List the projects that sessions worked in, the latest first.

    A session is told what its project remembers, what is global, and what shared projects do.
    Returns each with what it is known by, where it lies and how much it remembers.
    """
    return await flow.find_projects(ctx.memory, ctx.lineage)


class AskedProject(Input):
    """Which project."""

    project: Which


@OPERATIONS.add(
    output=ProjectTold,
    command="project show",
    example="project show api",
    routes=(Route("GET", "/projects/{project}"),),
    left_out=_OWN,
)
async def show_project(ctx: OperationContext, params: AskedProject) -> dict[str, Any]:
    """Show a project: what it is known by, where it lies, and who is told what it remembers.

    Returns the project.
    """
    return await flow.get_project(ctx.memory, params.project, ctx.lineage)


class ShareProject(AskedProject):
    """Which project, and whether."""

    off: bool = False
    """Tell it in no other project any more."""


@OPERATIONS.add(
    output=ProjectTold,
    effect=OperationEffect.WRITES,
    command="project share",
    example="project share personal",
    routes=(Route("POST", "/projects/{project}/share"),),
    left_out=_OWN,
)
async def share_project(ctx: OperationContext, params: ShareProject) -> dict[str, Any]:
    """Have what a project remembers told in every project, until it is taken back.

    What is personal, said to the butler itself or in no project, is a project called personal.
    Returns the project.
    """
    return await flow.share_project(ctx.memory, params.project, not params.off, ctx.lineage)


class MoveProject(AskedProject):
    """Which project, and into which."""

    to: Which


@OPERATIONS.add(
    output=ProjectTold,
    effect=OperationEffect.WRITES,
    command="project move",
    example="project move old-api api",
    routes=(Route("POST", "/projects/{project}/move"),),
    left_out=_OWN,
)
async def move_project(ctx: OperationContext, params: MoveProject) -> dict[str, Any]:
    """Make a project a part of another: its memories, and whatever is said in it from now on.

    For one that is known under two names, e.g. after it was copied to another disk. Moved to
    itself, it is a project of its own again. Returns the project.
    """
    return await flow.move_project(ctx.memory, params.project, params.to, ctx.lineage)
