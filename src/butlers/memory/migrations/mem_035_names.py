"""Functions get the names they have in `memory/schema`; the old ones stay for older processes.

The revision after this one may drop them: see `LEFT_IN_PLACE`.
"""

from butlers.db.upgrade import run_sections

revision = "mem_035"
down_revision = "mem_034"

LEFT_IN_PLACE = """
    are_together beginning_with bring_events bring_rows counted_marks enter_memory enter_names
    enter_words fact_stands has_marks has_own_marks held_then holder_of holds is_asked is_found
    is_held is_mark is_seen keep_vectors known_words last_place looked_at made_here mark_of
    mark_of_text match_ahead matching_above matching_memories matching_shown memories_with
    misspelt near_ahead nearest_shown question_words rule_known rule_stands same_said
    sampled_score scored scored_also_by scored_by shown_candidates stand_in_postings stand_ins
    state_known table_called tell_memories tenant_standing was_known window_known word_impact
    word_postings word_scores
"""


def upgrade() -> None:
    """Add the types; the upgrade then adds the functions."""
    run_sections(__file__)
