"""Which of the ten categories a note belongs to, judged by its words."""

from butlers.notebook.model import CategoryResult, MemoryCategory
from butlers.notebook.tokens import words

CONFIDENCE_FLOOR = 0.1
_KEY_WEIGHT = 2
"""A word of the key says more than a word of the content: somebody chose it as a name."""

_KEYWORDS: dict[MemoryCategory, frozenset[str]] = {
    category: frozenset(vocabulary.split())
    for category, vocabulary in {
        MemoryCategory.CONFIG: """
            config configs configuration configure configured setting settings env environment
            option options parameter parameters flag flags default defaults port host hostname
            timeout yaml toml ini dotenv variable variables""",
        MemoryCategory.CODE: """
            code function functions class classes method methods bug bugs refactor compile compiler
            api apis endpoint repository repo git github gitlab commit commits branch merge module
            library import test tests python typescript javascript rust java sql script snippet
            algorithm stacktrace exception debug""",
        MemoryCategory.PERSON: """
            person people name named email phone contact contacts colleague friend wife husband
            mother father daughter son manager boss birthday born lives he she user team member
            teammate""",
        MemoryCategory.PROJECT: """
            project projects milestone milestones roadmap release releases sprint deliverable
            deliverables launch scope stakeholder stakeholders kickoff backlog epic""",
        MemoryCategory.CREDENTIAL: """
            credential credentials password passwords passphrase secret secrets token tokens apikey
            login auth oauth bearer certificate ssh pem wallet mnemonic""",
        MemoryCategory.PREFERENCE: """
            preference preferences prefer prefers preferred like likes dislike dislikes favorite
            favourite love loves hate hates always never style theme rather""",
        MemoryCategory.FACT: """
            fact facts definition defined means located capital population consists equals known
            discovered founded invented history""",
        MemoryCategory.CONVERSATION: """
            conversation conversations chat chats discussed discussion talked said asked replied
            mentioned meeting call message messages thread dialogue spoke told""",
        MemoryCategory.TASK: """
            task tasks todo todos reminder remind deadline due schedule scheduled finish complete
            completed assign assigned action pending priority""",
    }.items()
}
# Names that only say what they are when read as a whole.
_KEY_PATTERNS: tuple[tuple[MemoryCategory, tuple[str, ...]], ...] = (
    (MemoryCategory.CREDENTIAL, ("api", "key")),
    (MemoryCategory.CREDENTIAL, ("access", "key")),
    (MemoryCategory.CREDENTIAL, ("private", "key")),
    (MemoryCategory.CONFIG, ("feature", "flag")),
    (MemoryCategory.TASK, ("to", "do")),
    (MemoryCategory.TASK, ("follow", "up")),
)
_PATTERN_WEIGHT = 4


def all_categories() -> list[MemoryCategory]:
    """The ten categories."""
    return list(MemoryCategory)


def categorize(key: str, content: str) -> CategoryResult:
    """The category most of the keywords point to; `general`, with confidence 0, where none does."""
    points = _points(words(key), frozenset(words(content)))
    best = max(points, key=points.__getitem__)
    if points[best] == 0:
        return CategoryResult(MemoryCategory.GENERAL, 0.0)
    # The winner's share of all points, trusted the more the more points there are.
    confidence = points[best] / sum(points.values()) * (1 - 0.5 ** points[best])
    return CategoryResult(best, max(CONFIDENCE_FLOOR, confidence))


def _points(key: list[str], content: frozenset[str]) -> dict[MemoryCategory, int]:
    names = frozenset(key)
    points = {
        category: _KEY_WEIGHT * len(vocabulary & names) + len(vocabulary & content)
        for category, vocabulary in _KEYWORDS.items()
    }
    pairs = set(zip(key, key[1:], strict=False))
    for category, pattern in _KEY_PATTERNS:
        points[category] += _PATTERN_WEIGHT * (pattern in pairs)
    return points
