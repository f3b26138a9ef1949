"""Decide whether a subject is a name, and of what type of entity."""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial
from itertools import chain

from butlers.kernel.text import folded, stop_words
from butlers.kernel.token_count import is_usually_small
from butlers.memory.model import EntityType


def _words(listed: str) -> frozenset[str]:
    return frozenset(folded(listed).split())


PARTICLES = _words("& and bin da dal de del della den der di du el la le of the van von y zu")
"""Words of a name that are written in lower case."""

COMMON = _words(
    """
user users assistant agent agents ai bot butler claude system human person people customer client
project projects team repo repository codebase app application service server backend frontend
database db api cli ui ci build builds pipeline deploy deployment release version branch tests test
suite config configuration settings setup environment docs documentation readme code module package
library script scripts job jobs task tasks issue issues bug bugs ticket tickets feature features
design architecture schema migration migrations endpoint endpoints cache queue worker logs logging
monitoring security auth login session sessions memory model data file files folder directory
process workflow procedure policy rule rules convention conventions standard standards style guide
plan plans goal goals decision decisions meeting meetings standup retro review reviews call sprint
roadmap milestone deadline schedule calendar agenda budget invoice invoices payment payments
expenses report reports newsletter website site blog page pages dashboard email mail phone password
account accounts home house flat apartment kitchen bathroom bedroom garden garage office desk room
car bike bicycle van boat laptop computer printer router camera tv fridge oven boiler heating
insurance lease mortgage bank salary tax taxes trip travel holiday holidays vacation flight flights
hotel booking wedding birthday party dinner lunch breakfast recipe recipes menu diet food coffee
tea shopping groceries gym workout training run running doctor dentist vet hospital school class
course lesson lessons homework exam thesis book books movie movies music playlist game games news
weather mother father mom mum dad parents parent son daughter kids kid children child wife husband
spouse partner girlfriend boyfriend fiance fiancee sister brother siblings grandma grandpa
grandmother grandfather aunt uncle cousin nephew niece friend friends neighbour neighbor neighbours
neighbors colleague colleagues coworker boss manager landlord tenant owner dog cat pet pets plants
renovation repair repairs move moving strategy onboarding support marketing sales engineering
operations finance legal research product products order orders vendor vendors supplier suppliers
contract contracts note notes preference preferences routine habit habits event events incident
incidents outage backup backups cluster network wifi node nodes pod container containers image
nutzer benutzer projekt kunde auto haus wohnung kuche buro usuario proyecto casa coche utilisateur
projet maison voiture bureau
"""
)
"""Common nouns, which name nobody in particular."""

TITLES = _words("dr mr mrs ms miss prof professor sir frau herr madame monsieur")

FIRMS = _words(
    """
inc ltd llc corp corporation gmbh ag plc llp bv sa sarl kg oy ab company foundation university
institute
"""
)
"""Last words of organisations' names."""

SAID_OF = {
    EntityType.PERSON: _words(
        """
afraid age allergic allergies allergy anniversary birthday birthplace born boyfriend brother child
children coeliac colleague dad daughter diagnosed diet dislikes divorced drinks eats engaged enjoys
father favorite favourite fears fiance fiancee girlfriend graduated grew handed hates height
hobbies hobby husband intolerance intolerant job kids likes lives loves manager married mother mum
nationality nickname occupation partner plays prefers pregnant profession pronouns reports retired
shoe sibling sings sister sleeps son speaks spouse studied studies surname swims teaches vaccinated
vegan vegetarian wants wedding widow widowed widower wife works
"""
    ),
    EntityType.ORGANIZATION: _words(
        """
ceo cto customers employees employs founded founder headquarters headquartered industry revenue
shareholders staff
"""
    ),
    EntityType.PLACE: _words("altitude capital inhabitants population"),
}
"""Words of predicates that fit one type only."""

PRONOUNS = _words("he she his her hers him himself herself")
"""Words that stand for a person."""

_MOST_WORDS = 4
_WORD = re.compile(r"[^\W\d_][^\W\d_.'’&-]*(?:[.'’&-]+[^\W\d_]*)*")
_INNER_CAPITAL = re.compile(r"[a-zß-ÿ][A-Z]|[A-Z]{2,}[a-z]{2,}")


as_name = partial(unicodedata.normalize, "NFC")
"""Normalise a subject as names of entities are."""


def spellings(*names: str) -> list[str]:
    """Return the usual spellings of names."""
    cases = [
        text
        for name in names
        for text in (name, name.lower(), name.upper(), name.title(), name.capitalize())
    ]
    both = ((text, unicodedata.normalize("NFD", text)) for text in cases)
    return list(dict.fromkeys(chain.from_iterable(both)))


def words_of(name: str) -> list[str]:
    """Return the words of a name, folded."""
    return [folded(word.strip(".'’&-")) for word in _WORD.findall(name)]


def may_mean(subject: str, names: Iterable[str]) -> bool:
    """Whether a subject is one of these names, a part of it or short for it."""
    words = [word for word in words_of(subject) if len(word) > 1]
    known = [word for name in names for word in words_of(name) if len(word) > 1]
    return any(mine.startswith(own) or own.startswith(mine) for mine in words for own in known)


def kind_of(name: str, facts: Iterable[tuple[str, str]], *, is_a_person: bool) -> EntityType | None:
    """Return the type of a name, by predicates and contents of facts; None if it is no name."""
    if not _looks_like_a_name(name):
        return None
    words = words_of(name)
    if is_a_person or words[0] in TITLES:
        return EntityType.PERSON
    if words[-1] in FIRMS:
        return EntityType.ORGANIZATION
    evident = next(filter(None, map(_evident, facts)), None)
    return evident or (EntityType.OTHER if _is_spelt_as_name(name) else None)


def _is_spelt_as_name(name: str) -> bool:
    """Whether only a name is spelt so: capitals within, or several words with a rare one."""
    words = [word for word in name.split() if word not in PARTICLES]
    several = len(words) > 1 and not all(map(is_usually_small, words))
    return several or _INNER_CAPITAL.search(name) is not None


def _evident(fact: tuple[str, str]) -> EntityType | None:
    """Return the only type of entity that a fact fits."""
    predicate, content = (set(re.split(r"[\W_]+", folded(text))) for text in fact)
    if PRONOUNS & content:
        return EntityType.PERSON
    return next((kind for kind, words in SAID_OF.items() if words & predicate), None)


def _looks_like_a_name(name: str) -> bool:
    """Whether it is a few words with capitals, none of them a common noun."""
    given = name.split()
    telling = [word for word in given if word not in PARTICLES]
    if not telling or len(given) > _MOST_WORDS or not all(map(_WORD.fullmatch, telling)):
        return False
    if not all(map(_has_capital, telling)) or name.isupper():
        return False
    return not any(
        word in COMMON or (word in stop_words() and len(telling) == 1)
        for word in words_of(" ".join(telling))
    )


def _has_capital(word: str) -> bool:
    return word[0].isupper() or _INNER_CAPITAL.search(word) is not None
