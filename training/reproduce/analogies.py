"""Word analogies, a : b = c : ?, with vectors that can be had offline, beside the published figures.

The answer is the word whose vector has the largest cosine with ``x_b + x_c - x_a``, the three words
excluded. Axis letters: Q questions, V words, D width.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.progress import Progress
from training.figures import Record, average, format_table
from training.reproduce import Options
from training.reproduce.word_vectors import Embedding, read_encoder, read_glove, read_sentences, train_cbow

STUDY = "analogies"
N_SEEDS, N_EPOCHS = 3, 10
KINDS = ("semantic", "syntactic", "overall")
METHODS = ("bert-type", "glove-type", "cbow")
PUBLISHED = {
    ("bert", "accuracy"): (0.641, 0.754, 0.727),
    ("glove", "accuracy"): (0.759, 0.692, 0.708),
    ("cbow", "accuracy"): (0.234, 0.667, 0.563),
    ("bert", "cosine"): (0.500, 0.610, 0.584),
    ("glove", "cosine"): (0.600, 0.610, 0.607),
    ("cbow", "cosine"): (0.504, 0.582, 0.564),
}
OWN, SHARED, UNIT = ", own questions", ", shared words", ", unit length"
# Scores of one chunk of questions against all words: 128 MB.
MOST_SCORES = 1 << 25

NOTE = """\
These are not the paper's embeddings, so the figures are neighbours of the published ones, not a repetition.
bert-type: the input embeddings of all-MiniLM-L6-v2 (384 numbers), a small encoder distilled from larger ones and then
tuned to compare sentences; only tokens that are whole words. glove-type: GloVe vectors of 100 numbers, as packed for
wink-nlp. cbow: trained here with negative sampling on the text that package indexes carry, some millions of words:
little for word2vec, and the likely reason that it stays below the published CBOW.
The questions differ too: which ones all three can answer hangs on their vocabularies. The published overall figures
fit a set of which 24 % are semantic; ours has another share, so compare by kind rather than overall.
Each embedding picks among its own words, and more words are harder; with "shared words" all pick among the same.
Vectors are added as they are; with "unit length" each is first brought to length one, as word2vec's tools do."""

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
Cosines = NDArray[np.float32]
Figures = dict[tuple[str, str], float]


@dataclass(frozen=True, eq=False)
class Questions:
    """``words`` (Q, 4): a, b, c and the answer, in lower case; ``category`` (Q,)."""

    words: NDArray[np.str_]
    category: NDArray[np.str_]

    def select(self, kind: str) -> Mask:
        """Which questions are semantic, syntactic (their category begins with "gram"), or any."""
        syntactic = np.char.startswith(self.category, "gram")
        if kind == "overall":
            return np.ones(len(syntactic), dtype=bool)
        return syntactic if kind == "syntactic" else ~syntactic


def read_questions(lines: Iterable[str]) -> Questions:
    """The common format: a line ": category", then lines of four words."""
    words, categories, category = [], [], ""
    for line in lines:
        if line.startswith(":"):
            category = line[1:].strip()
        elif line.strip():
            words.append(line.lower().split())
            categories.append(category)
    return Questions(np.asarray(words), np.asarray(categories))


def find_places(embedding: Embedding, questions: Questions) -> Places:
    """Where each word of each question stands in the embedding, (Q, 4); -1 where it does not."""
    at = {word: place for place, word in enumerate(embedding.words)}
    words, which = np.unique(questions.words, return_inverse=True)
    return np.asarray([at.get(str(word), -1) for word in words])[which.reshape(questions.words.shape)]


