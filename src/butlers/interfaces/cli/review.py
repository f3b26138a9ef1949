"""`butlers review`: decide what waits for a person, one by one, at the keyboard."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Choice(NamedTuple):
    """What a person decided about the item at a place, and the text that replaces it, if any."""

    place: int
    decision: Mapping[str, Any]
    text: str = ""


@dataclass(slots=True)
class Sitting:
    """A person's way through what waits; the last decision can be undone until the next one."""

    items: Sequence[Mapping[str, Any]]
    place: int = 0
    last: Choice | None = None

    def keys(self) -> dict[str, str]:
        """Return the keys that do something now, each with what it does; none at the end."""
        undo = {"u": "undo the last decision"} if self.last else {}
        if self.place == len(self.items):
            return undo and undo | {"q": "finish"}
        item = self.items[self.place]
        keys = {each["decision"][0]: each["does"] for each in item["decisions"]}
        if item["kind"] in _EDITABLE and item["memory_type"] == "fact":
            keys["e"] = "accept it with a text of yours"
        return keys | {"s": "skip"} | undo | {"q": "quit"}

    def press(self, key: str, text: str = "") -> Choice | None:
        """Take one of the keys; return the decision that is to be carried out now, if any."""
        due = self.last
        if key == "s":
            self.place += 1
            return None
        if key == "u" and due is not None:
            self.place, self.last = due.place, None
            return None
        if key == "q":
            self.place, self.last = len(self.items), None
            return due
        decisions = {each["decision"][0]: each for each in self.items[self.place]["decisions"]}
        self.last = Choice(self.place, decisions["a" if key == "e" else key], text)
        self.place += 1
        return due


def review(
    butler: options.ButlerOption = "general",
    home: options.HomeOption = None,
    tenant: options.TenantOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Decide what waits for you, one by one, at the keyboard.

    Each decision is carried out when you make the next one, so that you can undo it. Without a
    terminal it lists what waits, as `butlers memory inbox` does.
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
    while keys := sitting.keys():
        if (place := sitting.place) < len(items):
            typer.echo()
            show_item(items[place], f"{place + 1}/{len(items)}")
        key = _read_key(keys)
        if due := sitting.press(key, typer.prompt("  The text") if key == "e" else ""):
            await _carry_out(ctx, due)


def _read_key(keys: Mapping[str, str]) -> str:
    for key, does in keys.items():
        show_line(f"[{key}] {does}", indent=2)
    while (key := click.getchar().lower()) not in keys:
        pass
    return key


async def _carry_out(ctx: Any, choice: Choice) -> None:
    """Carry a decision out; what somebody else decided meanwhile is left as it is."""
    from butlers.memory.operations import OPERATIONS

    arguments = choice.decision["arguments"]
    try:
        done = await OPERATIONS[choice.decision["operation"]].perform(ctx, **arguments)
        if choice.text:
            fact_id = str(done.get("about_id") or arguments["memory_id"])
            await OPERATIONS["correct"].perform(ctx, fact_id=fact_id, content=choice.text)
        if False in done.values():
            show_line("not done: it was decided meanwhile", colour="red")
    except ButlersError as error:
        show_line(f"not done: {error}", colour="red")
