"""What a search needs to know of a memory, in narrow tables beside it.

A memory's row is wide: its text, its vector, its search vector and everything that is told of it.
Reading such rows is what made searches slow. The index holds what chooses and ranks, and nothing
else; it is derived, so that it could be thrown away and made again.
"""

from butlers.db.upgrade import run_sections

revision = "mem_015"
down_revision = "mem_014"

TABLES = ("index_memories", "index_words", "index_vectors", "index_names")


def upgrade() -> None:
    """The index exists, empty, as closed to other tenants as the memories are."""
    run_sections(__file__, table=TABLES)
