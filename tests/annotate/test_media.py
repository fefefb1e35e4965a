"""Images: type by content, removal of metadata, and one-line errors for invalid files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.annotate import study_material
from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, StudyPlan
from custodes.annotate.study_material import medium
from custodes.errors import InputError
from tests.annotate.studies import orders, query_rows

Image: Any = pytest.importorskip("PIL.Image")


def picture(colour: str = "red", size: tuple[int, int] = (60, 40)) -> Any:
    return Image.new("RGB", size, colour)


def with_secrets(path: Path) -> None:
    """Save a rotated picture with a camera, a location and a comment in its metadata."""
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    exif[0x010F] = "SecretCamera"
    exif.get_ifd(0x8825)[1] = "SecretPlace"
    options = {"comment": b"SecretComment"} if path.suffix == ".jpg" else {}
    picture().save(path, exif=exif, **options)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
def test_images_are_rotated_and_lose_their_metadata(name: str, tmp_path: Path) -> None:
    with_secrets(tmp_path / name)
    assert b"SecretCamera" in (tmp_path / name).read_bytes()
    result = medium(str(tmp_path / name))
    assert b"Secret" not in result.content
    with Image.open(io.BytesIO(result.content)) as image:
        assert image.size == (40, 60)
        assert not image.getexif()
    assert result.name.endswith(Path(name).suffix)
    assert result == medium(str(tmp_path / name))  # named by its content


def test_animations_are_kept(tmp_path: Path) -> None:
    frames = [picture(colour) for colour in ("red", "green", "blue")]
    for name in ("a.gif", "a.webp", "a.png"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], duration=100)
        with Image.open(io.BytesIO(medium(str(tmp_path / name)).content)) as image:
            assert image.n_frames == 3
    (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    assert medium(str(tmp_path / "a.jpg")).type == "image/png"  # according to the content


def test_invalid_images_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')
    picture().save(tmp_path / "whole.jpg")
    (tmp_path / "half.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:300])
    Image.new("1", (9000, 9000)).save(tmp_path / "wide.png")
    (tmp_path / "large.png").write_bytes(b"x" * (study_material.LARGEST + 1))
    for name, message in {
        "https://a.example/x.png": "this is an address, but images must be files; download the image, and "
        "give the path of the file",
        "data:image/png;base64,xx": "an address",
        "a\0.png": "not a valid file name",
        str(tmp_path / "absent.png"): "no such file",
        str(tmp_path): "no such file",
        str(tmp_path / "a.svg"): "the content is not an image; allowed: PNG, JPEG, WebP or GIF",
        str(tmp_path / "half.jpg"): "damaged",
        str(tmp_path / "wide.png"): "9000 x 9000 pixels (81 million in all), but the limit is 40 million",
        str(tmp_path / "large.png"): "5.0 MiB, but the limit is 5 MiB",
    }.items():
        with pytest.raises(InputError) as error:
            medium(name)
        assert message in str(error.value)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="more than 40 million pixels"):
        medium(str(tmp_path / "wide.png"))


def test_images_are_stored_under_neutral_names(tmp_path: Path) -> None:
    for name, colour in {"item": "red", "Aster": "green", "Birch": "blue", "Cedar": "green"}.items():
        picture(colour).save(tmp_path / f"{name}.png")
    outputs = {name: {"text": "", "image": f"{name}.png"} for name in ("Aster", "Birch", "Cedar")}
    row = {"item": "1", "image": "item.png", "outputs": outputs}
    source = tmp_path / "texts.jsonl"
    source.write_text(json.dumps(row))
    path = new(source, tmp_path / "study.db", plan=StudyPlan(annotators=AnnotatorPlan(attention=0)))
    stored = {name for (name,) in query_rows(path, "SELECT name FROM media")}
    assert len(stored) == 3  # equal images are stored once
    media = query_rows(path, "SELECT media FROM item UNION ALL SELECT media FROM output")
    assert {name for (names,) in media for name in json.loads(names)} == stored
    assert not any(name in "".join(stored) for name in ("Aster", "Birch", "item"))
    # Aster and Cedar have equal images in different files.
    assert orders(path) == {("Aster", "Birch"): ["1"], ("Birch", "Cedar"): ["1"]}
    with pytest.raises(InputError, match="no such file"):
        new(pl.DataFrame([row]), tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()
