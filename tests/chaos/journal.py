"""What clients were told, and in which states what they stored may be found after a crash."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import asyncpg

# What is there of each kind, with the word for the state it is in.
_STATES = {
    "fact": "select id::text, fact_state(validity, metadata) from facts",
    "episode": (
        "select id::text, case when expires_at <= now() then 'forgotten' else 'active' end "
        "from episodes union all select episode_id::text, 'forgotten' from binned_episodes"
    ),
    "rule": "select id::text, rule_state(metadata) || ' ' || success_count from rules",
    "entity": "select id::text, entity_state(metadata) from entities",
}
ABSENT = "absent"
Key = tuple[str, str]


class Refused(Exception):
    """The product refused something; nothing changed."""


class Lost(Exception):
    """No answer came: what was asked for may be done or not."""


@dataclass
class Journal:
    """By the id of everything acknowledged, the states that it may have."""

    allowed: dict[Key, set[str]] = field(default_factory=dict)
    acknowledged: Counter[str] = field(default_factory=Counter)

    def knows(self, kind: str, id: str, state: str) -> None:
        """Something was acknowledged: it must be found in this state."""
        self.allowed[kind, id] = {state}

    def certain(self, kind: str, *states: str) -> list[str]:
        """What surely is in one of these states."""
        return [
            id
            for (of, id), allowed in list(self.allowed.items())
            if of == kind and len(allowed) == 1 and allowed <= set(states)
        ]

    @contextmanager
    def moving(self, what: str, states: dict[Key, str]) -> Iterator[None]:
        """Within this things move to other states: they did if nothing is raised.

        If no answer comes they may have; if the change is refused they did not.
        """
        before = {key: set(self.allowed[key]) for key in states}
        for key, state in states.items():
            self.allowed[key].add(state)
        try:
            yield
        except Refused:
            self.allowed.update(before)
        else:
            self.acknowledged[what] += 1
            self.allowed.update({key: {state} for key, state in states.items()})

    def faults(self, dsn: str) -> list[str]:
        """What is not in a state that it may have; what was uncertain is known from here on."""
        found = asyncio.run(_found(dsn))
        faults = []
        for (kind, id), allowed in self.allowed.items():
            state = found.get((kind, id), ABSENT)
            if state not in allowed:
                faults.append(f"{kind} {id} is {state}; it may be {' or '.join(sorted(allowed))}")
            self.allowed[kind, id] = {state}
        return faults


async def _found(dsn: str) -> dict[Key, str]:
    connection = await asyncpg.connect(dsn)
    try:
        return {
            (kind, row[0]): row[1]
            for kind, query in _STATES.items()
            for row in await connection.fetch(query)
        }
    finally:
        await connection.close()
