"""The benchmark of column matching: its cuts are what they are said to be, its peers work, and a run goes on."""

import json

import numpy as np
import pandas as pd
import pytest

from model.errors import FamilyError
from training.bench.match import families, valentine_peers
from training.bench.match import run as bench
from training.bench.match.cut import FORMS, find_dividers, make_cut
from training.bench.match.peers import PEERS, measure_information
from training.bench.match.run import run
from training.bench.match.scoring import assign, rule_out, score, score_signs
from training.bench.match.tables import NAMES, load
from training.figures import Ledger


def numbered(name):
    """A table whose column ``row`` tells its rows apart."""
    return load(name).assign(row=lambda frame: np.arange(len(frame), dtype=float))


@pytest.mark.parametrize("form", FORMS)
def test_no_row_is_on_both_sides_and_both_are_of_one_size(form):
    frame = numbered("auto")
    cut = make_cut(frame, form, 2, 0)
    back = {left: right for right, left in cut.partner.items()}
    left, right = cut.left["row"], cut.right[back.get("row", "row")]
    assert len(left) == len(right) > 100
    if form.startswith("kept"):
        assert not set(left) & set(right)


@pytest.mark.parametrize("n_shared", [1, 2, 3])
def test_names_are_opaque_but_for_the_shared_columns(n_shared):
    cut = make_cut(load("penguins"), "kept", n_shared, 0)
    assert len(cut.shared) == n_shared
    opaque = set(cut.right.columns) - set(cut.shared)
    assert opaque == {f"x{i}" for i in range(len(opaque))} == set(cut.partner)
    assert set(cut.partner.values()) | set(cut.shared) == set(cut.left.columns)


def test_kept_values_are_those_of_the_partner():
    frame = load("wage")
    cut = make_cut(frame, "kept", 2, 1)
    for right, left in cut.partner.items():
        assert set(cut.right[right].dropna()) <= set(frame[left].dropna())


@pytest.mark.parametrize("form", ["re-expressed", "re-expressed, apart"])
def test_re_expressed_numbers_rise_or_fall_with_what_they_were_and_words_are_recoded(form):
    kept, said = (make_cut(load("penguins"), f, 2, 3) for f in (form.replace("re-expressed", "kept"), form))
    assert kept.partner == said.partner
    pd.testing.assert_frame_equal(kept.left, said.left)
    pd.testing.assert_frame_equal(kept.right[kept.shared], said.right[said.shared])
    for right in said.partner:
        before, after = kept.right[right], said.right[right]
        assert before.nunique() == after.nunique()
        assert (before.isna() == after.isna()).all()
        if right in said.sign:
            assert before.rank().corr(said.sign[right] * after.rank()) == pytest.approx(1.0)
        else:
            assert set(after.dropna()) == {f"v{i}" for i in range(after.nunique())}
            assert before.groupby(after).nunique().eq(1).all()


def test_numbers_are_turned_over_about_as_often_as_not():
    signs = [sign for seed in range(8) for sign in make_cut(load("auto"), "re-expressed", 1, seed).sign.values()]
    assert abs(np.mean(signs)) < 0.4


def test_parts_that_are_apart_are_divided_by_a_column_that_is_gone():
    frame = load("auto")
    assert list(find_dividers(frame)) == ["origin"]
    cut = make_cut(frame, "kept, apart", 2, 0)
    assert "origin" not in cut.left.columns
    assert len(cut.left) == (frame["origin"] != "America").sum()


def test_a_table_without_words_is_divided_by_the_median_of_a_number():
    frame = load("boston")
    assert frame.select_dtypes("number").shape == frame.shape
    dividers = find_dividers(frame)
    assert len(dividers) > 1
    assert all(0.2 <= side.mean() <= 0.8 for side in dividers.values())


def test_every_table_can_be_cut_into_parts_that_are_apart():
    for name in NAMES:
        cut = make_cut(load(name), "re-expressed, apart", 2, 0)
        assert len(cut.partner) >= 2
        assert min(cut.left.nunique().min(), cut.right.nunique().min()) > 1


