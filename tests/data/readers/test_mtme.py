from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from custodes.data.readers import mtme
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import InputError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_messages, outputs_of
from tests.messages import exactly

FILES = {
    "wmt/sources/en-de.txt": "one\ntwo\u2028still two\n",
    "wmt/references/en-de.refA.txt": "eins\nzwei\n",
    "wmt/references/en-de.refB.txt": "1\n2\n",
    "wmt/documents/en-de.docs": "news\tdoc1\nchat\tdoc2\n",
    "wmt/system-outputs/en-de/S1.txt": "ein\nzwo\n",
    "wmt/system-outputs/en-de/S2.txt": "een\ntwee\n",
    "wmt/human-scores/en-de.da-sqm.seg.score": "S1\t90\nS1\tNone\nS2\t-0.0\nS2\t7.5\n",
    "wmt/human-scores/en-de.da-sqm.sys.score": "S1\t90\nS2\t3.75\n",
    "wmt/human-scores/en-de.da-sqm.domain.score": "news\tS1\t90\n",
    # alternating systems, in another order, separated by blanks
    "wmt/metric-scores/en-de/BLEU-refA.seg.score": "S2 1\nS1 2\nS2 3\nS1 4\n",
    "wmt/metric-scores/en-de/only.sys-refA.sys.score": "S1\t0.5\n",
}


Make = Callable[[Path, dict[str, str]], Path]


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, newline="\n")
    return path


