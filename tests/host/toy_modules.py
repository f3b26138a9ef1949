"""Modules that only tell what happens to them."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, create_model

from butlers.db.postgres import Database
from butlers.kernel.sections import SettingsSection
from butlers.module import Health, Module
from butlers.modules import ModulesSection
from butlers.operation import Input, Operation, OperationEffect, Output
from butlers.settings.sections import ButlerSettings

diary: list[str] = []


class ToySettings(SettingsSection):
    """Nothing to set."""


class Toy(Module):
    """Writes into the diary; a subclass may be told to fail."""

    settings_model: ClassVar[type[BaseModel]] = ToySettings
    tool_names: ClassVar[tuple[str, ...]] = ()
    fails: ClassVar[str] = ""

    async def on_startup(self, config: BaseModel | None, database: Database) -> None:
        diary.append(f"start {self.name}")
        if self.fails == "start":
            raise ValueError("it is not my day")

    async def on_shutdown(self) -> None:
        diary.append(f"stop {self.name}")
        if self.fails == "stop":
            raise RuntimeError("I will not go")

    @property
    def operations(self) -> Sequence[Operation]:  # type: ignore[override]
        return [_offering(name) for name in self.tool_names]

    async def health(self) -> Health:
        return Health(ok=self.fails != "health")


async def _nothing(ctx: Any, params: Input) -> dict[str, Any]:
    """Nothing."""
    return {}


def _offering(tool: str) -> Operation:
    return Operation(
        run=_nothing,
        output=Output,
        effect=OperationEffect.READS,
        example="",
        tool=tool,
        command=tool,
        routes=(),
    )


def toy(name: str, *dependencies: str, **attributes: object) -> type[Toy]:
    """A module of this name that needs those."""
    return type(name, (Toy,), {"name": name, "dependencies": dependencies, **attributes})


def settings_for(*modules: type[Module], **sections: object) -> ButlerSettings:
    """A butler's settings in a house that has these modules, and whose memory is off."""
    added = {module.name: (module.settings_model, module.settings_model()) for module in modules}
    section = create_model("ModulesSection", __base__=ModulesSection, **added)
    model = create_model("ButlerSettings", __base__=ButlerSettings, modules=(section, section()))
    document = {"butler": {"name": "toys"}, "modules": {"memory": {"enabled": False}}}
    return model.model_validate(document | sections)
