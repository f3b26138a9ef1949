"""`butlers review`: decide what waits for a person, one by one, at the keyboard."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import typer

from butlers.errors import ButlersError
from butlers.interfaces.cli import options
from butlers.interfaces.cli.inbox_view import NOTHING, show_inbox, show_item
from butlers.interfaces.cli.memory import ask
from butlers.interfaces.cli.output import on_terminal, show_json, show_line
from butlers.interfaces.cli.presence import prove_presence

if TYPE_CHECKING:
    from butlers.host.butler import Butler

_EDITABLE = ("quarantined", "proposal", "in_doubt")


@dataclass(slots=True)
class Sitting:
    """A person's way through what waits: at which place, and what was decided about which."""

    items: Sequence[Mapping[str, Any]]
    place: int = 0
    decided: dict[int, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    """The decisions by place, each with the text that replaces what was accepted, if any."""

    def keys(self) -> dict[str, str]:
        """Return the keys that do something now, each with what it does."""
        keys = {"u": "go back, and undo that decision"} if self.place else {}
        if self.place == len(self.items):
            return keys | {"q": "carry your decisions out"}
        item = self.items[self.place]
        decisions = {each["decision"][0]: each["does"] for each in item["decisions"]}
        if item["kind"] in _EDITABLE and item["memory_type"] == "fact":
            decisions["e"] = "accept it with a text of yours"
        return decisions | {"s": "skip"} | keys | {"q": "carry your decisions out and quit"}

    def press(self, key: str, text: str = "") -> None:
        """Take one of the keys, except the one that ends."""
        if key == "u":
            self.place -= 1
            self.decided.pop(self.place, None)
            return
        if key != "s":
            decisions = {each["decision"][0]: each for each in self.items[self.place]["decisions"]}
            self.decided[self.place] = decisions["a" if key == "e" else key], text
        self.place += 1


def review(
    butler: options.ButlerOption = "general",
    home: options.HomeOption = None,
    tenant: options.TenantOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Decide what waits for you, one by one, at the keyboard.

    Your decisions are carried out when you finish or quit; until then you can go back. Without a
    terminal it lists what waits, as `butlers inbox` does.
    """
    from butlers.memory.operations.inbox import list_inbox

    if not as_json and sys.stdin.isatty() and on_terminal():
        options.with_butler(butler, home, lambda opened: _sit(opened, tenant))
        return
    items = ask(list_inbox, {"butler": butler, "home": home, "tenant": tenant}, {})
    (show_json if as_json else show_inbox)(items)


async def _sit(opened: "Butler", tenant: str | None) -> None:
    from butlers.memory.operations.inbox import list_inbox

    items = await list_inbox.perform(options.memory_context(opened, tenant))
    if not items:
        show_line(NOTHING)
        return
    about = [f"decide {len(items)} of what waits in butler {opened.name}, one by one"]
    await prove_presence(opened.home, opened.name, tenant, "decide what waits", about)
    ctx, sitting = options.memory_context(opened, tenant, may_decide=True), Sitting(items)
    while (key := _ask(sitting)) != "q":
        sitting.press(key, typer.prompt("  The text") if key == "e" else "")
    for decision, text in sitting.decided.values():
        await _carry_out(ctx, decision, text)


def _ask(sitting: Sitting) -> str:
    """Show the item at its place, and wait for a key that does something."""
    typer.echo()
    if (place := sitting.place) < len(sitting.items):
        show_item(sitting.items[place], f"{place + 1}/{len(sitting.items)}")
    for key, does in (keys := sitting.keys()).items():
        show_line(f"[{key}] {does}", indent=2)
    while (key := click.getchar().lower()) not in keys:
        pass
    return key


async def _carry_out(ctx: Any, decision: Mapping[str, Any], text: str) -> None:
    """Carry a decision out; what somebody else decided meanwhile is left as it is."""
    from butlers.memory.operations import OPERATIONS

    arguments = decision["arguments"]
    try:
        done = await OPERATIONS[decision["operation"]].perform(ctx, **arguments)
        if text:
            fact_id = str(done.get("about_id") or arguments["memory_id"])
            await OPERATIONS["correct"].perform(ctx, fact_id=fact_id, content=text)
        missed = "it was decided meanwhile" if False in done.values() else ""
    except ButlersError as error:
        missed = str(error)
    show_line(f"not done: {missed}" if missed else f"done: {decision['does']}")
