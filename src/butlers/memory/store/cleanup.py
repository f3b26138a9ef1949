"""The episode cleanup: which episodes have to go."""

from butlers.db.queries import load
from butlers.db.statements import OnlyValue, Rows

_SQL = load(__file__)

claim_expired = Rows(_SQL["claim_expired"])
claim_surplus = Rows(_SQL["claim_surplus"])
remaining = OnlyValue[int](_SQL["remaining"])
