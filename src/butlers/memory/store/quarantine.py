"""Memories in quarantine."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, Rows, Touched

_SQL = load(__file__)

find = Rows(_SQL["find"])
get = FirstRow(_SQL["get"])
lock_fact = FirstRow(_SQL["lock_fact"])
release_fact = Touched(_SQL["release_fact"])
release_rule = Touched(_SQL["release_rule"])
release_episode = Touched(_SQL["release_episode"])
is_quarantined = FirstValue[bool](_SQL["is_quarantined"])
