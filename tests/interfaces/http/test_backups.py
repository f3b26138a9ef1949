"""Checking backups that are kept: found by name alone, one at a time, and told what is wrong."""

from pathlib import Path

import pytest

from butlers.backup.directory import Backups
from butlers.errors import Conflict, NotFound
from butlers.host.home import Home
from butlers.interfaces.http.backups import BackupChecks
from butlers.settings.sections import BackupSection


async def test_what_is_wrong_with_a_backup_is_told_and_one_is_checked_at_a_time(tmp_path: Path):
    kept = Backups(Home(tmp_path), BackupSection())
    with pytest.raises(NotFound, match="there is no backup in"):
        kept.find()
    kept.directory.mkdir()
    file = kept.directory / "butlers-20260101-030000.zip"
    file.write_bytes(b"PK no zip")
    assert kept.find().file == kept.find(file.name).file == file
    for name in ("../tokens.json", str(file), "butlers-20250101-030000.zip"):
        with pytest.raises(NotFound, match="called"):
            kept.find(name)
    checks = BackupChecks()
    told = await checks.check(file, "", deep=False)
    assert (told["whole"], checks.last) == (False, told) and str(file) in told["why"]
    checks.last = told | {"whole": None}
    with pytest.raises(Conflict, match="is being checked; try again"):
        await checks.check(file, "", deep=True)
