"""Links that sign in: once, for ten minutes, and only if the home's owner made them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from butlers.auth.sign_in import LIFE, SignInLink, SignInLinks
from butlers.host.home import Home
from conftest import WalkingClock


@pytest.fixture
def invitations(tmp_path: Path, clock: WalkingClock) -> SignInLinks:
    return SignInLinks(Home(tmp_path).invitations_directory, clock)


def secret_of(path: str) -> str:
    return path.rsplit("/", 1)[1]


def file_of(tmp_path: Path) -> Path:
    (file,) = Home(tmp_path).invitations_directory.iterdir()
    return file


def test_a_link_is_good_once(invitations: SignInLinks) -> None:
    path = invitations.create()
    secret = secret_of(path)
    assert path == f"/sign-in/once/{secret}" and len(secret) >= 40
    for wrong in ("", f"{secret}x", "é", "\ud800", "../../tokens.json"):
        assert not invitations.redeem(wrong)
    assert invitations.redeem(secret)
    assert not invitations.redeem(secret)


@pytest.mark.contract("L52")
def test_a_link_decides_only_if_a_person_was_present(invitations: SignInLinks) -> None:
    for may_decide in (True, False):
        link = invitations.redeem(secret_of(invitations.create(may_decide=may_decide)))
        assert link == SignInLink(may_decide)
    assert invitations.redeem(secret_of(invitations.create())) == SignInLink(False)


def test_a_link_is_good_for_ten_minutes(invitations: SignInLinks, clock: WalkingClock) -> None:
    in_time, late = secret_of(invitations.create()), secret_of(invitations.create())
    clock.advance(seconds=LIFE.total_seconds() - 1)
    assert invitations.redeem(in_time)
    clock.advance(seconds=1)
    assert not invitations.redeem(late)


def test_of_many_at_once_one_gets_in(invitations: SignInLinks) -> None:
    secret = secret_of(invitations.create())
    with ThreadPoolExecutor(8) as pool:
        assert sum(map(bool, pool.map(invitations.redeem, [secret] * 64))) == 1


def test_only_a_digest_is_kept_where_nobody_else_can_look(
    invitations: SignInLinks, tmp_path: Path
) -> None:
    secret = secret_of(invitations.create())
    file = file_of(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert secret not in file.name and secret not in file.read_text()


def test_what_others_could_have_written_opens_nothing(
    invitations: SignInLinks, tmp_path: Path
) -> None:
    secret = secret_of(invitations.create())
    file_of(tmp_path).chmod(0o620)
    assert not invitations.redeem(secret)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_wrote_opens_nothing(invitations: SignInLinks, tmp_path: Path) -> None:
    secret = secret_of(invitations.create())
    os.chown(file_of(tmp_path), 65534, -1)
    assert not invitations.redeem(secret)


def test_a_file_that_only_points_elsewhere_opens_nothing(
    invitations: SignInLinks, tmp_path: Path
) -> None:
    secret = secret_of(invitations.create())
    file = file_of(tmp_path)
    file.rename(tmp_path / "kept")
    file.symlink_to(tmp_path / "kept")
    assert not invitations.redeem(secret)


def test_a_file_that_was_not_written_to_its_end_opens_nothing(
    invitations: SignInLinks, tmp_path: Path
) -> None:
    secret = secret_of(invitations.create())
    file_of(tmp_path).write_text("2999-")
    assert not invitations.redeem(secret)


def test_links_nobody_used_are_cleared_away(
    invitations: SignInLinks, tmp_path: Path, clock: WalkingClock
) -> None:
    invitations.create()
    clock.advance(seconds=LIFE.total_seconds())
    fresh = secret_of(invitations.create())
    assert file_of(tmp_path).exists()
    assert invitations.redeem(fresh)
