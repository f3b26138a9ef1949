"""Consolidation: claim, lease, fail and finish episodes."""

from dataclasses import dataclass
from uuid import UUID

from butlers.db.queries import load
from butlers.db.statements import Rows, Touched

_SQL = load(__file__)

find_waiting = Rows(_SQL["find_waiting"])
abandon = Rows(_SQL["abandon"])
claim = Rows(_SQL["claim"])
renew = Touched(_SQL["renew"])
release = Touched(_SQL["release"])
hold = Rows(_SQL["hold"])
consolidate = Touched(_SQL["consolidate"])
fail = Rows(_SQL["fail"])
find_known_facts = Rows(_SQL["find_known_facts"])
find_known_rules = Rows(_SQL["find_known_rules"])
find_named = Rows(_SQL["find_named"])
find_known_to_all = Rows(_SQL["find_known_to_all"])
find_cited = Rows(_SQL["find_cited"])
find_dead_letters = Rows(_SQL["find_dead_letters"])
requeue = Rows(_SQL["requeue"])


@dataclass(frozen=True, slots=True)
class Lease:
    """Episodes held by one run."""

    run_id: str
    episode_ids: tuple[UUID, ...]
