"""Published data sets, read once."""

from pathlib import Path

import pytest

import custodes as cu


@pytest.fixture(scope="session")
def summeval(shared_data: Path) -> cu.Study:
    return cu.read(shared_data / "summeval" / "ratings.csv.gz")


@pytest.fixture(scope="session")
def hanna(shared_data: Path) -> cu.Study:
    return cu.read(shared_data / "hanna" / "ratings.csv.gz")


@pytest.fixture(scope="session")
def wmt23(shared_data: Path) -> cu.Study:
    return cu.read(shared_data / "wmt23-en-de" / "mt-metrics-eval-v2.wmt23.en-de.tar.gz")
