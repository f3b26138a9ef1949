"""Where migrations begin: new databases are made from `memory/schema` and skip them."""

revision = "mem_034"
down_revision = None
branch_labels = ("memory",)


def upgrade() -> None:
    """Do nothing: a database that stands here has every table already."""
