"""Cleanup of episodes, the bin, unread episodes, and the decay of facts and rules."""

from butlers.db.queries import load
from butlers.db.statements import FirstRow, FirstValue, OnlyRow, OnlyValue, Rows, Touched

_SQL = load(__file__)

get_next_facts = OnlyRow(_SQL["get_next_facts"])
fade_facts = Rows(_SQL["fade_facts"])
get_next_rules = OnlyRow(_SQL["get_next_rules"])
fade_rules = Rows(_SQL["fade_rules"])

count_unread = OnlyRow(_SQL["count_unread"])
get_newest_beyond = FirstRow(_SQL["get_newest_beyond"])
is_due = FirstValue[bool](_SQL["is_due"])
keep_unread = Rows(_SQL["keep_unread"])

put_in_bin = Touched(_SQL["put_in_bin"])
delete_episodes = Rows(_SQL["delete_episodes"])
find_binned = Rows(_SQL["find_binned"])
get_binned_content = FirstValue[str](_SQL["get_binned_content"])
take_from_bin = Touched(_SQL["take_from_bin"])
restore_binned = FirstRow(_SQL["restore_binned"])
empty_bin = Rows(_SQL["empty_bin"])

claim_expired = Rows(_SQL["claim_expired"])
claim_surplus = Rows(_SQL["claim_surplus"])
count_remaining = OnlyValue[int](_SQL["count_remaining"])
