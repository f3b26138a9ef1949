"""The settings of `[modules.notebook]`."""

from pydantic import Field

from butlers.kernel.sections import ModuleSection


class NotebookModuleConfig(ModuleSection):
    """Memory of keyed notes, apart from the memory of episodes, facts and rules."""

    enabled: bool = Field(False, description="Whether this butler has a notebook.")
