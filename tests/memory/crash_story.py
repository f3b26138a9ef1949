"""The answer that every run of the crash test gets: one of each action."""

import re

from memory.scripted_model import answer, fact


def story(prompt: str) -> str:
    """A new fact, an update and a confirmation of what is shown, and a new rule."""
    shown = dict(re.findall(r'<fact id="([^"]+)" subject="([^"]+)"', prompt))
    target = [id for id, subject in shown.items() if subject == "Cid"]
    sure = [id for id, subject in shown.items() if subject == "Dan"]
    return answer(
        new_facts=[fact("Ann", "likes", "tea"), fact("Bob", "left", "in May")],
        updated_facts=[{"target_id": id, **fact("Cid", "likes", "beer")} for id in target],
        new_rules=[{"content": "Offer tea"}],
        confirmations=sure,
    )
