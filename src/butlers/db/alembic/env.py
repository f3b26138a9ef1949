"""Run by Alembic: migrates over the connection that `butlers.db.migrate` hands it."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
