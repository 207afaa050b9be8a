"""The toy corpus has the paper's probabilities, and embeddings learnt on it follow its co-occurrences."""

import numpy as np
import pytest
import torch

from training.reproduce import Options
from training.reproduce.toy_corpus import (
    ADJECTIVES,
    GAP,
    SUBJECTS,
    WORDS,
    Attention,
    Cbow,
    correlate,
    count_pairs,
    make_tasks,
    run,
    train,
    write_sentences,
)

WORD = {word: place for place, word in enumerate(WORDS)}


@pytest.fixture(scope="module")
def sentences():
    return write_sentences(60_000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(write_sentences(2000, np.random.default_rng(0)))


def share(words, places):
    return np.bincount(words, minlength=len(WORDS))[[WORD[place] for place in places]] / len(words)


def test_the_three_sentence_types_are_equally_likely(sentences):
    assert np.mean(sentences[:, 0] == WORD["I"]) == pytest.approx(1 / 3, abs=0.01)
    assert np.mean(sentences[:, 3] == WORD["is"]) == pytest.approx(1 / 3, abs=0.01)
    assert np.mean(sentences[:, 1] == WORD["is"]) == pytest.approx(1 / 3, abs=0.01)


def test_liked_subjects_come_four_five_one_one(sentences):
    liked = sentences[sentences[:, 0] == WORD["I"]]
    assert (liked[:, 1] == WORD["like"]).all()
    assert (liked[:, 3] == WORD["and"]).all()
    for place in (2, 4):
        assert share(liked[:, place], SUBJECTS) == pytest.approx(np.asarray([4, 5, 1, 1]) / 11, abs=0.015)


def test_the_adjective_of_two_subjects_follows_their_summed_scores(sentences):
    pairs = sentences[sentences[:, 3] == WORD["is"]]
    assert share(pairs[:, 0], SUBJECTS) == pytest.approx([0.25] * 4, abs=0.015)
    chosen = pairs[(pairs[:, 0] == WORD["mathematics"]) & (pairs[:, 2] == WORD["history"])]
    assert share(chosen[:, 4], ADJECTIVES) == pytest.approx(np.asarray([4, 8, 4, 8]) / 24, abs=0.05)


def test_both_adjectives_of_a_subject_follow_its_scores(sentences):
    praise = sentences[(sentences[:, 1] == WORD["is"]) & (sentences[:, 0] == WORD["statistics"])]
    for place in (2, 4):
        assert share(praise[:, place], ADJECTIVES) == pytest.approx(np.asarray([6, 0, 5, 1]) / 12, abs=0.03)


def test_tasks_hold_every_word_once_and_its_four_neighbours(tasks):
    assert tasks.targets.sum() == pytest.approx(1.0)
    assert (tasks.bags.sum(axis=1) == 4).all()
    assert 0.0 < tasks.floor < np.log(len(WORDS))


def test_pairs_are_counted_over_the_rest_of_the_sentence():
    sentence = np.asarray([[WORD[word] for word in ("I", "like", "history", "and", "history")]])
    alone = make_tasks(sentence)
    pairs = count_pairs(alone, alone.bags)
    assert pairs == pytest.approx(pairs.T)
    assert pairs[WORD["I"], WORD["history"]] == pytest.approx(2 / 20)
    assert pairs[WORD["history"], WORD["history"]] == pytest.approx(2 / 20)
    assert pairs[WORD["I"], WORD["I"]] == 0.0


def test_products_that_are_the_logarithm_correlate_fully(tasks):
    pairs = count_pairs(tasks, tasks.bags)
    exact = np.log(np.maximum(pairs / pairs.sum(axis=0), 1e-9))
    assert correlate(exact, pairs) == pytest.approx({"spearman": 1.0, "pearson": 1.0})


def test_gates_and_experts_add_up_to_the_layer_of_the_paper():
    torch.manual_seed(0)
    model = Attention(len(WORDS), 8)
    bag = torch.zeros(1, len(WORDS))
    context = [WORD[word] for word in ("I", "history", "and", "history")]
    for word in context:
        bag[0, word] += 1
    mask = len(WORDS)
    cells = model.embedding[[*context, mask]]
    scores = (cells @ model.query.T) @ (cells @ model.key.T).T / 8**0.5
    state = cells + scores.softmax(-1) @ cells @ model.value.T @ model.out
    state = state + state @ model.feed.T
    assert model(bag).logits[0].tolist() == pytest.approx((model.head @ state[-1]).tolist(), abs=1e-6)


def test_cbow_recovers_the_statistic(tasks):
    torch.manual_seed(0)
    figures = train(Cbow(len(WORDS), 30), tasks, [0.5, GAP])
    assert figures[0.5, "spearman"] > 0.7
    assert figures[GAP, "spearman"] > 0.6
    assert figures[GAP, "pearson"] > 0.6
    assert figures[GAP, "asymmetry"] == pytest.approx(0.0, abs=1e-6)


def test_the_quick_form_sets_ours_beside_the_published_figures(capsys):
    records = run(Options(quick=True))
    printed = capsys.readouterr().out
    assert "cbow (paper)" in printed
    assert {(r.method, r.source) for r in records} == {("cbow", "run"), ("attention", "run"), ("cbow", "published")}
    ours = {(r.case, r.metric): r.value for r in records if r.method == "cbow" and r.source == "run"}
    assert ours["dimension 30", "spearman"] == pytest.approx(0.74, abs=0.1)
