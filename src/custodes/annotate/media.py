"""Images of items and outputs: of a known type by their content, made anew without what a camera adds."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custodes.data.loading import check_exists
from custodes.errors import InputError, MissingExtraError, shown
from custodes.progress import Progress

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 5 * 2**20
"""Bytes of an image."""
PIXELS = 40_000_000
"""Of an image, all its pictures together where it moves."""
TYPES = {
    "PNG": ("image/png", "png"),
    "JPEG": ("image/jpeg", "jpg"),
    "WEBP": ("image/webp", "webp"),
    "GIF": ("image/gif", "gif"),
}
"""What may be shown, by the name that Pillow has for it. SVG may hold programs, and may not."""
KEPT = ("icc_profile", "transparency", "duration", "loop", "background")
"""What stays of all that a file says beside its pixels: colours and movement."""
REMOTE = ("http://", "https://", "data:", "ftp://")


@dataclass(frozen=True, kw_only=True)
class Medium:
    """An image as it is served: its name says its content (SHA-256) and its type, and nothing of who made it."""

    name: str
    type: str
    content: bytes


def media_of(paths: Iterable[str], *, progress: Progress) -> dict[str, Medium]:
    """Each path with its image; InputError for the first that cannot be shown."""
    known = list(dict.fromkeys(paths))
    return {path: medium(path) for path in progress(known, total=len(known), desc="images")} if known else {}


def medium(path: str) -> Medium:
    """The image in a file; InputError for an address, and for what is no image that browsers show."""
    if path.lower().startswith(REMOTE):
        raise InputError(
            f"image {shown(path)}: an address, and a study shows files only; download it, and give its path"
        )
    place = Path(path)
    if "\0" in path:
        raise InputError(f"image {shown(path)}: no file has such a name")
    check_exists(place)
    try:
        if not place.is_file():
            raise InputError(f"image {shown(path)}: no file")
        size = place.stat().st_size
        if size > LARGEST:
            raise InputError(
                f"image {shown(path)}: {size / 2**20:.1f} MiB, and at most {LARGEST >> 20} are shown; make it smaller"
            )
        content = place.read_bytes()
    except OSError as problem:
        raise InputError(f"image {shown(path)}: cannot be read: {problem.strerror}") from None
    kind, made = _remade(content, path)
    return Medium(name=f"{hashlib.sha256(made).hexdigest()}.{kind[1]}", type=kind[0], content=made)


def _remade(content: bytes, path: str) -> tuple[tuple[str, str], bytes]:
    """Type and bytes of the image, made anew from its pixels."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install 'custodes[annotate]'") from error
    allowed = "PNG, JPEG, WebP or GIF"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow warns of is measured below
            with Image.open(io.BytesIO(content), formats=list(TYPES)) as image:
                pixels = image.width * image.height * getattr(image, "n_frames", 1)
                if pixels > PIXELS:
                    raise InputError(
                        f"image {shown(path)}: {image.width} x {image.height} pixels"
                        f" ({pixels / 1e6:.0f} million in all), and at most {PIXELS // 10**6} million are shown"
                    )
                name = str(image.format)
                moves = getattr(image, "is_animated", False)
                return TYPES[name], _saved(image if moves else ImageOps.exif_transpose(image), name, moves=moves)
    except Image.DecompressionBombError:
        raise InputError(f"image {shown(path)}: more than {PIXELS // 10**6} million pixels; make it smaller") from None
    except UnidentifiedImageError:
        raise InputError(f"image {shown(path)}: not an image by its content; allowed are {allowed}") from None
    except InputError:
        raise
    except Exception as problem:  # Pillow has no one kind of error for what is damaged
        why = " ".join(str(problem).split())[:100] or type(problem).__name__
        raise InputError(f"image {shown(path)}: damaged ({why}); save it again as {allowed}") from None


def _saved(image: Image, name: str, *, moves: bool) -> bytes:
    """The pixels as a file, upright, without what else the file said: place, camera, comments."""
    image.load()
    info: dict[Any, Any] = {key: value for key, value in image.info.items() if key in KEPT}
    image.info = info
    options: dict[str, Any] = {"format": name, "exif": b""} if name != "GIF" else {"format": name, "comment": b""}
    if name == "JPEG":
        options |= {"quality": 95, "icc_profile": info.get("icc_profile")}
    if name == "WEBP":
        options |= {"lossless": True, "xmp": b""}
    if moves:
        options |= {"save_all": True}
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()
