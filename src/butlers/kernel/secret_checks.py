"""Tell secrets from ordinary words and numbers in the same position.

`secret_kinds.toml` names the check of each kind.
"""

import math
import re
from collections import Counter

from butlers.kernel.text import folded, stop_words
from butlers.kernel.word_tables import load_tables

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TABLES = load_tables(__file__)
_PLACEHOLDER, _PUBLIC, _NAMED = (
    re.compile("|".join(_TABLES[name]), re.IGNORECASE | re.DOTALL)
    for name in ("placeholder", "public", "named")
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_NOT_CHOSEN = frozenset(_TABLES["not_chosen"].split())
_SIGNED = re.compile(r"\w[!#$%&*+=@^~_]|[!#$%&*+=@^~_]\w")
_ENTROPY = 3.0
_LETTERS_AND_DIGITS = re.compile(r"[A-Za-z0-9]+")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_MOST_BARE = 400
"""Longer texts of this kind are data."""
_LEAST_CORE, _LEAST_PREFIXED_HEX = 14, 24
_LEAST_CHANGES, _LEAST_CHANGES_ONE_CASE = 0.4, 0.25
_AWS_ENTROPY = 4.2
_CARD_LENGTHS = {"3": (14, 15), "2": (16,), "4": (16,), "5": (16,), "6": (16,)}
_CARD = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3(?:4|7|0[0-5]|6|8)|6(?:011|4[4-9]|5)"
)


def has_digit(value: str) -> bool:
    """Whether it contains a digit."""
    return any(map(str.isdigit, value))


def is_key(value: str) -> bool:
    """Whether it is a key, possibly with stars in its middle, and not words with hyphens."""
    return has_digit(value) or "*" in value or max(map(len, value.split("-"))) >= 12


def is_mixed(value: str) -> bool:
    """Whether it mixes digits and letters of both cases, which no word does."""
    return has_digit(value) and value.lower() != value and value.upper() != value


def is_long_or_numbered(value: str) -> bool:
    """Whether it is too long for a user name, or has digits."""
    return has_digit(value) or len(value) >= 20


def is_credential(value: str) -> bool:
    """Whether it can follow `Bearer` or `Basic` in a header, where prose has a word."""
    return is_given(value) and (
        has_digit(value)
        or "=" in value
        or "." in value.strip(".")
        or len(value) >= 20
        or value[1:].lower() != value[1:]
    )


def is_given(value: str) -> bool:
    """Whether it is a value and not a placeholder."""
    return not _PLACEHOLDER.fullmatch(value)


def is_assigned(value: str) -> bool:
    """Whether it is a value and not a placeholder or a variable."""
    return is_given(value) and not _DOTTED.fullmatch(value)


def looks_chosen(value: str) -> bool:
    """Whether it could be a password: it has characters that no word has."""
    if not is_assigned(value):
        return False
    inner = value[1:].lower() != value[1:] and value.upper() != value
    return inner or has_digit(value) or _SIGNED.search(value) is not None


def is_uncommon(value: str) -> bool:
    """Whether it is no word that sentences about passwords usually end with."""
    return (
        is_given(value) and folded(value) not in stop_words() and value.lower() not in _NOT_CHOSEN
    )


def is_random(value: str) -> bool:
    """Whether it looks random: mixed letters and digits with high entropy."""
    bare = value.strip("=.-/_")
    if _UUID.fullmatch(bare):
        return True
    letters = sum(map(str.isalpha, bare))
    digits = sum(map(str.isdigit, bare))
    if letters < 4 or digits < 3 or any(sign in bare for sign in ("/", "://", "..")):
        return False
    pieces = re.split(r"[-_.]", bare)
    is_mixed_piece = any(len(piece) >= 10 and has_digit(piece) for piece in pieces)
    return is_mixed_piece and not _NAMED.search(bare) and _entropy(bare) >= _ENTROPY


def is_bare_key(value: str) -> bool:
    """Whether nothing but a key is so irregular: no word, hash, id, path or data."""
    core = max(_LETTERS_AND_DIGITS.findall(value), key=len)
    if (
        len(core) < _LEAST_CORE
        or len(value) > _MOST_BARE
        or _PUBLIC.match(value)
        or _NAMED.search(core)
    ):
        return False
    if _HEX.fullmatch(core):
        has_prefix = value.find(core) > 1 and value[0].isalpha()
        return has_prefix and len(core) >= _LEAST_PREFIXED_HEX and not _UUID.search(value)
    sorts = [(letter.isdigit(), letter.isupper()) for letter in core]
    changes = sum(map(tuple.__ne__, sorts, sorts[1:])) / (len(core) - 1)
    if core.lower() == core or core.upper() == core:
        return changes >= _LEAST_CHANGES_ONE_CASE and sum(map(str.isdigit, core)) >= 3
    return changes >= _LEAST_CHANGES and (has_digit(core) or changes >= 0.5)


def is_aws_secret(value: str) -> bool:
    """Whether base64 text has enough of each kind of character, unlike digests and paths."""
    sorts = (str.isupper, str.islower, str.isdigit)
    return all(sum(map(sort, value)) >= 3 for sort in sorts) and _entropy(value) >= _AWS_ENTROPY


def is_no_year(value: str) -> bool:
    """Whether a number is no year between 1900 and 2100."""
    return len(value) != 4 or not 1900 <= int(value) <= 2100


def is_card(value: str) -> bool:
    """Whether it is a card number: issuer, length and Luhn check digit fit."""
    digits = "".join(filter(str.isdigit, value))
    if len(digits) not in _CARD_LENGTHS.get(digits[0], ()) or not _CARD.match(digits):
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


def is_iban(value: str) -> bool:
    """Whether it is an IBAN with correct check digits."""
    plain = value.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


def _entropy(value: str) -> float:
    """Return the Shannon entropy in bits per character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