def packed(path: Path, files: dict[str, str], suffix: str = ".tar.gz", root: str = "./mt-metrics-eval-v2/") -> Path:
    path.mkdir(exist_ok=True)
    path = path / f"data{suffix}"
    with tarfile.open(path, "w:gz" if suffix != ".tar" else "w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(root + name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def check(study: Study) -> None:
    assert set(study.ratings.frame.drop("aspect", "repeat").rows()) == {
        ("1", "S1", "da-sqm", 90.0),
        ("1", "S2", "da-sqm", 0.0),
        ("2", "S2", "da-sqm", 7.5),
        ("", "S1", "da-sqm", 90.0),
        ("", "S2", "da-sqm", 3.75),
        ("1", "S2", "BLEU-refA", 1.0),
        ("2", "S2", "BLEU-refA", 3.0),
        ("1", "S1", "BLEU-refA", 2.0),
        ("2", "S1", "BLEU-refA", 4.0),
        ("", "S1", "only.sys-refA", 0.5),
    }
    assert study.raters.kind == {"da-sqm": "human", "BLEU-refA": "metric", "only.sys-refA": "metric"}
    assert study.items.frame.select("item", "cluster", "group").rows() == [("1", "doc1", "news"), ("2", "doc2", "chat")]
    assert outputs_of(study).sources.select("item", "source", "references").rows() == [
        ("1", "one", ["eins", "1"]),
        ("2", "two\u2028still two", ["zwei", "2"]),
    ]
    assert ("2", "S2", "twee") in outputs_of(study).texts.rows()
    assert note_messages(study) == {
        "missing-score": "1 scores are None and count as not rated (da-sqm 1)",
        "unused-files": "files not used: en-de.da-sqm.domain.score",
    }


@pytest.mark.parametrize(
    ("suffix", "root"), [(".tar", "./mt-metrics-eval-v2/"), (".tar.gz", "./mt-metrics-eval-v2/"), (".tgz", "./")]
)
def test_a_tar(tmp_path: Path, suffix: str, root: str) -> None:
    study = read(packed(tmp_path, FILES, suffix, root))
    check(study)
    assert study.name == f"data{suffix}::wmt/en-de"
    # a tar may be the test set itself
    check(read(packed(tmp_path, {name.removeprefix("wmt/"): text for name, text in FILES.items()}, suffix, "./")))


@pytest.mark.parametrize("below", ["", "wmt", "deeper"])
def test_a_folder_at_any_level(tmp_path: Path, below: str) -> None:
    base = folder(tmp_path / "deeper" if below == "deeper" else tmp_path, FILES)
    study = read(tmp_path / ("wmt" if below == "wmt" else ""))
    check(study)
    assert study.digest == read(f"{tmp_path}::wmt/en-de").digest
    assert str(tmp_path) not in repr(study)
    folder(base, {"wmt/sources/en-de.txt": "one\nzwei\n"})
    assert read(tmp_path).digest != study.digest


SEVERAL = FILES | {"wmt/sources/en-ru.txt": "a\n", "wmt22/sources/en-de.txt": "b\n"}


@pytest.mark.parametrize("make", [folder, packed])
def test_of_several_one_must_be_named(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "data", SEVERAL)
    check(read(f"{path}::wmt/en-de"))
    sets = "holds several test sets; select one with PATH::TESTSET/LP: "
    for part, message in (
        ("", f"{sets}wmt/en-de, wmt/en-ru, wmt22/en-de"),
        ("::en-de", f"{sets}wmt/en-de, wmt22/en-de"),
        (
            "::wmt/en-ed",
            "no test set 'wmt/en-ed'; test sets: wmt/en-de, wmt/en-ru, wmt22/en-de (did you mean 'wmt/en-de'?)",
        ),
    ):
        assert reading_error(f"{path}{part}") == f"{path.name}: {message}"


def test_two_test_sets_of_one_name_are_told_apart(tmp_path: Path) -> None:
    doubled = {f"v{number}/{name}": text for number in (1, 2) for name, text in FILES.items()}
    doubled["v2/wmt/sources/en-de.txt"] = "one\ntwo, again\n"
    path = folder(tmp_path / "data", doubled)
    for part in ("", "::wmt/en-de", "::wmt", "::en-de"):
        with pytest.raises(
            InputError,
            match=exactly(
                "data: holds several test sets; select one with PATH::TESTSET/LP: v1/wmt/en-de, v2/wmt/en-de"
            ),
        ):
            read(f"{path}{part}")
    for number, source in ((1, "two\u2028still two"), (2, "two, again")):
        study = read(f"{path}::v{number}/wmt/en-de")
        assert study.name == f"data::v{number}/wmt/en-de" == read(f"{path}::v{number}/wmt").name
        assert outputs_of(study).sources["source"].to_list() == ["one", source]


DA, BLEU = "human-scores/en-de.da-sqm.seg.score", "metric-scores/en-de/BLEU-refA.seg.score"
LINES = "lines, expected 2 (one per line of the source)"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            DA,
            "S1\t1\nS1\t2\nS2\t3\n",
            "system 'S2' has 1 lines, expected 2 (the source has 2 lines; this file has 3 lines for 2 systems "
            "and should have 4)",
        ),
        (
            "metric-scores/en-de/only.sys-refA.sys.score",
            "S1\t1\nS1\t2\n",
            "system 'S1' has 2 lines, expected 1 (the source has 2 lines; this file has 2 lines for 1 systems "
            "and should have 1)",
        ),
        (BLEU, "S1\t1\nS1\n", "line 2 is not SYSTEM<TAB>SCORE"),
        (
            BLEU,
            "S1\t1\nS1\tgood\n",
            "score 'good' in row 2 is not a number; write numbers with a decimal point and without thousands "
            "separators; if nothing was rated, leave the cell empty",
        ),
        (
            BLEU,
            "S1\t1\nS1\tinf\n",
            "score is infinite or beyond 1e+100 in row 2; a score must be finite (empty where not rated)",
        ),
        ("system-outputs/en-de/S1.txt", "a\nb\nc\n", f"3 {LINES}"),
        ("references/en-de.refA.txt", "a\n", f"1 {LINES}"),
        ("documents/en-de.docs", "news\tx\n", f"1 {LINES}"),
        ("documents/en-de.docs", "news\nnews\n", "line 1, 2 is not DOMAIN<TAB>DOCUMENT"),
    ],
)
def test_files_that_do_not_fit_raise(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert reading_error(folder(tmp_path / "data", FILES | {f"wmt/{name}": text})) == f"{name}: {message}"


def test_a_rater_of_both_kinds_raises(tmp_path: Path) -> None:
    path = packed(tmp_path, FILES | {"wmt/human-scores/en-de.BLEU-refA.seg.score": "S1\t1\nS1\t2\n"})
    with pytest.raises(
        InputError,
        match=exactly(
            "data.tar.gz::wmt/en-de: 'BLEU-refA' has a file of human scores and a file of metric scores; rename "
            "one of the two files"
        ),
    ):
        read(path)


def test_a_folder_and_a_tar_of_something_else_raise(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"^other: the layout of this folder is unknown; give an entry of it \(a\.csv\), or a known layout: ",
    ):
        read(folder(tmp_path / "other", {"a.csv": "x"}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="^empty: the folder is empty"):
        read(tmp_path / "empty")
    with pytest.raises(
        InputError,
        match=exactly(
            "data.tar.gz: no test sets of mt-metrics-eval, as TESTSET/sources/LP.txt is missing; give a tar "
            "of test sets"
        ),
    ):
        read(packed(tmp_path, {"a.csv": "x"}))


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_a_tar_cut_anywhere_raises(tmp_path: Path, suffix: str) -> None:
    path = packed(tmp_path, FILES, suffix)
    whole = path.read_bytes()
    # an uncompressed tar may lose zeros of its last record without losing data
    end = len(whole) if suffix == ".tar.gz" else len(whole.rstrip(b"\0"))
    for keep in (*range(0, end, 97), *range(0, end, 512), end - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(
            InputError, match=r"^data\.tar.*: a damaged or truncated tar file \(.*\); copy or download it again$"
        ):
            read(path)


def test_a_malicious_tar_does_no_harm(tmp_path: Path) -> None:
    """Paths outside the folder, links, devices and sparse giants are skipped, and nothing is written."""
    secret = tmp_path / "secret.txt"
    secret.write_text("S1\t1\nS1\t2\n")
    path = tmp_path / "work" / "evil.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as tar:
        for name, text in {**FILES, "../../climbed.txt": "x", "/tmp/custodes-climbed.txt": "x"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
        for kind, target in ((tarfile.SYMTYPE, str(secret)), (tarfile.LNKTYPE, "../secret.txt"), (tarfile.CHRTYPE, "")):
            member = tarfile.TarInfo(f"wmt/metric-scores/en-de/EVIL{kind.decode()}.seg.score")
            member.type, member.linkname = kind, target
            tar.addfile(member)
        giant = tarfile.TarInfo("wmt/metric-scores/en-de/GIANT.seg.score")
        giant.pax_headers = {
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.size": str(2**50),
            "GNU.sparse.map": f"{2**50},0",
        }
        tar.addfile(giant)
    before = sorted(tmp_path.rglob("*"))
    check(read(path))
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/custodes-climbed.txt").exists()


def test_a_tar_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path, FILES)
    sizes = [len(text.encode()) for text in FILES.values()]
    member = "./mt-metrics-eval-v2/wmt/human-scores/en-de.da-sqm.seg.score"
    for name, limit, message in (
        ("LARGEST", sum(sizes), "a test set is larger than 2,048 MiB"),
        ("LARGEST_MEMBER", max(sizes), f"{member} is larger than 512 MiB"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(mtme, name, limit)
            check(read(path))
            patch.setattr(mtme, name, limit - 1)
            message = f"data.tar.gz: {message}; unpack the tar and give the folder"
            with pytest.raises(InputError, match=exactly(message)):
                read(path)
