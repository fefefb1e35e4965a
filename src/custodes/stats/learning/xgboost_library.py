"""XGBoost by its C interface, which every language binds to.

`import xgboost` brings scikit-learn, pandas and scipy.stats along where they are installed: a second that nothing here
needs.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from custodes.errors import MissingExtraError
from custodes.stats.arrays import Floats

_FILES = {"win32": "xgboost.dll", "cygwin": "cygxgboost.dll", "darwin": "libxgboost.dylib"}
_HANDLE = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_SIGNATURES: dict[str, list[Any]] = {
    "XGDMatrixCreateFromDense": [_TEXT, _TEXT, ctypes.POINTER(_HANDLE)],
    "XGDMatrixSetInfoFromInterface": [_HANDLE, _TEXT, _TEXT],
    "XGDMatrixFree": [_HANDLE],
    "XGBoosterCreate": [ctypes.POINTER(_HANDLE), ctypes.c_uint64, ctypes.POINTER(_HANDLE)],
    "XGBoosterSetParam": [_HANDLE, _TEXT, _TEXT],
    "XGBoosterUpdateOneIter": [_HANDLE, ctypes.c_int, _HANDLE],
    "XGBoosterSaveModelToBuffer": [
        _HANDLE,
        _TEXT,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_char)),
    ],
    "XGBoosterFree": [_HANDLE],
}


def grown(x: Floats, y: Floats, *, rounds: int, threads: int, options: Mapping[str, object]) -> bytes:
    """Fit so many trees to y (rows,) by x (rows, p), NaN = missing: the model in XGBoost's JSON format.

    The options are XGBoost's. MissingExtraError without XGBoost.

    >>> x = np.array([[0.0], [1.0]])
    >>> grown(x, x[:, 0], rounds=1, threads=1, options={"max_depth": 1, "nthread": 1})[:11]
    b'{"learner":'

    Source: XGBoost's "C API Functions".
    """
    library = _opened(_place())

    def call(name: str, *given: Any) -> None:
        if getattr(library, name)(*given):
            raise RuntimeError(f"XGBoost: {library.XGBGetLastError().decode()}")

    data, booster = _HANDLE(), _HANDLE()
    x, y = np.ascontiguousarray(x, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64)
    try:
        settings = b'{"missing":NaN,"nthread":%d}' % threads
        call("XGDMatrixCreateFromDense", _told(x), settings, ctypes.byref(data))
        call("XGDMatrixSetInfoFromInterface", data, b"label", _told(y))
        call("XGBoosterCreate", ctypes.byref(data), 1, ctypes.byref(booster))
        for name, value in options.items():
            call("XGBoosterSetParam", booster, name.encode(), str(value).encode())
        for number in range(rounds):
            call("XGBoosterUpdateOneIter", booster, number, data)
        size, start = ctypes.c_uint64(), ctypes.POINTER(ctypes.c_char)()
        call("XGBoosterSaveModelToBuffer", booster, b'{"format":"json"}', ctypes.byref(size), ctypes.byref(start))
        return ctypes.string_at(start, size.value)
    finally:
        for name, handle in (("XGBoosterFree", booster), ("XGDMatrixFree", data)):
            if handle:
                getattr(library, name)(handle)


def _told(values: Floats) -> bytes:
    """Where an array is, and its layout, as NumPy's array interface says it."""
    return msgspec.json.encode({**values.__array_interface__, "descr": None, "strides": None})


def _place() -> str:
    """The file of the library, found without a look into the package."""
    found = find_spec("xgboost")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("boosting needs XGBoost: pip install 'custodes[learn]'")
    beside = Path(found.submodule_search_locations[0], "lib", _FILES.get(sys.platform, "libxgboost.so"))
    if beside.is_file():
        return str(beside)
    from xgboost.libpath import find_lib_path  # some packagers put it elsewhere

    return str(find_lib_path()[0])


@lru_cache
def _opened(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise MissingExtraError(f"XGBoost's library does not load ({error}): pip install 'custodes[learn]'") from error
    for name, arguments in _SIGNATURES.items():
        getattr(library, name).argtypes = arguments
    library.XGBGetLastError.restype = _TEXT
    return library
