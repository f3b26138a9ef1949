"""What tells a secret from an ordinary word or number that stands where one could."""

import math
import re
from collections import Counter

from butlers.kernel.words import folded, stop_words

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# What stands where a value is meant and none is given: variables, calls, blanks to be filled in.
_PLACEHOLDER = re.compile(
    r"[$%<{\[(*].*|\W+|[x*•.…_-]+|.*[({\[].*"
    r"|(?:your|my|the|some|example|changeme|dummy|test|fake|redacted|hidden|placeholder|insert)"
    r"(?:[_\W].*)?|[^\d]*(?:pass|passwor[dt]|secret|token|api_?key)[^\d]*"
    r"|(?:true|false|null|none|nil|undefined|yes|no|on|off|optional|required|string|str|int|bool"
    r"|bytes|text|password|passwd|pass|passphrase|pwd|secret|token|key|apikey|api_?key|value"
    r"|credentials?|env|input|prompt)s?[.]?",
    re.IGNORECASE | re.DOTALL,
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_SAID_OF_PASSWORDS = """
accepted asked authentication authorization blank called changed correct default denied different
empty encrypted expired field fields fine forgotten hashed hashing hidden important incorrect
invalid lost managed management manager mandatory missing needed optional policies policy private
protected protection public ready rejected required reset safe saved secret secure security
shared simple
stored strong stronger there unique unknown updated valid visible weak wrong
correcta errada falsch falso faux incorrecta incorrecto richtig sicher
"""
_NOT_CHOSEN = frozenset(_SAID_OF_PASSWORDS.split())
_SIGNED = re.compile(r"\w[!#$%&*+=@^~_]|[!#$%&*+=@^~_]\w")
_ENTROPY = 3.0
_AWS_ENTROPY = 4.2
_CARD_LENGTHS = {"3": (14, 15), "2": (16,), "4": (16,), "5": (16,), "6": (16,)}
_CARD = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3(?:4|7|0[0-5]|6|8)|6(?:011|4[4-9]|5)"
)


def has_digit(value: str) -> bool:
    """Whether a number is in it."""
    return any(map(str.isdigit, value))


def is_key(value: str) -> bool:
    """A key, whole or with stars in its middle; not words joined by hyphens."""
    return has_digit(value) or "*" in value or max(map(len, value.split("-"))) >= 12


def is_mixed(value: str) -> bool:
    """Letters of both cases and numbers, as no word has them."""
    return has_digit(value) and value.lower() != value and value.upper() != value


def is_long_or_numbered(value: str) -> bool:
    """What is no user's name, standing where one could."""
    return has_digit(value) or len(value) >= 20


def is_credential(value: str) -> bool:
    """What follows `Bearer` or `Basic` in a header; in prose a word does."""
    return is_given(value) and (
        has_digit(value)
        or "=" in value
        or "." in value.strip(".")
        or len(value) >= 20
        or value[1:].lower() != value[1:]
    )


def is_given(value: str) -> bool:
    """Whether a value is given, not a name for one."""
    return not _PLACEHOLDER.fullmatch(value)


def is_assigned(value: str) -> bool:
    """Whether what is assigned to a secret's name is a secret: not a variable or a blank."""
    return is_given(value) and not _DOTTED.fullmatch(value)


def looks_chosen(value: str) -> bool:
    """Whether what is said to be a password could be one: it has signs that no word has."""
    if not is_assigned(value):
        return False
    inner = value[1:].lower() != value[1:] and value.upper() != value
    return inner or has_digit(value) or _SIGNED.search(value) is not None


def is_uncommon(value: str) -> bool:
    """Whether a word at the end of a sentence about a password is none such sentences end with."""
    return (
        is_given(value) and folded(value) not in stop_words() and value.lower() not in _NOT_CHOSEN
    )


def is_random(value: str) -> bool:
    """Whether it was drawn, not written: letters and numbers mixed, of many kinds."""
    bare = value.strip("=.-/_")
    if _UUID.fullmatch(bare):
        return True
    letters = sum(map(str.isalpha, bare))
    digits = sum(map(str.isdigit, bare))
    if letters < 4 or digits < 3 or any(sign in bare for sign in ("/", "://", "..")):
        return False
    pieces = re.split(r"[-_.]", bare)
    return max(map(len, pieces)) >= 10 and _entropy(bare) >= _ENTROPY


def is_aws_secret(value: str) -> bool:
    """Forty signs of base64 with enough of each sort; digests and paths have not."""
    sorts = (str.isupper, str.islower, str.isdigit)
    return all(sum(map(sort, value)) >= 3 for sort in sorts) and _entropy(value) >= _AWS_ENTROPY


def is_no_year(value: str) -> bool:
    """A number that is no year of our time."""
    return len(value) != 4 or not 1900 <= int(value) <= 2100


def is_card(value: str) -> bool:
    """A number as cards have it: of an issuer, as long as theirs, with Luhn's check digit."""
    digits = "".join(filter(str.isdigit, value))
    if len(digits) not in _CARD_LENGTHS.get(digits[0], ()) or not _CARD.match(digits):
        return False
    doubled = [int(one) * (1 + place % 2) for place, one in enumerate(reversed(digits))]
    return sum(one - 9 * (one > 9) for one in doubled) % 10 == 0


def is_iban(value: str) -> bool:
    """An account number whose check digits are right."""
    plain = value.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1


def _entropy(value: str) -> float:
    """How many bits a sign of the text carries, by how often each occurs."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
