"""Run by `make docs`: write every generated page, and the type stub of the Python methods."""

import sys
from pathlib import Path

from references import events, operations, settings

directory = Path(sys.argv[1])
(directory / "events.md").write_text(events.events_markdown(), "utf-8")
(directory / "settings.md").write_text(settings.settings_markdown(), "utf-8")
operations.write(directory)
