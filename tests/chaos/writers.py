"""Clients that store, correct, settle, merge, mark and forget over HTTP, and note what they heard.

Each has people of its own, so that what it does is all that happens to them.
"""

import itertools
import threading
from random import Random
from typing import Any

import httpx2

from chaos.journal import Journal, Lost, Refused
from interfaces.daemons import Daemon

CITIES = ("Oslo", "Rome", "Bonn", "Lima", "Bern", "Riga")
_numbers = itertools.count(1)
Sources = list[tuple[str, list[str]]]
"""Episodes with the facts that were stored from each."""


class Writer:
    """One client: does one thing after the other until its daemon is gone or it shall stop."""

    def __init__(
        self, daemon: Daemon, token: str, journal: Journal, sources: Sources, chance: Random
    ) -> None:
        self._base = f"{daemon.url}/api/butlers/general/memory"
        self._headers = {"Authorization": f"Bearer {token}"}
        self.journal, self.sources, self.chance = journal, sources, chance
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._own: list[tuple[str, str]] = []
        self._things = (
            self.store, self.store, self.store_many, self.correct, self.correct,
            self.undo_correction, self.forget, self.restore, self.settle, self.merge,
            self.mark, self.tell, self.tell_source, self.consolidate, self.clean_up,
        )  # fmt: skip
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _work(self) -> None:
        with httpx2.Client(trust_env=False, timeout=20, headers=self._headers) as self._client:
            while not self.stopped.is_set():
                try:
                    self.chance.choice(self._things)()
                except Refused:
                    continue
                except Lost:
                    return

    def post(self, path: str, **body: Any) -> Any:
        """Ask for something; Lost where it may be done or not, Refused where it is not."""
        try:
            answer = self._client.post(f"{self._base}/{path}", json=body)
        except httpx2.HTTPError as error:
            raise Lost from error
        if answer.is_server_error:
            raise Lost(answer.text)
        if answer.is_error:
            raise Refused(answer.text)
        return answer.json()

    def store(self, **more: Any) -> str:
        """Store a fact about somebody new."""
        number = next(_numbers)
        city = self.chance.choice(CITIES)
        fact = {"subject": f"Person {number}", "predicate": "city", "content": city}
        told = self.post("facts", **fact | more)
        self.knows("fact", told["id"], "active")
        return str(told["id"])

    def knows(self, kind: str, id: str, state: str) -> None:
        """Note something new, which is this client's own."""
        self.journal.knows(kind, id, state)
        self.journal.acknowledged[f"store {kind}"] += 1
        self._own.append((kind, id))

    def leave(self, *ids: str) -> None:
        """Do nothing more with these: what is undone with their source shall be known."""
        self._own = [(kind, id) for kind, id in self._own if id not in ids]

    def own(self, kind: str, *states: str) -> str:
        """Something of one's own that surely is in one of these states."""
        known = set(self.journal.certain(kind, *states))
        ids = [id for of, id in self._own if of == kind and id in known]
        if not ids:
            raise Refused(f"no {kind} yet")
        return self.chance.choice(ids)

    def store_many(self) -> None:
        """Store several memories at once."""
        items = [
            {"memory_type": "fact", "subject": f"Person {next(_numbers)}", "predicate": "city",
             "content": self.chance.choice(CITIES)}
            for _ in range(5)
        ]  # fmt: skip
        for one in self.post("memories/batch", memories=items)["results"]:
            self.knows("fact", one["id"], "active")

    def correct(self) -> None:
        """Correct a fact."""
        old = self.own("fact", "active")
        with self.journal.moving("correct", {("fact", old): "superseded"}):
            told = self.post(f"facts/{old}/correct", content=f"not {self.chance.random()}")
            self.journal.knows("fact", told["id"], "active")
            self._own.append(("fact", told["id"]))

    def undo_correction(self) -> None:
        """Undo a correction; of a fact that corrected none this is refused."""
        old = self.own("fact", "active")
        with self.journal.moving("undo correction", {("fact", old): "superseded"}):
            told = self.post(f"facts/{old}/undo")
            self.journal.knows("fact", told["id"], "active")
            self._own.append(("fact", told["id"]))

    def forget(self) -> None:
        """Forget a fact."""
        id = self.own("fact", "active")
        with self.journal.moving("forget", {("fact", id): "retracted"}):
            if not self.post(f"facts/{id}/forget")["forgotten"]:
                raise Refused

    def restore(self) -> None:
        """Restore a forgotten fact, unless it was superseded before."""
        id = self.own("fact", "retracted")
        with self.journal.moving("restore", {("fact", id): "active"}):
            if not self.post(f"facts/{id}/restore")["restored"]:
                raise Refused

    def settle(self) -> None:
        """Store two facts that contradict each other, and say which one holds."""
        subject = f"Person {next(_numbers)}"
        older = self.store(subject=subject, predicate="city", content="Oslo")
        told = self.post("facts", subject=subject, predicate="lives_in", content="Rome")
        self.knows("fact", told["id"], "active")
        if conflicts := told.get("conflicts"):
            holds = self.chance.choice(("newer", "older", "both"))
            loser = {"newer": older, "older": told["id"]}.get(holds)
            moved = {("fact", loser): "superseded"} if loser else {}
            with self.journal.moving("settle", moved):
                self.post(f"conflicts/{conflicts[0]['id']}/settle", holds=holds)

    def merge(self) -> None:
        """Create two entities with facts, merge them, and perhaps part them again."""
        numbers = next(_numbers), next(_numbers)
        ids = []
        for number in numbers:
            told = self.post("entities", canonical_name=f"Entity {number}", entity_type="person")
            self.knows("entity", told["entity_id"], "active")
            ids.append(told["entity_id"])
            self.store(subject=f"Entity {number}", predicate=f"p{number}", entity_id=ids[-1])
        with self.journal.moving("merge", {("entity", ids[0]): "merged"}):
            self.post("entities/merge", source_entity_id=ids[0], target_entity_id=ids[1])
        if self.chance.random() < 0.5:
            with self.journal.moving("unmerge", {("entity", ids[0]): "active"}):
                self.post(f"entities/{ids[1]}/unmerge")

    def mark(self) -> None:
        """Store a rule and mark it helpful."""
        told = self.post("rules", content=f"Greet person {next(_numbers)}")
        self.knows("rule", told["id"], "active 0")
        for count in (1, 2):
            with self.journal.moving("mark", {("rule", told["id"]): f"active {count}"}):
                self.post(f"rules/{told['id']}/helpful")

    def tell(self) -> None:
        """Store an episode; forget some."""
        told = self.post("episodes", content=f"Person {next(_numbers)} called")
        self.knows("episode", told["id"], "active")
        if self.chance.random() < 0.3:
            with self.journal.moving("forget", {("episode", told["id"]): "forgotten"}):
                self.post(f"episodes/{told['id']}/forget")

    def tell_source(self) -> None:
        """Store an episode and facts from it, as a source to undo later."""
        told = self.post("episodes", content=f"Person {next(_numbers)} wrote")
        self.knows("episode", told["id"], "active")
        ids = [self.store(source_episode_id=told["id"]) for _ in range(2)]
        self.leave(*ids)
        self.sources.append((told["id"], ids))

    def consolidate(self) -> None:
        """Let the model read what waits."""
        if self.chance.random() < 0.3:
            self.post("consolidation")
            self.journal.acknowledged["consolidate"] += 1

    def clean_up(self) -> None:
        """Put expired episodes into the bin."""
        if self.chance.random() < 0.3:
            self.post("episodes/cleanup")
            self.journal.acknowledged["clean up"] += 1
