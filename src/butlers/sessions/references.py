"""Find what a short prompt means that only points to the answer before it: "do it", "option 2"."""

import re

_LONGEST = 60
_NUMBERS = {
    **dict.fromkeys(("1", "a", "first", "erste", "ersten", "primera", "première"), 1),
    **dict.fromkeys(("2", "b", "second", "zweite", "zweiten", "segunda", "deuxième"), 2),
    **dict.fromkeys(("3", "c", "third", "dritte", "dritten", "tercera", "troisième"), 3),
    **dict.fromkeys(("4", "d", "fourth", "vierte", "vierten", "cuarta", "quatrième"), 4),
}
_NUMBER = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_POINTS = re.compile(
    r"\b(?:do|make|try|use|take|apply|implement|go (?:with|for|ahead)(?: and do)?) "
    r"(?:it|that|this|them|so|the same)\b"
    r"|\b(?:mach|nimm|probier|versuch)\w* (?:das|es|so|mal)\b|\bhazlo\b|\bfais[- ](?:le|ça)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"\b(?:option|number|variant|version|approach|plan|variante|nummer|opción|numéro) ?#?"
    rf"(?P<number>{_NUMBER})\b"
    rf"|\b(?:the|die|den|das|la|el|le) (?P<word>{_NUMBER})(?: (?:one|option|variante))?\b",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"^[ \t>*_#-]*(?:option |variante? |plan )?\(?(?P<number>\d|[a-d])[).:]\*{0,2}[ \t]+"
    r"(?P<text>\S.*)",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_CHARACTERS = 600


def text_referred_to(prompt: str, last_answer: str) -> str:
    """Return the part of the last answer that a prompt points to; "" where it points to none.

    >>> text_referred_to("option 2 please", "1. Use Redis\\n2. Use a table\\nWhich?")
    'Use a table'
    """
    if len(prompt) > _LONGEST or not last_answer:
        return ""
    if option := _OPTION.search(prompt):
        wanted = _NUMBERS[(option["number"] or option["word"]).lower()]
        items = _ITEM.finditer(last_answer)
        chosen = [i["text"] for i in items if _NUMBERS.get(i["number"].lower()) == wanted]
        return chosen[-1][:_MOST_CHARACTERS] if chosen else ""
    return last_answer[-_MOST_CHARACTERS:] if _POINTS.search(prompt) else ""
