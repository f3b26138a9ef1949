"""Words, expressions and texts that stand in a TOML file beside the module that uses them."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def load_tables(module_file: str, name: str = "") -> dict[str, Any]:
    """Load the TOML file beside a module, or another there by its name: `load_tables(__file__)`."""
    file = Path(module_file).with_suffix(".toml")
    return tomllib.loads((file.with_name(name) if name else file).read_text(encoding="utf-8"))


def filled(text: str, fragments: Mapping[str, str]) -> str:
    """Replace each name in braces by the fragment of that name; a fragment may use later ones."""
    for name, fragment in fragments.items():
        text = text.replace(f"{{{name}}}", fragment)
    return text


def expression(*texts: str) -> re.Pattern[str]:
    """Compile expressions into one that finds any of them, in any case."""
    return re.compile("|".join(f"(?:{text})" for text in texts), re.IGNORECASE)
