"""What agents were shown that read episodes with a model of their own."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, Rows, Touched

_SQL = load(__file__)

insert = Touched(_SQL["insert"])
forget = Touched(_SQL["forget"])
get = FirstRow(_SQL["get"])
find_episodes = Rows(_SQL["find_episodes"])
find_facts = Rows(_SQL["find_facts"])
find_rules = Rows(_SQL["find_rules"])
find_entities = Rows(_SQL["find_entities"])
