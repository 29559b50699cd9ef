"""Ragged text in one pass: paragraphs are segments, documents are the rows of a vmap.

For every word of every document this computes, starting afresh in each paragraph,

    position   how many words of the paragraph come before it   (exclusive sum of ones)
    longest    the longest word so far                          (maximum of word lengths)
    score      score = 0.5 * score + word length                (an affine operator)

in one jitted function, and compares all of it with a loop in NumPy.

    python examples/ragged_batch.py              the help texts that come with Python
    python examples/ragged_batch.py FILE         a text of your own, in UTF-8

In a file of your own form feeds separate documents and blank lines separate paragraphs. Words are
runs of letters, digits and underscores, with hyphens and apostrophes inside. The exit status is 0
only if every number agrees.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import operators

DECAY = 0.5
WORD = re.compile(r"\w+(?:['’-]\w+)*")
BLANK_LINES = re.compile(r"\n\s*\n")
KERNEL_CALLS = {"__gpu$xla.gpu.triton": "Pallas on Triton", "triton_kernel_call": "jax-triton"}
"""What a lowered program calls to run a GPU kernel, by engines."""


@dataclasses.dataclass(frozen=True)
class Document:
    """A text as a list of paragraphs, each a list of words."""

    name: str
    paragraphs: list[list[str]]

    @property
    def words(self) -> list[str]:
        """The words of all paragraphs, one after another."""
        return [word for paragraph in self.paragraphs for word in paragraph]


def document(name: str, text: str) -> Document:
    """The words of each paragraph of ``text``; a paragraph without any is left out."""
    paragraphs = [WORD.findall(paragraph) for paragraph in BLANK_LINES.split(text)]
    return Document(name, [words for words in paragraphs if words])


def documents_of_python() -> list[Document]:
    """The texts behind ``help("assert")`` and its like."""
    return [document(name, text) for name, text in topics.items()]


def documents_of_file(path: Path) -> list[Document]:
    """The documents of a text file.

    Raises:
      ValueError: the file cannot be read, is not UTF-8, or has no words.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    parts = text.split("\f")
    names = [path.name] if len(parts) == 1 else [f"{path.name}:{i + 1}" for i in range(len(parts))]
    documents = [document(name, part) for name, part in zip(names, parts, strict=True)]
    documents = [doc for doc in documents if doc.paragraphs]
    if not documents:
        raise ValueError(f"{path} has no words in it")
    return documents


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of unequal length as one int32 array, filled up with zeros."""
    array = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array


def annotate(lengths: jax.Array, words_in_paragraph: jax.Array) -> dict[str, jax.Array]:
    """Position, longest word and score of every word of one document.

    Args:
      lengths: ``(words,)``, the length of each word; 0 in the padding.
      words_in_paragraph: ``(paragraphs,)``; 0 in the padding. What lies behind the last paragraph
        becomes a segment of its own, so that no number leaks into the padding or out of it.
    """
    paragraphs = jscan.Segments.from_lengths(words_in_paragraph, total=lengths.shape[0])
    sizes = lengths.astype(jnp.float32)
    decay = jnp.full_like(sizes, DECAY)
    _, score = jscan.associative_scan(operators.affine, (decay, sizes), segments=paragraphs)
    return {
        "position": jscan.cumsum(jnp.ones_like(lengths), exclusive=True, segments=paragraphs),
        "longest": jscan.cummax(lengths, segments=paragraphs),
        "score": score,
    }


def annotate_in_numpy(doc: Document) -> dict[str, np.ndarray]:
    """The same for one document, word by word."""
    positions, maxima, scores = [], [], []
    for paragraph in doc.paragraphs:
        longest, score = 0, 0.0
        for position, word in enumerate(paragraph):
            longest = max(longest, len(word))
            score = DECAY * score + len(word)
            positions.append(position)
            maxima.append(longest)
            scores.append(score)
    return {
        "position": np.array(positions),
        "longest": np.array(maxima),
        "score": np.array(scores),
    }


def disagreements(documents: Sequence[Document], results: dict[str, np.ndarray]) -> list[str]:
    """The first differences from the loop; integers must be equal, scores within rounding.

    Every term of a score is positive and every power of 0.5 is exact, so its relative error is at
    most a unit in the last place (6e-8) for each addition in a row, of which a scan makes few.
    """
    found = []
    for i, doc in enumerate(documents):
        for name, expected in annotate_in_numpy(doc).items():
            tolerance = 5e-6 if name == "score" else 0
            actual = results[name][i, : len(expected)]
            wrong = np.flatnonzero(~(abs(actual - expected) <= tolerance * expected))
            if wrong.size:
                t = wrong[0]
                found.append(f"{doc.name}, word {t}: {name} is {actual[t]}, not {expected[t]}")
    return found


def what_ran(program: str) -> str:
    """What the text of a lowered program calls, where it runs, and the versions."""
    counts = {name: program.count(f"@{call}") for call, name in KERNEL_CALLS.items()}
    kernels = [f"{count} GPU kernels ({name})" for name, count in counts.items() if count]
    kind = ", ".join(kernels) or "fallback in plain JAX"
    device = jax.devices()[0]
    return (
        f"{kind} on {device.platform} ({device.device_kind}); jscan {jscan.__version__}, "
        f"jax {jax.__version__}, Python {platform.python_version()}"
    )


def print_words(doc: Document, row: dict[str, np.ndarray]) -> None:
    """A few words of the first two paragraphs."""
    print(f"{doc.name}: the words around the end of its first paragraph")
    print(f"  {'word':24} {'length':>6} {'position':>8} {'longest':>7} {'score':>8}")
    end = len(doc.paragraphs[0])
    for t, word in list(enumerate(doc.words))[max(0, end - 5) : end + 7]:
        if t == end:
            print("  " + "-" * 57)
        numbers = f"{len(word):6} {row['position'][t]:8} {row['longest'][t]:7}"
        print(f"  {word[:24]:24} {numbers} {row['score'][t]:8.3f}")


def print_documents(documents: Sequence[Document], results: dict[str, np.ndarray]) -> None:
    """A line for each document, read off its words' numbers."""
    print(
        f"{'document':20} {'paragraphs':>10} {'words':>7} {'longest paragraph':>18}  longest word"
    )
    for i, doc in enumerate(documents):
        words = doc.words
        position, longest = (results[name][i, : len(words)] for name in ("position", "longest"))
        word = words[int(np.argmax(longest))]
        print(
            f"{doc.name[:20]:20} {np.sum(position == 0):10} {len(words):7} "
            f"{position.max() + 1:18}  {word[:40]} ({longest.max()})"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pipeline, print a little of it, and check all of it."""
    parser = argparse.ArgumentParser(description="Scans over paragraphs of many documents.")
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        help="UTF-8 text; form feeds separate documents, blank lines paragraphs "
        "(default: Python's own help texts)",
    )
    file: Path | None = parser.parse_args(arguments).file
    try:
        documents = documents_of_python() if file is None else documents_of_file(file)
    except ValueError as error:
        parser.error(str(error))

    lengths = padded([[len(word) for word in doc.words] for doc in documents])
    paragraphs = padded([[len(words) for words in doc.paragraphs] for doc in documents])
    lowered = jax.jit(jax.vmap(annotate)).lower(lengths, paragraphs)
    results = {name: np.asarray(x) for name, x in lowered.compile()(lengths, paragraphs).items()}

    print_words(documents[0], {name: x[0] for name, x in results.items()})
    print()
    print_documents(documents[:6], results)
    if len(documents) > 6:
        print(f"... and {len(documents) - 6} more")
    words = sum(len(doc.words) for doc in documents)
    print(f"\n{words} words of {len(documents)} documents, padded to {lengths.shape}")
    print(f"ran: {what_ran(lowered.as_text())}")
    found = disagreements(documents, results)
    for line in found[:10]:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if found else 'every number agrees with a loop in NumPy'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
