"""The order modules are loaded in, and what keeps them from being loaded."""

import pytest

from butlers.errors import Conflict, SettingsError
from butlers.host import registry
from butlers.memory.module import MemoryModule
from butlers.module import ButlerEnvironment, Module
from butlers.modules import ModulesSection
from host.toy_modules import toy


def known(*modules: type[Module]) -> dict[str, type[Module]]:
    return {module.name: module for module in modules}


@pytest.mark.contract("R28.1")
def test_the_house_knows_the_memory_its_branch_and_that_it_needs_nobody() -> None:
    assert registry.KNOWN["memory"] is MemoryModule
    assert MemoryModule.dependencies == ()
    assert MemoryModule.migrations is not None
    assert MemoryModule.migrations.label == "memory"
    assert "memory@head" in registry.targets(["memory"])


def test_settings_know_the_modules_that_the_house_can_load() -> None:
    sections = {name: field.annotation for name, field in ModulesSection.model_fields.items()}
    assert sections == {name: known.settings_model for name, known in registry.KNOWN.items()}


def test_every_module_comes_after_what_it_needs() -> None:
    modules = known(toy("a", "c"), toy("b"), toy("c", "b"), toy("d", "a", "b"))
    order = registry.load_order(["d", "a", "b", "c"], modules)
    assert sorted(order) == ["a", "b", "c", "d"]
    for name in order:
        needed = modules[name].dependencies
        assert all(order.index(other) < order.index(name) for other in needed)


def test_the_order_does_not_depend_on_how_it_was_asked() -> None:
    modules = known(*(toy(name) for name in "abcde"))
    assert registry.load_order("edcba", modules) == registry.load_order("abcde", modules)


def test_a_module_that_is_not_enabled_is_not_loaded() -> None:
    assert registry.load_order(["b"], known(toy("a"), toy("b"))) == ["b"]


def test_every_missing_dependency_is_named() -> None:
    modules = known(toy("a", "x"), toy("b", "a", "y"))
    with pytest.raises(SettingsError) as refused:
        registry.load_order(["a", "b"], modules)
    assert refused.value.faults == (
        "module a needs module x, which is not enabled",
        "module b needs module y, which is not enabled",
    )


def test_a_circle_of_dependencies_is_shown() -> None:
    modules = known(toy("a", "b"), toy("b", "c"), toy("c", "a"))
    with pytest.raises(SettingsError, match="modules depend on each other: ") as refused:
        registry.load_order("abc", modules)
    shown = str(refused.value).rsplit(": ", 1)[1].split(" -> ")
    assert shown[0] == shown[-1]
    assert set(shown) == {"a", "b", "c"}


def test_two_modules_cannot_offer_one_tool() -> None:
    environment = ButlerEnvironment("toys")
    one, other = toy("a", tool_names=("look", "see")), toy("b", tool_names=("see",))
    with pytest.raises(Conflict, match="modules a and b both offer a tool see"):
        registry.check_tool_names([one(environment), other(environment)])
    registry.check_tool_names([one(environment)])


@pytest.mark.contract("P8")
def test_only_enabled_modules_are_migrated_but_every_branch_is_known() -> None:
    modules = known(MemoryModule, toy("a"))
    assert registry.branches(modules) == [registry.CORE, MemoryModule.migrations]
    assert registry.targets(["a"], modules) == ["core@head"]
    assert registry.targets(["a", "memory"], modules) == ["core@head", "memory@head"]
