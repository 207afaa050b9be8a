"""The demo family: eight real tables, joined where they truly are the same."""

from training.demo import SOURCES
from training.family import read_family
from training.tables import load_family


def test_the_demo_joins_what_is_the_same_in_one_unit(cars):
    dataset = load_family(read_family(cars / "family.toml"))
    schema = dataset.schema
    assert tuple(schema.by_table) == tuple(SOURCES)
    assert len(schema.tables_of("mpg")) == len(SOURCES)
    assert set(schema.tables_of("weight")) == {"auto", "mtcars", "cars93", "auto1978"}
    assert {"auto", "mtcars", "mpg", "cars93", "auto1978", "epa2012", "epa2021"} == set(
        schema.tables_of("displacement")
    )
    ends = {}
    for table in dataset.tables:
        for name in ("displacement", "weight"):
            index = schema.index[name]
            if index in table.columns:
                column = table.positions[:, list(table.columns).index(index)]
                middle = float(sorted(column[column == column])[len(column[column == column]) // 2])
                ends.setdefault(name, []).append(middle)
    # In one unit, no table's median sits at an end of the joint range.
    for name, middles in ends.items():
        top = schema.features[schema.index[name]].n_values - 1
        assert all(0.5 < middle < top - 0.5 for middle in middles), (name, middles)


def test_demo_kinds_cover_all_five_but_boolean(cars):
    dataset = load_family(read_family(cars / "family.toml"))
    kinds = {feature.kind for feature in dataset.schema.features}
    assert kinds == {"numeric", "ordinal", "categorical", "datetime"}
