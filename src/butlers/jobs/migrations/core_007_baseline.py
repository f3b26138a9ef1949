"""Where migrations begin: new databases are made from `jobs/schema` and skip them."""

revision = "core_007"
down_revision = None
branch_labels = ("core",)


def upgrade() -> None:
    """Do nothing: a database that stands here has every table already."""
