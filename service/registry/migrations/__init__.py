"""The registry's revisions, run by Alembic."""
