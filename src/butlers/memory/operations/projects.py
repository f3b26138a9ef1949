"""Operations on projects: which memories a repository shares, and with whom."""

from typing import Annotated, Any

from pydantic import Field

from butlers.memory.flows import projects as flow
from butlers.memory.operations import input_fields
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext, writes
from butlers.memory.operations.results import Instant
from butlers.operation import Input, Output, Route

_OWN = {"mcp": "only a person decides which memories a session gets"}
Which = Annotated[
    input_fields.Name, Field(description="Its id, at least the first 4 characters, or its name.")
]


class ProjectResult(Output):
    """A project: its keys, its directories, and who sees its memories."""

    id: str
    name: str
    keys: list[str]
    """What identifies it: the URL it is cloned from, its repository, its directory."""
    places: list[str]
    """The directories that sessions worked in, the latest last."""
    shared: bool
    """Whether every project sees its memories."""
    moved_to: str | None
    """The project that it was moved into."""
    memories: int
    created_at: Instant
    last_seen_at: Instant


@OPERATIONS.add(
    output=list[ProjectResult],
    command="project list",
    routes=(Route("GET", "/projects", wraps="items"),),
    left_out=_OWN,
)
async def list_projects(ctx: OperationContext, params: Input) -> list[dict[str, Any]]:
    """List the projects that sessions worked in, the latest first.

    A session sees the memories of its project, of shared projects, and global ones.
    Returns each project with its keys, its directories and its number of memories.
    """
    return await flow.find_projects(ctx.memory, ctx.lineage)


class ProjectInput(Input):
    """Which project."""

    project: Which


@OPERATIONS.add(
    output=ProjectResult,
    command="project show",
    example="project show api",
    routes=(Route("GET", "/projects/{project}"),),
    left_out=_OWN,
)
async def show_project(ctx: OperationContext, params: ProjectInput) -> dict[str, Any]:
    """Show a project: its keys, its directories, and who sees its memories.

    Returns the project.
    """
    return await flow.get_project(ctx.memory, params.project, ctx.lineage)


class ShareProject(ProjectInput):
    """A project, and whether to share it."""

    off: bool = False
    """Stop sharing it."""


@writes(
    output=ProjectResult,
    command="project share",
    example="project share personal",
    routes=(Route("POST", "/projects/{project}/share"),),
    left_out=_OWN,
)
async def share_project(ctx: OperationContext, params: ShareProject) -> dict[str, Any]:
    """Share a project's memories with every project, until you stop with off.

    What you say to the butler itself, or outside any project, is in a project called personal.
    Returns the project.
    """
    return await flow.share_project(ctx.memory, params.project, not params.off, ctx.lineage)


class MoveProject(ProjectInput):
    """A project, and the one to move it into."""

    to: Which


@writes(
    output=ProjectResult,
    command="project move",
    example="project move old-api api",
    routes=(Route("POST", "/projects/{project}/move"),),
    left_out=_OWN,
)
async def move_project(ctx: OperationContext, params: MoveProject) -> dict[str, Any]:
    """Move a project into another: its memories, and those of its sessions from now on.

    Use it for a project with two names, e.g. after you copied it to another disk. Move it to
    itself to make it a project of its own again. Returns the project.
    """
    return await flow.move_project(ctx.memory, params.project, params.to, ctx.lineage)
