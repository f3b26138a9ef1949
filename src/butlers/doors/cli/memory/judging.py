"""`butlers memory confirm`, `helpful`, `harmful`, `forget` and `restore`."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from butlers.doors.cli.memory.asking import (
    ReferenceArgument,
    TenantOption,
    ask,
    nothing_there,
    reference,
)
from butlers.doors.cli.memory.wording import number, says
from butlers.doors.cli.options import ButlerOption, HomeOption, JsonOption
from butlers.doors.cli.tables import show_json, show_line

RuleArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The rule's id, or at least its first 6 digits.")
]


def confirm(
    given: ReferenceArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that a fact or rule still holds: its confidence is full again."""
    kind, memory_id = reference(given)
    if not ask(butler, home, tenant, lambda memory: memory.confirm(memory_id, kind)):
        raise nothing_there(butler, f"{kind or 'fact or rule'} in use under", memory_id)
    _tell_done("confirmed", "confirmed", given, as_json)


def helpful(
    rule: RuleArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that following a rule helped."""
    _tell(ask(butler, home, tenant, lambda memory: memory.mark_helpful(rule)), as_json)


def harmful(
    rule: RuleArgument,
    reason: Annotated[str | None, typer.Option(help="What harm it did.")] = None,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that following a rule did harm, and why."""
    _tell(ask(butler, home, tenant, lambda memory: memory.mark_harmful(rule, reason)), as_json)


def forget(
    given: ReferenceArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a memory: nobody is shown it any more, but its history stays."""
    kind, memory_id = reference(given)
    if not ask(butler, home, tenant, lambda memory: memory.forget(memory_id, kind)):
        raise nothing_there(butler, f"{kind or 'memory'} left to forget under", memory_id)
    _tell_done("forgotten", "forgot", given, as_json)


def restore(
    given: ReferenceArgument,
    butler: ButlerOption = "general",
    home: HomeOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back that a fact or rule was forgotten."""
    kind, memory_id = reference(given)
    if not ask(butler, home, tenant, lambda memory: memory.restore(memory_id, kind)):
        raise nothing_there(butler, f"{kind or 'fact or rule'} that was forgotten under", memory_id)
    _tell_done("restored", "restored", given, as_json)


def _tell_done(key: str, word: str, given: Sequence[str], as_json: bool) -> None:
    if as_json:
        show_json({key: True})
    else:
        show_line(f"{word} {' '.join(given)}")


def _tell(rule: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(rule)
        return
    counted = f"{rule['success_count']} helpful, {rule['harmful_count']} harmful"
    show_line(
        f"{rule['maturity']}, effectiveness {number(rule['effectiveness_score'])} "
        f"({counted}): {says(rule)}"
    )
