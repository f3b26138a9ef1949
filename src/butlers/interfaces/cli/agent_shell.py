"""Recognise the shell of an agent by the variables that agents set for their commands."""

import os
import re
from collections.abc import Mapping

from butlers.kernel.word_tables import load_tables

_NAME = re.compile(r"(?!true|yes|on\b)[a-z][a-z0-9-]{1,40}")
_OFF = ("", "0", "false", "no", "off")


def agent_of_shell(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the agent that runs commands in this shell; empty in a person's own."""
    tables = load_tables(__file__)
    values = (environment.get(variable, "").lower() for variable in tables["named"]["by"])
    named = next((value for value in values if value not in _OFF), "")
    if name := _NAME.match(named):
        return name[0]
    known = tables["variables"].items()
    found = (agent for agent, variables in known if any(map(environment.get, variables)))
    return next(found, "agent" if named else "")
