"""`doctor` reports installed and missing parts, and detects broken installations."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import custodes as cu
from custodes import cli, diagnosis

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the self tests, which take a second."""
    monkeypatch.setattr(diagnosis, "TESTS", {})


def doctor_tables(capsys: pytest.CaptureFixture[str], status: int) -> dict[str, list[dict[str, object]]]:
    assert cli.run(["doctor", "--format", "json"]) == status
    return json.loads(capsys.readouterr().out)


def test_an_installation_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    result = doctor_tables(capsys, 0)
    assert all(row["fits"] for row in result["packages"])
    assert {"numpy", "polars", "altair"} <= {row["package"] for row in result["packages"]}
    assert [row["test"] for row in result["tests"]][:3] == ["numbers", "picture", "files"]
    assert {row["test"] for row in result["tests"]} >= {
        f"extra {row['extra']}" for row in result["extras"] if not row["missing"]
    }


@pytest.mark.usefixtures("untested")
def test_what_is_missing_or_too_old_shows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    needed = [
        *("numpy>=99", "no-such-package>=1.2", "polars", "never-asked>=1; sys_platform == 'nowhere'"),
        *("no-such-extra>=3; extra == 'learn'", "custodes[learn]; extra == 'all'"),
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    result = doctor_tables(capsys, 1)
    packages = {row["package"]: (row["needed"], row["version"] is None, row["fits"]) for row in result["packages"]}
    assert packages == {
        "numpy": (">=99", False, False),
        "no-such-package": (">=1.2", True, False),
        "polars": ("any", False, True),
    }
    learn = next(row for row in result["extras"] if row["extra"] == "learn")
    assert learn["missing"] == ["no-such-extra"]
    assert "extra learn" not in {row["test"] for row in result["tests"]}


def test_wrong_numbers_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "KNOWN", {**diagnosis.KNOWN, "kendall_item": 0.5})
    monkeypatch.setattr(diagnosis, "EXTRAS", {})
    result = cu.doctor()
    assert result.status == 1
    (wrong,) = result.tests.filter(~result.tests["passed"]).to_dicts()
    assert wrong["test"] == "numbers"
    assert "kendall_item=0.57" in wrong["found"]


@pytest.mark.usefixtures("untested")
def test_an_extra_that_is_there_and_does_not_load_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = diagnosis.EXTRAS["learn"]._replace(modules=("no_such_module",))
    monkeypatch.setattr(diagnosis, "EXTRAS", {"learn": broken})
    result = cu.doctor()
    assert result.status == 1
    assert result.tests["found"].to_list() == ["ModuleNotFoundError: No module named 'no_such_module'"]


@pytest.mark.usefixtures("untested")
def test_the_home_folder_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(cu.__file__).parents[2]
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(diagnosis, "EXTRAS", {})
    place = cu.doctor().place
    assert str(home) not in str(place.to_dicts())
    assert place["found"][0].endswith(f"in {Path('~') / Path(cu.__file__).parent.relative_to(home)}")


def test_every_extra_is_explained_and_every_error_names_one() -> None:
    assert diagnosis.EXTRAS.keys() == EXTRAS.keys() - {"all"}
    (everything,) = EXTRAS["all"]
    assert set(re.findall(r"\w+", everything)) - {"custodes"} == diagnosis.EXTRAS.keys()
    for path in (ROOT / "src").rglob("*.py"):
        named = re.findall(r"custodes\[(\w+)\]", path.read_text(encoding="utf-8"))
        assert set(named) <= diagnosis.EXTRAS.keys(), path
