"""Facts that exclude each other or say the same, and what predicates hold."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, OnlyValue, Rows, Touched

_SQL = load(__file__)

find_predicates = Rows(_SQL["find_predicates"])
find_beside_name = Rows(_SQL["find_beside_name"])
find_beside_entity = Rows(_SQL["find_beside_entity"])
insert = Touched(_SQL["insert"])
find_open = Rows(_SQL["find_open"])
count_open = OnlyValue[int](_SQL["count_open"])
hold = FirstRow(_SQL["hold"])
find_keys = Rows(_SQL["find_keys"])
settle = Touched(_SQL["settle"])
supersede = FirstRow(_SQL["supersede"])
bound = Touched(_SQL["bound"])
find_told = Rows(_SQL["find_told"])
tell = Touched(_SQL["tell"])
unsettle = Touched(_SQL["unsettle"])
untell = Touched(_SQL["untell"])
