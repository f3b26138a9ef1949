"""The settings of the modules a butler can load; `host/registry.py` has the classes."""

from pydantic import Field

from butlers.kernel.sections import ModuleSection, SettingsSection
from butlers.memory.settings import MemoryModuleConfig
from butlers.notebook.settings import NotebookModuleConfig


class ModulesSection(SettingsSection):
    """The settings of each module."""

    memory: MemoryModuleConfig = Field(MemoryModuleConfig(), description="Memory.")
    notebook: NotebookModuleConfig = Field(NotebookModuleConfig(), description="Notebook.")

    def each(self) -> list[ModuleSection]:
        """Return the module sections that declare more than settings."""
        return [section for _, section in self if isinstance(section, ModuleSection)]
