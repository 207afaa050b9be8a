"""The linear expert: the law's conditional means by the textbook, and exact sums of contributions."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from model.arrays import pack_arrays, unpack_arrays
from model.codec import fit_bins, fit_shares
from model.law import PLAIN, NormalLaw, dimensions_of, invert_one, invert_seen
from model.linear import LinearExpert, expert_from_arrays
from model.schema import Feature, Schema
from training.family import Family, TableSpec
from training.hearing import Audience, Heard, hear
from training.joint_normal import _complete, _stay, fit_council, fit_law
from training.tables import Dataset, load_family

RNG = np.random.default_rng(0)


def number(name):
    values = np.random.default_rng(len(name)).normal(size=400)
    bins = fit_bins(values)
    return Feature(name, "numeric", bins, shares=fit_shares(np.linspace(0, 15, 400, dtype=np.float32), 16))


@pytest.fixture(scope="module")
def schema():
    words = Feature("kind", "categorical", categories=("0", "1", "2"), shares=(0.5, 0.3, 0.2))
    return Schema((number("a"), number("bb"), words, number("ccc")))


@pytest.fixture(scope="module", params=[0, 50], ids=["numbers as they are", "with orders"])
def expert(schema, request):
    return make_expert(schema, request.param)


def make_expert(schema, most_with_orders):
    owner, value = dimensions_of(schema, 50, most_with_orders)
    root = RNG.normal(size=(len(owner), len(owner)))
    covariance = root @ root.T / len(owner) + 0.1 * np.eye(len(owner))
    return LinearExpert(schema, NormalLaw(owner, value, RNG.normal(scale=0.1, size=len(owner)), covariance))


def textbook(expert, row, dim):
    """The expected value of one dimension given all others that are there."""
    law = expert.law
    seen = [i for i in np.flatnonzero(~np.isnan(row)) if law.owner[i] != law.owner[dim]]
    gain = np.linalg.solve(law.covariance[np.ix_(seen, seen)], law.covariance[seen, dim])
    return gain @ (row[seen] - law.mean[seen])


@pytest.mark.parametrize("own_cell", ["there", "missing"])
def test_the_expected_value_is_that_of_the_textbook(expert, own_cell):
    columns = np.arange(4)
    positions = np.asarray([[3.25, 7.5, 1.0, 2.0], [np.nan, 9.0, 2.0, 8.0], [1.0, 4.0, np.nan, np.nan]], np.float32)
    if own_cell == "missing":
        positions[:, 1] = np.nan
    told = expert.tell(columns, positions, np.asarray([1]))
    rows = expert.coordinates(columns, positions)
    dim = int(np.flatnonzero(expert.law.owner == 1)[0])
    wanted = [textbook(expert, row, dim) for row in rows]
    assert told.mean[:, 0] == pytest.approx(wanted, abs=1e-3)


def test_what_it_says_does_not_depend_on_whether_the_asked_cell_is_there(expert):
    positions = RNG.uniform(0, 2, (30, 4)).astype(np.float32)
    positions[:, 2] = np.rint(positions[:, 2])
    for asked in range(4):
        hidden = positions.copy()
        hidden[:, asked] = np.nan
        there, gone = (expert.tell(np.arange(4), rows, np.asarray([asked])) for rows in (positions, hidden))
        assert there.mean == pytest.approx(gone.mean, abs=1e-9)
        assert there.logits == pytest.approx(gone.logits, abs=1e-7)


def test_no_rows_no_answers(expert):
    assert expert.tell(np.arange(4), np.empty((0, 4), np.float32), np.asarray([1])).mean.shape == (0, 1)


def test_with_nothing_known_it_says_nothing(expert):
    told = expert.tell(np.arange(4), np.full((2, 4), np.nan, np.float32), np.arange(4))
    assert np.abs(told.mean).max() == 0.0
    assert np.abs(told.logits).max() < 1e-9


def test_contributions_add_up_to_what_it_says(expert):
    positions = RNG.uniform(0, 2, (20, 4)).astype(np.float32)
    positions[:, 2] = np.rint(positions[:, 2])
    positions[RNG.random(positions.shape) < 0.3] = np.nan
    told = expert.tell(np.arange(4), positions, np.arange(4), explain=True)
    assert told.mean_parts.sum(axis=2) == pytest.approx(told.mean)
    words = told.base[:, 2] + told.parts[:, 2].sum(axis=1)
    assert words == pytest.approx(told.logits[:, 2])
    assert np.abs(told.parts[np.isnan(positions)[:, None, :].repeat(4, axis=1)]).max() == 0.0


def test_the_order_of_the_columns_does_not_matter(expert):
    positions = RNG.uniform(0, 2, (5, 4)).astype(np.float32)
    positions[:, 2] = np.rint(positions[:, 2])
    order = np.asarray([2, 0, 3, 1])
    one = expert.tell(np.arange(4), positions, np.asarray([1, 2]))
    two = expert.tell(order, positions[:, order], np.asarray([1, 2]))
    assert one.mean == pytest.approx(two.mean)
    assert one.logits == pytest.approx(two.logits)


@pytest.mark.parametrize("n_patterns", [1, 8, 9, 64, 65, 200])
@pytest.mark.parametrize("d", [1, 7, 12])
def test_inverses_of_many_patterns_are_those_of_each(d, n_patterns):
    root = np.random.default_rng(d).normal(size=(d, 3 * d))
    covariance = root @ root.T / d
    patterns = np.random.default_rng(n_patterns).random((n_patterns, d)) < np.linspace(0.0, 1.0, n_patterns)[:, None]
    many = invert_seen(covariance, patterns)
    assert many == pytest.approx(np.stack([invert_one(covariance, pattern) for pattern in patterns]), abs=1e-9)


def test_levels_dates_and_numbers_of_few_values_are_answered_alike_by_a_row_and_by_many():
    few = fit_bins(np.repeat([1.0, 2.0, 5.0], [30, 50, 20]))
    two = fit_bins(np.repeat([0.0, 1.0], [40, 60]))
    schema = Schema(
        (
            Feature("level", "ordinal", few, shares=(0.3, 0.5, 0.2)),
            Feature("few", "numeric", few, shares=(0.3, 0.5, 0.2)),
            replace(number("when"), kind="datetime"),
            Feature("two", "numeric", two, shares=(0.4, 0.6)),
            number("a"),
        )
    )
    expert = make_expert(schema, 50)
    every, asked = np.arange(5), np.asarray([1, 2, 3, 4])
    rng = np.random.default_rng(8)
    rows = rng.uniform(0, [2, 2, 9, 1, 9], (30, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    many = expert.tell(every, rows, asked, explain=True)
    assert many.mean_parts.sum(axis=2) == pytest.approx(many.mean, abs=1e-9)
    for i, row in enumerate(rows):
        one = expert.tell(every, row[None], asked)
        assert one.mean[0] == pytest.approx(many.mean[i], abs=1e-9)
        assert one.logits[0] == pytest.approx(many.logits[i], abs=1e-9)


@pytest.mark.parametrize("most_with_orders", [0, 50])
def test_of_what_a_single_row_lacks_it_says_what_it_says_of_many(most_with_orders):
    """A row alone is answered in a way of its own; the same row twice is not."""
    words = Feature("kind", "categorical", categories=("0", "1", "2"), shares=(0.5, 0.3, 0.2))
    either = Feature("is_new", "boolean", shares=(0.4, 0.6))
    expert = make_expert(Schema((number("a"), words, number("bb"), either, number("ccc"))), most_with_orders)
    rng = np.random.default_rng(5)
    for _ in range(40):
        row = np.asarray([[rng.uniform(0, 9), rng.integers(3), rng.uniform(0, 9), rng.integers(2), 3.5]], np.float32)
        row[0, rng.random(5) < 0.5] = np.nan
        lacking = rng.permutation(np.flatnonzero(np.isnan(row[0])))
        one, two = (expert.tell(np.arange(5), rows, lacking) for rows in (row, row.repeat(2, axis=0)))
        assert one.mean == pytest.approx(two.mean[:1], abs=1e-9)
        assert one.logits == pytest.approx(two.logits[:1], abs=1e-9)
        means = expert.tell(np.arange(5), row, lacking, means_only=True)
        assert means.mean.tolist() == one.mean.tolist()
        is_word = np.isin(lacking, [1, 3])
        assert means.logits[:, is_word].tolist() == one.logits[:, is_word].tolist()


def test_orders_are_of_all_numbers_that_can_bend_or_of_none_and_come_after_words():
    either = Feature("two", "numeric", fit_bins(np.asarray([0.0, 1.0] * 5)), shares=(0.5, 0.5))
    words = Feature("kind", "categorical", categories=("0", "1", "2"), shares=(0.5, 0.3, 0.2))
    schema = Schema((words, number("a"), either, number("bb")))
    pairs = [(0, 0), (0, 1), (1, PLAIN), (2, PLAIN), (3, PLAIN)]
    one, two = [(1, -2), (3, -2)], [(1, -3), (3, -3)]
    for most, added in ((5, []), (6, []), (7, one), (8, one), (9, one + two), (50, one + two)):
        wanted = sorted(pairs + added, key=lambda pair: (pair[0], abs(pair[1])))
        assert list(zip(*dimensions_of(schema, 50, most), strict=True)) == wanted
    assert list(zip(*dimensions_of(schema, 50), strict=True)) == pairs


def test_a_line_in_the_orders_bends_in_the_numbers(tmp_path):
    rng = np.random.default_rng(6)
    a = rng.normal(size=1500)
    rows = pd.DataFrame({"a": a, "square": a**2 + 0.1 * rng.normal(size=len(a)), "other": rng.normal(size=len(a))})
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    dataset = load_family(Family("bent", (TableSpec("rows", tmp_path / "rows.parquet"),)), seed=0, held_out=0.2)
    table, index = dataset.tables[0], dataset.schema.index["square"]
    fresh = table.positions[table.held_out]
    errors = []
    for data in (dataset, replace(dataset, target="other")):  # with a named target numbers enter as they are
        expert = fit_council(data).expert
        truth = expert.coordinates(table.columns, fresh)[:, np.searchsorted(expert.law.owner, index)]
        told = expert.tell(table.columns, fresh, np.asarray([index])).mean[:, 0]
        errors.append(float(np.mean(np.square(told - truth)) / np.var(truth)))
    bent, straight = errors
    assert straight > 0.9
    assert bent < 0.2


def test_the_law_is_found_from_rows_with_holes():
    truth = np.asarray([[1.0, 0.8, 0.3], [0.8, 1.0, 0.1], [0.3, 0.1, 1.0]])
    rows = np.random.default_rng(1).multivariate_normal([1.0, -2.0, 0.5], truth, size=4000)
    holes = np.random.default_rng(2).random(rows.shape) < 0.3
    mean, covariance = fit_law(np.where(holes, np.nan, rows))
    assert mean == pytest.approx([1.0, -2.0, 0.5], abs=0.08)
    assert covariance == pytest.approx(truth, abs=0.08)


def test_what_is_filled_in_while_the_law_is_found_is_that_of_the_textbook():
    """Many rows with the same holes, rows of their own, and one that is empty."""
    rng = np.random.default_rng(7)
    root = rng.normal(size=(5, 9))
    covariance, rows = root @ root.T, rng.normal(size=(60, 5))
    seen = rng.random(rows.shape) < 0.6
    seen[:30], seen[30] = [True, True, False, True, False], False
    deviation = np.where(seen, rows, 0.0)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    complete, doubt = _complete(deviation, patterns, which.ravel(), covariance)
    wanted, left = deviation.copy(), np.zeros_like(covariance)
    for i, there in enumerate(seen):
        gain = np.linalg.solve(covariance[np.ix_(there, there)], covariance[np.ix_(there, ~there)])
        wanted[i, ~there] = deviation[i, there] @ gain
        left[np.ix_(~there, ~there)] += covariance[np.ix_(~there, ~there)] - covariance[np.ix_(~there, there)] @ gain
    assert complete == pytest.approx(wanted, abs=1e-9)
    assert doubt == pytest.approx(left, abs=1e-9)


def test_of_a_number_whose_orders_differ_between_tables_the_number_stays():
    law = NormalLaw.standard(np.asarray([0, 0, 0, 1, 1, 1, 2, 2]), np.asarray([-1, -2, -3, -1, -2, -3, 0, 1]))
    differs = np.zeros(8, dtype=bool)
    differs[2] = True
    assert _stay(law, differs).tolist() == [True, False, False, True, True, True, True, True]
    differs[[3, 7]] = True
    assert _stay(law, differs).tolist() == [True] + [False] * 7


def test_one_number_alone_has_no_law(tmp_path):
    values = np.random.default_rng(0).normal(size=300)
    words = np.random.default_rng(1).choice(list("abcdefghijklmnopqr"), 300)  # too many for the law
    pd.DataFrame({"x": values, "word": words}).to_parquet(tmp_path / "rows.parquet", index=False)
    dataset = load_family(Family("one", (TableSpec("rows", tmp_path / "rows.parquet"),)), seed=0, held_out=0.2)
    assert fit_council(dataset) is None


def test_it_comes_back_from_its_file_as_it_was(schema, expert):
    schema = Schema(
        (number("a"), number("bb"), Feature("kind", "categorical", categories=("0", "1", "2")), number("ccc"))
    )
    content = pack_arrays(expert.to_arrays())
    again = expert_from_arrays(schema, unpack_arrays(content))
    positions = RNG.uniform(0, 2, (3, 4)).astype(np.float32)
    assert again.tell(np.arange(4), positions, np.asarray([0])).mean == pytest.approx(
        expert.tell(np.arange(4), positions, np.asarray([0])).mean
    )
    assert pack_arrays(again.to_arrays()) == content


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a.pop("mean"), "lacks the array 'mean'"),
        (lambda a: a.update(lean=a["lean"][:2]), "made for other features"),
        (lambda a: a.update(owner=a["owner"] + 9), "not those of the features"),
        (lambda a: a.update(covariance=-a["covariance"]), "positive definite"),
        (lambda a: a.update(covariance=a["covariance"] + np.triu(np.ones_like(a["covariance"]))), "symmetric"),
        (lambda a: a.update(owner=np.asarray(1)), "do not fit each other"),
        (lambda a: a.update(value=np.where(a["value"] == PLAIN, -2, a["value"])), "not those of the features"),
    ],
)
def test_an_expert_of_something_else_is_refused(schema, expert, change, reason):
    schema = Schema(
        (number("a"), number("bb"), Feature("kind", "categorical", categories=("0", "1", "2")), number("ccc"))
    )
    arrays = expert.to_arrays()
    change(arrays)
    with pytest.raises(ValueError, match=reason):
        expert_from_arrays(schema, arrays)


def squeezed() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(10**6))
    return file.getvalue()


def boastful() -> bytes:
    """Says that it holds nine times as much as it does; the checksum does not fit either."""
    return pack_arrays({"a": np.zeros(3)}).replace(b"(3,), }", b"(9,), }")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK nonsense",
        pack_arrays({"a": np.asarray([np.inf])}),
        pack_arrays({"a": np.zeros(3, np.float16)}),
        squeezed(),
        boastful(),
    ],
)
def test_a_file_that_holds_no_finite_numbers_is_refused(content):
    with pytest.raises(ValueError, match=r"not an array file|finite"):
        unpack_arrays(content)


@pytest.fixture(scope="module")
def noise(tmp_path_factory) -> Dataset:
    """Columns that know nothing of each other, in so few rows that a law finds something nevertheless."""
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({f"n{i}": rng.normal(size=200) for i in range(6)})
    rows = rows.assign(**{f"w{i}": rng.choice(list("abcdef"), 200) for i in range(3)})
    file = tmp_path_factory.mktemp("noise") / "rows.parquet"
    rows.mask(rng.random(rows.shape) < 0.3).to_parquet(file, index=False)
    return load_family(Family("noise", (TableSpec("rows", file),)), seed=0, held_out=0.2)


def surprise(told: Heard, rows: torch.Tensor, word: Feature, column: int) -> float:
    """The cross entropy of what is said of a word, beside its shares."""
    logits = told.logits[0, 0, : word.n_values].T.double() + torch.tensor(word.shares).log()
    known = ~rows[:, column].isnan()
    return float(torch.nn.functional.cross_entropy(logits[known], rows[known, column].long()))


def test_training_rows_are_told_of_by_laws_that_have_not_seen_them(noise):
    council = fit_council(noise)
    table, index = noise.tables[0], noise.schema.index["w0"]
    word, column = noise.schema.features[index], table.columns.tolist().index(index)
    training = np.flatnonzero(~table.held_out)
    rows, columns = torch.from_numpy(table.positions[training]), torch.from_numpy(table.columns)
    asked = torch.tensor([index])
    seen = surprise(hear(council.expert, columns, rows[None], asked), rows, word, column)
    audience = Audience.of(council, table, council.folds[0])
    unseen = audience.hear(rows[None], torch.tensor([column]), training[None])
    shares = surprise(Heard(unseen.mean, torch.zeros_like(unseen.logits)), rows, word, column)
    assert seen < shares < surprise(unseen, rows, word, column)  # there is nothing to be known


@pytest.mark.parametrize("in_turn", [False, True])
def test_every_row_gets_the_answer_of_its_own_law_as_it_is_and_with_cells_hidden(noise, in_turn):
    council = fit_council(noise)
    table, columns = noise.tables[0], torch.from_numpy(noise.tables[0].columns)
    if in_turn:
        table = replace(table, fold=council.folds[0])  # its rows are rehearsed then
    picked, places = np.asarray([[7, 3, 11, 3], [0, 1, 2, 5]]), torch.tensor([4, 0, 2])
    folds, rows = council.folds[0][picked], torch.from_numpy(table.positions[picked])
    rows[:, ::2, 1:3] = torch.nan
    audience = Audience.of(council, table, council.folds[0])
    assert (audience.rehearsed is not None) is in_turn
    told = audience.hear(rows, places, picked)
    for member, row in np.ndindex(*picked.shape):
        law = council.fold_experts[folds[member, row]]
        alone = hear(law, columns, rows[member, row][None, None], columns[places])
        assert told.mean[member, :, row].tolist() == pytest.approx(alone.mean[0, :, 0].tolist(), abs=1e-5)
        assert told.logits[member, :, :, row].numpy() == pytest.approx(alone.logits[0, :, :, 0].numpy(), abs=1e-4)


def test_every_fold_has_rows_and_a_law_even_where_most_rows_are_held_out(noise):
    table = noise.tables[0]
    held_out = np.ones(len(table.held_out), dtype=bool)
    held_out[::30] = False
    council = fit_council(replace(noise, tables=(replace(table, held_out=held_out),)))
    assert np.bincount(council.folds[0][~held_out]).tolist() == [2, 2, 2, 1]
    assert all(np.isfinite(expert.law.covariance).all() for expert in council.fold_experts)


@pytest.mark.parametrize("n_rows", [7, 50, 333])
def test_a_prior_of_one_row_is_what_it_was_to_the_last_bit(n_rows):
    rows = np.random.default_rng(3).normal(size=(n_rows, 3))
    _, covariance = fit_law(rows)
    centred = rows - rows.mean(axis=0)
    spread = np.square(centred).sum(axis=0) / n_rows
    assert covariance == pytest.approx((centred.T @ centred + np.diag(spread)) / (n_rows + 1), abs=1e-12)
    # Weights of 1 + n rows divide exactly, as a plain sum did.
    weights = np.sqrt(np.outer([n_rows + 1.0], [n_rows + 1.0]))
    assert weights.item() == n_rows + 1.0


def test_a_law_of_words_is_less_sure_of_itself_unless_a_target_is_named(noise):
    index = noise.schema.index["w0"]
    plain, named = (fit_council(data).expert for data in (noise, replace(noise, target="w0")))
    rows = noise.tables[0].positions[noise.tables[0].held_out]
    told = [np.abs(e.tell(noise.tables[0].columns, rows, np.asarray([index])).logits).mean() for e in (plain, named)]
    assert told[0] < 0.9 * told[1]


def test_with_a_named_target_there_is_one_law(noise):
    council = fit_council(replace(noise, target="w0"))
    assert list(council.fold_experts) == [council.expert]
    assert not council.folds[0].any()
    assert council.expert.law.value.min() == PLAIN  # and it has no orders
