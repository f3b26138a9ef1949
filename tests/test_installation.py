"""What is built is what people install: wheel, archive, image, service, proxies, registry entry."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from interfaces.daemons import ENVIRONMENT, Daemon, temporary_home

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
NGINX = """
pid {place}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
  include {place}/butlers.conf;
}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source archive."""
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    subprocess.run([*build, "-d", str(target)], cwd=ROOT, capture_output=True, check=True)
    return target


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment that finds the dependencies of this one."""
    directory = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = (directory / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python")]
    (wheel,) = built.glob("*.whl")
    install = [*pip, "install", "-qq", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, cwd=directory, capture_output=True, check=True)
    return directory / "bin" / "butlers"


def test_a_wheel_carries_all_that_is_not_python(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file())
    needed = {str(path.relative_to(source)) for path in files if "__pycache__" not in path.parts}
    assert needed <= packed
    assert any(name.endswith(".sql") for name in needed)
    assert any(name.endswith(".control") for name in needed)


def test_the_source_archive_can_be_built_again_and_keeps_the_licences(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "Makefile"} <= names
    assert {"locks/run.txt", "docs/install.md", "src/butlers/__init__.py"} <= names
    assert not any(name.startswith((".venv", "build/", "dist/", "bench/data")) for name in names)


@pytest.mark.slow
def test_an_installed_wheel_remembers_in_an_empty_home(installed: Path) -> None:
    without_checkout = {"PYTHONPATH": ""}
    with temporary_home() as home:
        environment = ENVIRONMENT | without_checkout | {"BUTLERS_HOME": str(home.root)}

        def butlers(*words: str) -> str:
            command = [str(installed), *words]
            options = {"env": environment, "cwd": home.root, "text": True, "timeout": 60}
            return subprocess.run(command, capture_output=True, check=True, **options).stdout

        assert butlers("--version").strip() == PROJECT["version"]
        daemon = Daemon(home, program=[str(installed)], environment=without_checkout).ready()
        try:
            butlers("memory", "store-fact", "Ann", "allergy", "peanuts")
            assert "Ann · allergy: peanuts" in butlers("memory", "recall", "what can Ann not eat?")
        finally:
            assert daemon.stop() == 0


def test_the_registry_is_told_this_version_and_the_readme_proves_the_name() -> None:
    server = json.loads((ROOT / "server.json").read_text())
    (package,) = server["packages"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text()
    assert len(server["description"]) <= 100
    assert {server["version"], package["version"]} == {PROJECT["version"]}
    assert (package["identifier"], package["registryType"]) == (PROJECT["name"], "pypi")
    words = [argument["value"] for argument in package["packageArguments"]]
    assert words == ["mcp", "general"]


def test_an_image_runs_as_a_user_of_its_own_and_keeps_the_home_in_a_volume() -> None:
    file = (ROOT / "Dockerfile").read_text()
    last = file.rpartition("\nFROM ")[2]
    assert "\nUSER butlers\n" in last and "\nVOLUME /data\n" in last and "\nHEALTHCHECK " in last
    (kept,) = re.findall(r"COPY ((?:[\w.]+ )+)\./", file)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{name}" for name in [*kept.split(), "src", "locks"]} <= set(ignored)
    services = [
        yaml.safe_load((ROOT / name).read_text())["services"]
        for name in ("compose.yaml", "packaging/compose.postgres.yaml")
    ]
    assert services[0]["butlers"]["volumes"] == ["home:/data"]
    assert services[0]["butlers"]["ports"] == ["127.0.0.1:8900:8900"]
    (config,) = services[1]["butlers"]["configs"]
    assert config["target"] == "/data/butlers.toml"


def program(name: str) -> str:
    found = shutil.which(name, path=PROGRAMS)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def output_of(*command: object, cwd: Path) -> str:
    words = list(map(str, command))
    environment = os.environ | {"HOME": str(cwd)}
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_the_example_for_caddy_is_valid(tmp_path: Path) -> None:
    file = ROOT / "packaging" / "Caddyfile"
    told = output_of(program("caddy"), "validate", "--config", file, cwd=tmp_path)
    assert told.startswith("0 ") and "Valid configuration" in told


def test_the_example_for_nginx_is_valid(tmp_path: Path) -> None:
    openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x"
    files = ("-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem")
    assert output_of(program("openssl"), *openssl.split(), *files, cwd=tmp_path)[0] == "0"
    example = (ROOT / "packaging" / "nginx.conf").read_text()
    local = example.replace("/etc/ssl/memory.example.org", str(tmp_path))
    (tmp_path / "butlers.conf").write_text(local)
    (tmp_path / "all.conf").write_text(NGINX.format(place=tmp_path))
    assert output_of(program("nginx"), "-t", "-c", tmp_path / "all.conf", cwd=tmp_path)[0] == "0"


def test_the_unit_of_a_server_is_valid(tmp_path: Path) -> None:
    unit = (ROOT / "packaging" / "butlers.service").read_text()
    assert "\nUser=butlers\n" in unit and "\nNoNewPrivileges=yes\n" in unit
    (tmp_path / "butlers.service").write_text(unit.replace("/opt/butlers/bin/butlers", "/bin/true"))
    command = (program("systemd-analyze"), "verify", tmp_path / "butlers.service")
    assert output_of(*command, cwd=tmp_path) == "0 "
