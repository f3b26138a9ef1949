"""Episodes."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, Rows
from butlers.memory.store import memories

_SQL = load(__file__)

insert = FirstRow(_SQL["insert"])
get_source = FirstRow(_SQL["get_source"])
get_by_idempotency_key = memories.get_episode_by_key
get_last_part = FirstRow(_SQL["get_last_part"])
find_parts = Rows(_SQL["find_parts"])
find = memories.find_episodes
find_sources = Rows(_SQL["find_sources"])
find_texts = Rows(_SQL["find_texts"])
find_recent = Rows(_SQL["find_recent"])
find_latest_pieces = Rows(_SQL["find_latest_pieces"])
find_decisions = Rows(_SQL["find_decisions"])
forget = FirstRow(_SQL["forget"])
revive = FirstRow(_SQL["revive"])
