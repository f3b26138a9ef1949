"""What the memory module asks of PostgreSQL: a function is a statement."""

from butlers.db.queries import declare
from butlers.memory.records import FRAGMENTS

declare(__file__, FRAGMENTS)
