"""Tell secrets from ordinary words and numbers in the same position.

`secret_kinds.toml` names the check of each kind.
"""

import math
import re
from collections import Counter
from itertools import pairwise

from butlers.kernel.text import folded, stop_words
from butlers.kernel.word_tables import load_tables

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TABLES = load_tables(__file__)
_PLACEHOLDER, _PUBLIC, _NAMED = (
    re.compile("|".join(_TABLES[name]), re.IGNORECASE | re.DOTALL)
    for name in ("placeholder", "public", "named")
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_NAME = re.compile(r"[A-Za-z_.]+[:,;]*")
_NOT_CHOSEN = frozenset(_TABLES["not_chosen"].split())
_SIGNED = re.compile(r"\w[!#$%&*+=@^~_]|[!#$%&*+=@^~_]\w")
_ENTROPY = 3.0
_LETTERS_AND_DIGITS = re.compile(r"[A-Za-z0-9]+")
_HEX = re.compile(r"(0x|[A-Za-z]{0,6}?)([0-9a-f]+|[0-9A-F]+)[A-Z]{0,2}")
_MOST_BARE = 400
"""Longer texts of this kind are data."""
_LEAST_CORE, _LEAST_PIECES, _LEAST_HEX, _RANDOM = 14, 18, 24, 0.38
_NO_DIGEST = {*range(33, 96)} - {40, 48, 56, 64}
_AFTER = {row[0]: row for row in _TABLES["after"].split()}
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


def is_no_name(value: str) -> bool:
    """Whether it is not made of words alone, as names in code are."""
    return not _NAME.fullmatch(value) or _irregularity(value) > 0


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
    if len(value) > _MOST_BARE or _PUBLIC.match(value):
        return False
    pieces = _LETTERS_AND_DIGITS.findall(_UUID.sub("-", value))
    longest = max(pieces, key=len, default="")
    if found := _HEX.fullmatch(longest):
        prefix = value[: value.find(longest)] + found[1]
        is_long = len(found[2]) >= _LEAST_HEX and prefix[1:] != ""
        if is_long and prefix[0].isalpha() or len(longest) in _NO_DIGEST:
            return True
        pieces = [piece for piece in pieces if len(piece) < 16 or not _HEX.fullmatch(piece)]
    if any(len(piece) >= _LEAST_CORE and _irregularity(piece) >= _RANDOM for piece in pieces):
        return True
    while pieces and _irregularity(pieces[0]) <= 0:  # words and numbers, such as a prefix
        del pieces[0]
    return sum(map(len, pieces)) >= _LEAST_PIECES and _irregularity("-".join(pieces)) >= 2 * _RANDOM


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


def _irregularity(text: str) -> float:
    """Weigh for each pair of neighbours how much likelier it is in a random text than in words."""
    weights = 0.0
    for one, other in pairwise(text):
        if one.isalpha() and other.isalpha():
            is_common = other.lower() in _AFTER[one.lower()]
            weights += 0.5 if one.islower() and other.isupper() else -1 if is_common else 3
        elif one.isalpha() and other.isdigit() or one.isdigit() and other.isalpha():
            weights += 2.5
    return weights / len(text)
