"""Models and their features, tables and their versions, and the state row."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables, and the one state row that writers lock."""
    _create_models()
    _create_tables()
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("active_id", sa.Integer(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_state_one_row")),
        sa.ForeignKeyConstraint(["active_id"], ["models.id"], name=op.f("fk_state_active_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_state")),
    )
    op.bulk_insert(state, [{"id": 1, "active_id": None, "revision": 0}])


def _create_models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created", sa.Text(), nullable=False),
        sa.Column("published", sa.DateTime(timezone=True), nullable=False),
        sa.Column("preset", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_models_name_version")),
        sa.UniqueConstraint("name", "sha256", name=op.f("uq_models_name_sha256")),
    )
    op.create_table(
        "features",
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_features_model_id")),
        sa.PrimaryKeyConstraint("model_id", "position", name=op.f("pk_features")),
    )


def _create_tables() -> None:
    op.create_table(
        "table_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("table", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_table_versions")),
        sa.UniqueConstraint("table", "version", name=op.f("uq_table_versions_table_version")),
    )
    op.create_table(
        "table_columns",
        sa.Column("table_version_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("column", sa.Text(), nullable=False),
        sa.Column("feature", sa.Text(), nullable=False),
        sa.Column("scale", sa.Double(), nullable=False),
        sa.Column("offset", sa.Double(), nullable=False),
        sa.Column("missing", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["table_version_id"], ["table_versions.id"], name=op.f("fk_table_columns_table_version_id")
        ),
        sa.PrimaryKeyConstraint("table_version_id", "position", name=op.f("pk_table_columns")),
    )