def solve(embedding: Embedding, places: Places, most_scores: int = MOST_SCORES) -> tuple[Mask, Cosines]:
    """Whether each question is answered rightly, and the cosine of x_b + x_c - x_a with the answer."""
    x = embedding.vectors
    unit = _scale(x)
    right, cosine = np.zeros(len(places), dtype=bool), np.zeros(len(places), dtype=np.float32)
    step = max(1, most_scores // len(x))
    for start in range(0, len(places), step):
        chunk = slice(start, start + step)
        a, b, c, answer = places[chunk].T
        scores = _scale(x[b] + x[c] - x[a]) @ unit.T  # (Q, V)
        row = np.arange(len(a))
        cosine[chunk] = scores[row, answer]
        scores[row[:, None], places[chunk, :3]] = -np.inf
        right[chunk] = scores.argmax(axis=1) == answer
    return right, cosine


def _scale(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same directions, length one."""
    scaled: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def measure(embedding: Embedding, questions: Questions, common: Mask, shared: set[str]) -> Figures:
    """All figures of one embedding: (case, metric) to value.

    On the ``common`` questions: picking among its own words; the same with all vectors brought to length one
    first; picking among the ``shared`` words. And on all questions it can answer, among its own words.
    """
    places = find_places(embedding, questions)
    own: Mask = np.all(places >= 0, axis=1)
    among_own = _solve_some(embedding, questions, own)
    scaled = Embedding(embedding.words, _scale(embedding.vectors))
    sets = {
        "": (common, *among_own),
        UNIT: (common, *_solve_some(scaled, questions, common)),
        SHARED: (common, *_solve_some(embedding.keep(shared), questions, common)),
        OWN: (own, *among_own),
    }
    figures: Figures = {}
    for suffix, (asked, right, cosine) in sets.items():
        for kind in KINDS:
            figures |= _summarize(kind + suffix, asked & questions.select(kind), right, cosine)
    for category in dict.fromkeys(questions.category.tolist()):
        chosen = common & (questions.category == category)
        figures |= _summarize(category, chosen, among_own[0], among_own[1])
    return figures


def _solve_some(embedding: Embedding, questions: Questions, asked: Mask) -> tuple[Mask, Cosines]:
    right, cosine = np.zeros(len(asked), dtype=bool), np.zeros(len(asked), dtype=np.float32)
    right[asked], cosine[asked] = solve(embedding, find_places(embedding, questions)[asked])
    return right, cosine


def _summarize(case: str, asked: Mask, right: Mask, cosine: Cosines) -> Figures:
    if not asked.any():
        return {}
    accuracy, mean = float(right[asked].mean()), float(cosine[asked].mean())
    return {(case, "questions"): float(asked.sum()), (case, "accuracy"): accuracy, (case, "cosine"): mean}


def compare(embeddings: Mapping[str, Sequence[Embedding]], questions: Questions) -> list[Record]:
    """The figures of each method, averaged over its embeddings (one per seed), and the published ones."""
    first = {method: runs[0] for method, runs in embeddings.items()}
    common = np.all([(find_places(e, questions) >= 0).all(axis=1) for e in first.values()], axis=0)
    shared = set.intersection(*(set(e.words) for e in first.values()))
    records = []
    for method, runs in embeddings.items():
        found = [measure(embedding, questions, common, shared) for embedding in runs]
        records += [average(STUDY, *_split(method, key), [figures[key] for figures in found]) for key in found[0]]
    for (method, metric), values in PUBLISHED.items():
        for kind, value in zip(KINDS, values, strict=True):
            records.append(Record(STUDY, kind, method, metric, value, source="published"))
    return records


def _split(method: str, key: tuple[str, str]) -> tuple[str, str, str]:
    case, metric = key
    return case, method, metric


def run(options: Options) -> list[Record]:
    """Fetch what is missing, train CBOW, ask all questions, print the tables."""
    from gensim.test.utils import datapath

    quick, progress = options.quick, Progress()
    folder = Path(os.environ.get("TABGLOT_REPRO", "var/repro"))
    seeds = range(options.n_seeds or (1 if quick else N_SEEDS))
    questions = read_questions(Path(datapath("questions-words.txt")).read_text(encoding="utf-8").splitlines())
    progress.say(f"reading word vectors and text from {folder} (fetched first where missing: about 300 MB)")
    encoder, glove, sentences = read_encoder(folder), read_glove(folder), read_sentences(folder)
    if quick:
        glove = Embedding(glove.words[:30_000], glove.vectors[:30_000])
        questions = Questions(questions.words[::10], questions.category[::10])
        sentences = sentences[::5]
    n_words = sum(map(len, sentences))
    progress.say(f"training cbow on {n_words:,} words")
    cbow = [train_cbow(sentences, seed, 1 if quick else N_EPOCHS, progress) for seed in seeds]
    progress.say(f"asking {len(questions.words):,} questions")
    embeddings = dict(zip(METHODS, ([encoder], [glove], cbow), strict=True))
    records = compare(embeddings, questions)
    sizes = ", ".join(f"{method} {len(runs[0].words):,}" for method, runs in embeddings.items())
    print(f"{len(questions.words):,} questions; words: {sizes}")
    print(f"cbow: {n_words:,} words of text, seeds {', '.join(map(str, seeds))}; mean ± standard error\n")
    print_tables(records)
    return records


def print_tables(records: Sequence[Record]) -> None:
    """Ours beside the published figures, then on each embedding's own questions, then by category."""
    by = {(r.case, r.method, r.metric, r.source): r for r in records}

    def cell(case: str, method: str, metric: str, source: str = "run") -> str:
        record = by.get((case, method, metric, source))
        if record is None:
            return "-"
        if metric == "questions":
            return f"{record.value:,.0f}"
        return f"{record.value:.3f}" + ("" if record.stderr is None else f" ± {record.stderr:.3f}")

    def show(title: str, metric: str, suffix: str, *, published: bool, counted: bool) -> None:
        head, rows = [""], []
        for kind in KINDS:
            head += [kind, *(["paper"] if published else []), *(["questions"] if counted else [])]
        for method in METHODS:
            row = [method]
            for kind in KINDS:
                row.append(cell(kind + suffix, method, metric))
                row += [cell(kind, method.removesuffix("-type"), metric, "published")] if published else []
                row += [cell(kind + suffix, method, "questions")] if counted else []
            rows.append(row)
        print(f"{title}\n\n{format_table(head, rows)}\n")

    counts = ", ".join(f"{cell(kind, METHODS[0], 'questions')} {kind}" for kind in KINDS)
    show(f"Accuracy on the questions all three can answer ({counts})", "accuracy", "", published=True, counted=False)
    show("Mean cosine with the answer, same questions", "cosine", "", published=True, counted=False)
    show("Accuracy, same questions, unit length", "accuracy", UNIT, published=False, counted=False)
    show("Accuracy, same questions, shared words", "accuracy", SHARED, published=False, counted=False)
    show("Accuracy on each one's own questions", "accuracy", OWN, published=False, counted=True)
    show("Mean cosine on each one's own questions", "cosine", OWN, published=False, counted=False)
    categories = dict.fromkeys(r.case for r in records if r.case.partition(",")[0] not in KINDS)
    rows = [
        [case, cell(case, METHODS[0], "questions"), *(cell(case, m, "accuracy") for m in METHODS)]
        for case in categories
    ]
    print(f"Accuracy by category\n\n{format_table(['category', 'questions', *METHODS], rows)}\n\n{NOTE}")
