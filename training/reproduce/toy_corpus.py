"""The toy corpus of the paper's section on embeddings: do inner products mirror co-occurrence?

Axis letters: N sentences, U distinct bags of context words, V words, D width.

Two models learn to fill in each word of each sentence from the four others. For both, the logit of
word i that context word j brings, ``w_i . c_j``, is set beside what the theory says it follows:
``p(w_i, c_j) / p(c_j)`` (rank correlation) and its logarithm (Pearson, where p > 0).

- **cbow**: ``w_i . c_j`` is output row i times input row j; p counts pairs (word, word of its context).
- **attention**: the paper's linear layer without feature encodings, as its gate
  ``tau_j = exp(c_j' Wkq c_mask / sqrt(dw))`` has none. Here w_i is row i of ``Wl = W2 + W2 W1`` and the
  context vector of word j is ``Wo' Wv c_j``, so ``w_i . c_j = (Wl Wo' Wv c_j)_i``; p is p_bar, in which
  a pair counts as much as its gate. The masked cell is heard too, as in the model; it is no word, so
  its gate takes part in the softmax but not in p_bar. The constant ``g = Wl c_mask``, the same in every
  expert, is left out of ``w . c``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import Tensor, nn

from model.progress import Progress
from training.figures import Record, average, format_table
from training.reproduce import Options

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STUDY = "toy-corpus"
SUBJECTS = ("mathematics", "statistics", "sociology", "history")
ADJECTIVES = ("fun", "boring", "easy", "difficult")
WORDS = ("I", "like", "and", "is", *SUBJECTS, *ADJECTIVES)
ME, LIKE, AND, IS = range(4)
SUBJECT, ADJECTIVE = WORDS.index(SUBJECTS[0]), WORDS.index(ADJECTIVES[0])
LIKED = np.asarray([4.0, 5.0, 1.0, 1.0])
# How well each adjective (column) goes with each subject (row).
SCORES = np.asarray([[4.0, 2, 4, 2], [6, 0, 5, 1], [1, 5, 2, 4], [0, 6, 0, 6]])

DIMENSIONS = (30, 100, 300, 900)
PUBLISHED = {"spearman": (0.74, 0.77, 0.77, 0.77), "pearson": (0.67, 0.71, 0.70, 0.71)}
N_SENTENCES, N_SEEDS = 10_000, 5
# The figures are read when the loss comes so near (nats) to the least that any model can reach, the
# entropy of a word given its bag: so all dimensions are compared at the same quality of fit.
GAPS = (0.5, 0.2, 0.1, 0.05, 0.03)
GAP = 0.05
PATH_DIMENSION = 100
MOST_STEPS = 5000
TITLES = {
    "spearman": "Spearman of w.c with p(w, c) / p(c)",
    "pearson": "Pearson of w.c with its logarithm, where p > 0",
    "asymmetry": "Asymmetry of p (cbow) and of p_bar (attention)",
}

NOTE = f"""\
How long CBOW was trained for the published figures is not known here, and the correlations hang on it: they are
high early, while a model knows little more than which words meet, and sink as it learns whole contexts.
Ours are read at a point we chose, {GAP} nats above the entropy of a word given its context; the last table shows the
way there.
Words of a sentence are drawn independently, so a subject or an adjective may come twice in one.
Attention: w.c is (Wl Wo' Wv c_j)_i, set beside the gate-weighted p_bar; nothing is published for it. Its figures
also hang on the start of its weights (Glorot's here). Asymmetry is half the sum of |p(i, j) - p(j, i)|: 0 when
symmetric, as p is by construction, and 1 at most; the theory's linear analogies need it to be small."""


def write_sentences(n_sentences: int, rng: np.random.Generator) -> Ints:
    """Sentences of five words, as places in WORDS, (N, 5): the three types are equally likely."""

    def draw(weights: Floats) -> Ints:
        below = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[:, :-1]
        drawn: Ints = (rng.random((n_sentences, 1)) >= below).sum(axis=1)
        return drawn

    flat = np.ones((n_sentences, len(SUBJECTS)))
    a, b = draw(flat * LIKED), draw(flat * LIKED)
    c, d = draw(flat), draw(flat)
    both, one, other = draw(SCORES[c] + SCORES[d]), draw(SCORES[c]), draw(SCORES[c])
    likes = (ME, LIKE, SUBJECT + a, AND, SUBJECT + b)
    pairs = (SUBJECT + c, AND, SUBJECT + d, IS, ADJECTIVE + both)
    praise = (SUBJECT + c, IS, ADJECTIVE + one, AND, ADJECTIVE + other)
    types = np.stack([np.stack(np.broadcast_arrays(*words), axis=1) for words in (likes, pairs, praise)])  # (3, N, 5)
    sentences: Ints = types[rng.integers(3, size=n_sentences), np.arange(n_sentences)]
    return sentences


@dataclass(frozen=True, eq=False)
class Tasks:
    """Every word of every sentence, to be told from the rest, with equal bags put together.

    ``bags`` (U, V) count the context words; ``targets`` (U, V) is the share of all tasks that has
    this bag and this word; ``floor`` is the least loss that any model can reach.
    """

    bags: Floats
    targets: Floats
    floor: float


def make_tasks(sentences: Ints) -> Tasks:
    """Mask each word in turn. Neither model sees the order, so few distinct bags carry all sentences."""
    counts = np.eye(len(WORDS))[sentences]  # (N, 5, V)
    rest = (counts.sum(axis=1, keepdims=True) - counts).reshape(-1, len(WORDS))
    bags, which = np.unique(rest, axis=0, return_inverse=True)
    targets = np.zeros_like(bags)
    np.add.at(targets, (which.ravel(), sentences.ravel()), 1.0 / sentences.size)
    given = targets / targets.sum(axis=1, keepdims=True)
    seen = targets > 0
    return Tasks(bags, targets, float(-(targets[seen] * np.log(given[seen])).sum()))


class View(NamedTuple):
    """A model at one moment: its logits (U, V), how it weighs each bag's words (U, V), its w . c (V, V)."""

    logits: Tensor
    gates: Tensor
    product: Tensor


class Cbow(nn.Module):
    """Input embeddings averaged over the context, then a full softmax: no negative sampling."""

    def __init__(self, n_words: int, d_model: int) -> None:
        super().__init__()
        self.context, self.word = _small(n_words, d_model), _small(n_words, d_model)

    def forward(self, bags: Tensor) -> View:
        gates = bags / bags.sum(1, keepdim=True)
        product = self.word @ self.context.T  # (V, V): word, context
        return View(gates @ product.T, gates, product)


class Attention(nn.Module):
    """The paper's layer with one head and no encodings; the last embedding is [MASK].

    Without encodings a word's gate and expert are the same in every sentence, so both are computed
    once per word and only mixed per bag.
    """

    def __init__(self, n_words: int, d_model: int) -> None:
        super().__init__()
        self.embedding = _small(n_words + 1, d_model)
        self.query, self.key, self.value, self.out, self.feed = (_glorot(d_model, d_model) for _ in range(5))
        self.head = _glorot(n_words, d_model)

    def forward(self, bags: Tensor) -> View:
        mask = self.embedding[-1]
        scores = self.embedding @ self.key.T @ (self.query @ mask) * len(mask) ** -0.5  # (V + 1,)
        tau = (scores - scores.max()).exp()
        gates = torch.cat([bags, bags.new_ones(len(bags), 1)], dim=1) * tau
        gates = gates / gates.sum(1, keepdim=True)  # (U, V + 1)
        linear = self.head + self.head @ self.feed
        experts = self.embedding @ self.value.T @ self.out @ linear.T  # (V + 1, V): context, word
        constant = linear @ mask
        return View(gates @ experts + constant, gates[:, :-1], experts[:-1].T)


def _small(n_rows: int, d_model: int) -> nn.Parameter:
    return nn.Parameter((torch.rand(n_rows, d_model) * 2 - 1) * 0.05)


def _glorot(d_out: int, d_in: int) -> nn.Parameter:
    return nn.Parameter((torch.rand(d_out, d_in) * 2 - 1) * (6.0 / (d_in + d_out)) ** 0.5)


METHODS: dict[str, type[Cbow] | type[Attention]] = {"cbow": Cbow, "attention": Attention}


def count_pairs(tasks: Tasks, gates: Floats) -> Floats:
    """p(w_i, c_j), (V, V): how often word i is asked for beside word j, each time weighed by j's gate."""
    pairs = tasks.targets.T @ gates
    shares: Floats = pairs / pairs.sum()
    return shares


def correlate(product: Floats, pairs: Floats) -> dict[str, float]:
    """Spearman of w . c with p(w, c) / p(c) over all pairs, Pearson with its logarithm where p > 0."""
    ratio, met = pairs / pairs.sum(axis=0), pairs > 0
    return {
        "spearman": float(spearmanr(product.ravel(), ratio.ravel()).statistic),
        "pearson": float(pearsonr(product[met], np.log(ratio[met])).statistic),
    }


Figures = dict[tuple[float, str], float]
Found = dict[tuple[str, int, float, str], list[float]]


def train(model: nn.Module, tasks: Tasks, gaps: Sequence[float]) -> Figures:
    """Whole-corpus Adam steps until the last gap is reached; the figures at each: (gap, metric) to value.

    A gap that is out of reach within MOST_STEPS is left out.
    """
    bags, targets = (torch.from_numpy(x).float() for x in (tasks.bags, tasks.targets))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    figures: Figures = {}
    left = list(gaps)
    for _ in range(MOST_STEPS):
        view: View = model(bags)
        loss = -(targets * view.logits.log_softmax(1)).sum()
        while left and loss.item() <= tasks.floor + left[0]:
            gap = left.pop(0)
            figures |= {(gap, metric): value for metric, value in _measure(view, tasks).items()}
        if not left:
            break
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return figures


def _measure(view: View, tasks: Tasks) -> dict[str, float]:
    pairs = count_pairs(tasks, view.gates.detach().double().numpy())
    found = correlate(view.product.detach().double().numpy(), pairs)
    return found | {"asymmetry": float(np.abs(pairs - pairs.T).sum()) / 2}


def run(options: Options) -> list[Record]:
    """Train both models for every dimension and seed; print the figures beside the published ones."""
    quick = options.quick
    dimensions: Sequence[int] = DIMENSIONS[:2] if quick else DIMENSIONS
    gaps: Sequence[float] = GAPS[:-1] if quick else GAPS
    n_sentences = 2000 if quick else N_SENTENCES
    seeds = range(options.n_seeds or (1 if quick else N_SEEDS))
    progress = Progress()
    progress.start(f"{n_sentences:,} sentences of 5 words, seeds {', '.join(map(str, seeds))}")
    found: Found = {}
    for done, (seed, d_model) in enumerate((s, d) for s in seeds for d in dimensions):
        tasks = make_tasks(write_sentences(n_sentences, np.random.default_rng(seed)))
        for method, kind in METHODS.items():
            torch.manual_seed(seed)
            for (gap, metric), value in train(kind(len(WORDS), d_model), tasks, gaps).items():
                found.setdefault((method, d_model, gap, metric), []).append(value)
        progress.update((done + 1) / (len(seeds) * len(dimensions)), f"seed {seed}, dimension {d_model}")
    progress.close()
    records = _make_records(found, dimensions)
    print(f"{n_sentences:,} sentences, seeds {', '.join(map(str, seeds))}; mean ± standard error\n")
    _print(records, dimensions, gaps)
    return records


def _make_records(found: Found, dimensions: Sequence[int]) -> list[Record]:
    records = []
    for (method, d_model, gap, metric), values in found.items():
        if gap == GAP:
            records.append(average(STUDY, f"dimension {d_model}", method, metric, values))
        if d_model == PATH_DIMENSION:
            records.append(average(STUDY, f"dimension {d_model}, gap {gap}", method, metric, values))
    for metric, published in PUBLISHED.items():
        for d_model, value in zip(DIMENSIONS, published, strict=True):
            if d_model in dimensions:
                records.append(Record(STUDY, f"dimension {d_model}", "cbow", metric, value, source="published"))
    return records


def _print(records: Sequence[Record], dimensions: Sequence[int], gaps: Sequence[float]) -> None:
    by = {(r.case, r.method, r.metric, r.source): r for r in records}

    def cell(case: str, method: str, metric: str, source: str = "run") -> str:
        record = by.get((case, method, metric, source))
        if record is None:
            return "-"
        return f"{record.value:.2f}" + ("" if record.stderr is None else f" ± {record.stderr:.3f}")

    def show(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        print(f"{title}\n\n{format_table(head, rows)}\n")

    for metric, title in TITLES.items():
        rows = []
        for case in (f"dimension {d}" for d in dimensions):
            paper = [cell(case, "cbow", metric, "published")] if metric in PUBLISHED else []
            rows.append([case, *paper, *(cell(case, method, metric) for method in METHODS)])
        show(title, ["", *(["cbow (paper)"] if metric in PUBLISHED else []), *METHODS], rows)
    both = [(method, metric) for method in METHODS for metric in PUBLISHED]
    rows = [[str(gap), *(cell(f"dimension {PATH_DIMENSION}, gap {gap}", *pair) for pair in both)] for gap in gaps]
    show(f"Along the training, dimension {PATH_DIMENSION}", ["gap (nats)", *(" ".join(pair) for pair in both)], rows)
    print(NOTE)
