"""Proposals that wait for approval, and claims of agents."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, OnlyRow, Rows, Touched

_SQL = load(__file__)

insert_claim = Touched(_SQL["insert_claim"])
delete_claims = Touched(_SQL["delete_claims"])
get_claim = FirstRow(_SQL["get_claim"])
find_claimed_episodes = Rows(_SQL["find_claimed_episodes"])
find_claimed_entities = Rows(_SQL["find_claimed_entities"])

insert = Touched(_SQL["insert"])
get_by_idempotency_key = OnlyRow(_SQL["get_by_idempotency_key"])
find_waiting = Rows(_SQL["find_waiting"])
lock = FirstRow(_SQL["lock"])
decide = Touched(_SQL["decide"])