def test_the_same_seed_cuts_alike_and_another_does_not():
    one, two, other = (make_cut(load("auto"), "re-expressed", 2, seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one.right, two.right)
    assert not one.left.equals(other.left)


def test_numbers_never_match_words_unless_there_are_two_values():
    left = pd.DataFrame({"n": [1.0, 2.0, 3.0], "two": [0.0, 1.0, 1.0]})
    right = pd.DataFrame({"w": ["a", "b", "c"], "m": [1.0, 2.0, 3.0]}).astype({"w": object})
    ruled = rule_out(pd.DataFrame(1.0, index=["n", "two"], columns=["w", "m"]), left, right)
    assert ruled.loc["n", "w"] == -np.inf
    assert np.isfinite(ruled.to_numpy()).sum() == 3
    assert {(a, b) for a, b, _ in assign(ruled)} == {("n", "m"), ("two", "w")}


def test_the_truth_scores_one_and_ties_are_no_luck():
    cut = make_cut(load("carseats"), "re-expressed", 2, 0)
    others = [c for c in cut.left.columns if c not in cut.shared]
    nothing = pd.DataFrame(0.0, index=others, columns=list(cut.partner))
    truth = nothing.copy()
    for right, left in cut.partner.items():
        truth.loc[left, right] = 1.0
    perfect = score(cut, truth)
    assert (perfect.hit_one_to_one, perfect.hit1) == (1.0, 1.0)
    assert score(cut, nothing).hit1 < 0.5
    right_signs = {(cut.partner[b], b): sign for b, sign in cut.sign.items()}
    assert score_signs(cut, right_signs) == 1.0
    assert score_signs(cut, {pair: -sign for pair, sign in right_signs.items()}) == 0.0
    assert np.isnan(score_signs(cut, {}))


def test_peers_solve_what_is_easy_for_them():
    kept, said = (make_cut(load("auto"), form, 3, 0) for form in ("kept", "re-expressed"))
    figures = {name: [score(c, peer(c.left, c.right, c.shared)) for c in (kept, said)] for name, peer in PEERS.items()}
    assert figures["ks"][0].hit_one_to_one == 1.0
    assert figures["ks"][1].hit_one_to_one < 0.5
    for name in ("mutual_information", "mutual_information_entropy", "correlation"):
        assert min(one.hit_one_to_one for one in figures[name]) >= 0.5


def test_mutual_information_is_one_of_a_copy_and_none_of_strangers():
    rng = np.random.default_rng(0)
    one, other = (pd.Series(rng.normal(size=400)) for _ in range(2))
    assert measure_information(one, -one) == pytest.approx(1.0, abs=0.06)
    assert measure_information(one, other) < 0.05


def test_a_run_prints_its_tables_and_goes_on_from_what_it_kept(tmp_path, capsys, monkeypatch):
    records = run(True, resume=tmp_path / "figures.jsonl", only=["ks", "correlation"])
    shown = capsys.readouterr().out
    assert "mean over the tables" in shown
    assert "One to one: re-expressed, apart, 2 shared." in shown
    assert {r.method for r in records} == {"ks", "correlation"}
    assert {r.seeds for r in records} == {1}
    monkeypatch.setattr(bench, "work", lambda task: pytest.fail(f"{task} was known"))
    assert run(True, resume=tmp_path / "figures.jsonl", only=["ks", "correlation"]) == records
    assert len(Ledger(tmp_path / "figures.jsonl").known) == 2 * 2 * len(FORMS)


def test_a_matcher_that_is_not_installed_is_left_out_with_a_word(capsys, monkeypatch):
    monkeypatch.setattr(valentine_peers, "find_spec", lambda name: None)
    assert bench._choose_methods(bench.METHODS, ["ks", "valentine_jaccard"]) == ["ks"]
    assert "valentine_jaccard is left out: it needs pip install valentine" in capsys.readouterr().out


@pytest.fixture
def family(tmp_path):
    """Two tables of one family, with names, units and an id that differ."""
    frame = load("penguins").dropna().reset_index(drop=True)
    folder = tmp_path / "birds"
    folder.mkdir()
    one, other = frame.iloc[:160], frame.iloc[160:]
    one.assign(tag=[f"t{i}" for i in range(len(one))]).to_csv(folder / "one.csv", index=False)
    other.rename(columns=str.upper).assign(BODY_MASS_G=other["body_mass_g"] / 1000).to_csv(
        folder / "two.csv", index=False
    )
    rows = [("two", c.upper(), "one", c, "same", c, "") for c in frame.columns if c not in ("body_mass_g", "year")]
    rows += [("one", "body_mass_g", "two", "BODY_MASS_G", "unit-changed", "mass", "")]
    rows += [("one", "year", "two", "YEAR", "related", "year", "")]
    head = ["table_a", "column_a", "table_b", "column_b", "kind", "concept", "note"]
    pd.DataFrame(rows, columns=head).to_csv(folder / "matches.csv", index=False)
    return tmp_path


def test_a_family_is_read_with_its_truth_and_without_ids(family):
    assert families.list_pairs(family) == [("birds", "one", "two")]
    pair = families.load_pair(family, "birds", "one", "two")
    assert "tag" not in pair.left.columns
    assert ("body_mass_g", "BODY_MASS_G") in pair.truth
    assert len(pair.truth) == 7
    assert pair.neither == {("year", "YEAR")}
    hidden = families.hide_names(pair)
    assert set(hidden.left.columns).isdisjoint(hidden.right.columns)
    for a, b in hidden.truth:
        assert hidden.left[a].dtype == hidden.right[b].dtype


def test_pairs_that_are_only_related_count_neither_for_nor_against(family):
    pair = families.load_pair(family, "birds", "one", "two")
    found = [("year", "YEAR", 1.0), *((a, b, 0.9) for a, b in sorted(pair.truth)[:3]), ("sex", "ISLAND", 0.8)]
    counts = families.count_right(pair, found, found)
    assert (counts.accepted, counts.right, counts.true, counts.first) == (4, 3, 7, 3)
    every = families.summarize([[4, 3, 7, 3], [0, 0, 1, 1]])
    assert every == pytest.approx({"precision": 0.75, "recall": 3 / 8, "recall_at_truth": 0.5})


def test_families_are_matched_with_their_names_hidden(family, capsys):
    records = run(True, data=family, only=["ks"])
    assert "Families of tables, names hidden" in capsys.readouterr().out
    figures = {r.metric: r.value for r in records if r.case == "birds:hidden"}
    assert set(figures) == set(families.METRICS)
    assert 0.5 <= figures["recall_at_truth"] < 1.0  # the one in another unit is out of its reach
    assert json.dumps(figures)


def test_a_folder_without_families_is_refused(tmp_path):
    with pytest.raises(FamilyError, match=r"no matches\.csv in any folder there; expected FAMILY/matches\.csv"):
        run(True, data=tmp_path, only=["ks"])
