"""What Alembic runs: the revisions, on the connection that service.registry.migrate holds locked.

The transaction is the caller's, so a revision that fails half-way leaves nothing behind, on SQLite too.
"""

from alembic import context

from service.registry.rows import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
