"""Show that a person is present: by a number typed at the terminal, or by an operator token.

A process without a terminal cannot read the number, and neither can one whose shell belongs to an
agent. Scripts pass a token that somebody made to decide in a person's place.
"""

import os
import secrets
import signal
import termios
from collections.abc import Sequence
from typing import TYPE_CHECKING

from butlers.errors import Conflict, PresenceRequired
from butlers.interfaces.cli.agent_shell import agent_of_shell
from butlers.interfaces.cli.inbox_view import wrapped
from butlers.interfaces.cli.shell import current_shell

if TYPE_CHECKING:
    from butlers.host.home import Home

OPERATOR_TOKEN = "BUTLERS_OPERATOR_TOKEN"  # noqa: S105 - the name of a variable
_LONGEST_ANSWER = 200


async def prove_presence(
    home: "Home", butler: str, tenant: str | None, what: str, about: Sequence[str]
) -> None:
    """Return once a person, or an operator token, has allowed it; raise PresenceRequired otherwise.

    `what` completes "only a person may …"; `about` are the lines that the person is shown.
    Forbidden if the token is not one of this butler, Conflict if the person stops it.
    """
    from butlers.host.home_tokens import check_operator_token

    shell, daemon = current_shell(), current_shell().daemon
    if token := shell.environment.get(OPERATOR_TOKEN, "").strip():
        await check_operator_token(home, butler, tenant, token)
    elif not (await daemon.confirm(what, about) if daemon else is_confirmed(what, about)):
        raise Conflict("the number was not typed, so nothing was changed")


def is_confirmed(what: str, about: Sequence[str]) -> bool:
    """Show at the terminal what is about to be done, and read a number back.

    Raises PresenceRequired in the shell of an agent, and without a terminal to read from.
    """
    if agent := agent_of_shell():
        raise PresenceRequired(what, f"this is the shell of an agent ({agent})")
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        raise PresenceRequired(what, _NO_TERMINAL) from None
    try:
        return _is_answered(terminal, what, about)
    finally:
        os.close(terminal)


_NO_TERMINAL = f"this command has no terminal; a script passes the token in {OPERATOR_TOKEN}"


def _is_answered(terminal: int, what: str, about: Sequence[str]) -> bool:
    if os.tcgetpgrp(terminal) != os.getpgrp():  # in the background, reading would stop it
        raise PresenceRequired(what, _NO_TERMINAL)
    number = f"{secrets.randbelow(9_000) + 1_000}"
    lines = [f"Only a person may {what}."]
    lines += [f"  {line}" for text in about for line in wrapped(text)]
    lines.append(f"Type {number} to go on, or press Enter to stop: ")
    termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before it was shown is no answer
    os.write(terminal, "\n".join(lines).encode())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a loop would go on waiting
    try:
        return os.read(terminal, _LONGEST_ANSWER).decode("ascii", "replace").strip() == number
    finally:
        signal.signal(signal.SIGINT, before)
