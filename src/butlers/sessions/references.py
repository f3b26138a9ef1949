"""Find what a short prompt means that only points to the answer before it: "do it", "option 2"."""

import re

from butlers.kernel.word_tables import expression, load_tables

_LONGEST = 60
_TABLES = load_tables(__file__)
_NUMBERS = {word: number for number, words in _TABLES["numbers"].items() for word in words}
_NUMBER = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_POINTS = expression(_TABLES["points"])
_OPTION = expression(_TABLES["option"].replace("{number}", _NUMBER))
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
