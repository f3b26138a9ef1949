"""Choose the sentences of an agent's answer that say what was found, changed, measured and why."""

import re
from collections.abc import Iterable, Iterator, Sequence

from butlers.kernel.secrets import masked
from butlers.kernel.text import normalise_whitespace
from butlers.kernel.word_tables import expression, load_tables
from butlers.sessions import spoken
from butlers.sessions.echo import RECALLED, Echo

PIECE = 480
"""Characters of a piece of an answer."""
_MOST_PIECES = 3
_READ, _LONGEST, _SHORTEST = 40_000, 420, 18
_PATTERNS = {
    name: expression(*texts) for name, texts in load_tables(__file__, "pieces.toml").items()
}
_FENCED = re.compile(
    r"^[ \t]*(```|~~~)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_ROW = re.compile(r"^[ \t]*\|(.+)$", re.MULTILINE)
_RULED = re.compile(r"^[ \t]{0,40}[-=*_| :]{3,}+$", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*#{1,6} +")
_MARKUP = re.compile(
    r"(?<![\w*])\*\*(?=\S)|(?<=\S)\*\*(?![\w*])|(?<![\w_])__(?=\S)|(?<=\S)__(?![\w_])"
    r"|[✅❌⚠✓✔✗🎉🚀🔧📝⭐]\ufe0f? ?"
)
_NAMES = re.compile(
    r"`[^`\n]+`|\b\w+(?:[_./:-]\w+)+\b|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w+|(?<!\w)--?[a-z][\w-]+"
    r"|\b[A-Z]{2,}\b|/\w+"
)
_NUMBER = re.compile(r"\d")


def matches(name: str, sentence: str) -> re.Match[str] | None:
    """Return where a sentence has an expression of `pieces.toml`."""
    return _PATTERNS[name].search(sentence)


def sentences_of(text: str) -> list[str]:
    """List the sentences of an answer in Markdown: bullets, rows and headings are some too."""
    text = _FENCED.sub(_short_code, text[:_READ])
    text = _ROW.sub(lambda row: "- " + " | ".join(filter(None, _cells(row[1]))), text)
    text = spoken.without_pasted(_RULED.sub("", text))
    lines = (_HEADING.sub("", spoken.PASTED_NOTE.sub("", line)) for line in text.split("\n"))
    found = (one for line in lines for one in spoken.sentences(_MARKUP.sub("", line)))
    plain = (normalise_whitespace(spoken.unlisted(sentence)).strip("- ") for sentence in found)
    return [sentence for sentence in plain if any(map(str.isalpha, sentence))]


def _short_code(block: re.Match[str]) -> str:
    """Keep a block of one line, which is a command or a name, as part of the text."""
    code = block[2].strip()
    return f"`{code}`" if "\n" not in code and 0 < len(code) <= 120 else "\n"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|") if cell.strip(" -:")]


def is_filler(sentence: str) -> bool:
    """Whether a sentence announces a step, offers more or is polite, and says nothing else."""
    return (matches("filler", sentence) or matches("offer", sentence)) is not None


def weigh(sentence: str) -> float:
    """Return how much a sentence says: names, numbers, results, causes, what is not."""
    if len(sentence) < _SHORTEST or sentence.endswith("?"):
        return 0.0
    named = 0.6 * min(2, len(_NAMES.findall(sentence))) + 0.5 * bool(_NUMBER.search(sentence))
    tells = 1.0 * bool(matches("result", sentence)) + 1.2 * bool(matches("cause", sentence))
    tells += 0.7 * bool(matches("firm", sentence))
    # A list of names and numbers says nothing without a verb; nor does what only announces a list.
    weight = named + tells if tells else min(named, 0.5)
    if sentence.endswith((":", "：")):
        weight -= 1.0
    return weight - (2.5 if is_filler(sentence) else 0.0)


def gists(texts: Sequence[str], echo: Echo) -> list[str]:
    """Return what an answer says in a few pieces, without what repeats a memory; often one."""
    weighed = list(_weighed(texts, echo))
    worth = sorted((one for one in weighed if one[0] >= 1.0), key=lambda one: -one[0])
    if not worth:
        # What the agent proposes is worth keeping where it says nothing else.
        worth = [one for one in weighed if one[0] >= -1.5 and matches("proposing", one[2])][-2:]
    chosen: list[tuple[float, int, str]] = []
    pieces: list[str] = []
    for one in worth:
        more = sorted([*chosen, one], key=lambda each: each[1])
        packed = pack((text for _, _, text in more), PIECE)
        if len(packed) <= _MOST_PIECES:
            chosen, pieces = more, packed
    return pieces


def _weighed(texts: Sequence[str], echo: Echo) -> Iterator[tuple[float, int, str]]:
    """Yield each sentence once with its weight and its number; the last text says most."""
    seen: set[str] = set()
    for number, text in enumerate(texts):
        clean = masked(echo.without(text[:_READ]).replace(RECALLED, "\n")).text
        ends = 0.9 if number == len(texts) - 1 else -0.3
        for sentence in sentences_of(clean):
            key = sentence.casefold()
            if key not in seen:
                seen.add(key)
                yield weigh(sentence) + ends, len(seen), shorten(sentence, _LONGEST)


def pack(sentences: Iterable[str], limit: int) -> list[str]:
    """Join sentences in their order to texts of about this length."""
    texts: list[str] = []
    for sentence in sentences:
        ended = sentence if sentence.endswith((".", "!", "?", ":", ";", "…")) else f"{sentence}."
        if texts and len(texts[-1]) + len(ended) < limit:
            texts[-1] += f" {ended}"
        else:
            texts.append(ended)
    return texts


def shorten(text: str, limit: int) -> str:
    """Cut a text at a word."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rpartition(" ")[0].rstrip(" ,;:") + "…"
