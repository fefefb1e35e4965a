"""Connections that begin a request and do not go on, or whose headers have no end: closed."""

from __future__ import annotations

import asyncio
from typing import Any

SECONDS = 10.0
"""From a connection, or the first byte of a later request, to the end of its headers."""
LARGEST = 32 * 1024
"""Bytes of headers."""


def patient(seconds: float = SECONDS, largest: int = LARGEST) -> type[asyncio.Protocol]:
    """uvicorn's protocol (the quick one where it is installed), which waits for headers no longer than this.

    uvicorn itself has a limit for the time between two requests only, and httptools none for the size of headers.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Base  # type: ignore[assignment]

    class Patient(Base):
        """Closes what is too slow or too long; a request whose headers are there is the application's."""

        _timer: asyncio.TimerHandle | None = None
        _read = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start()

        def data_received(self, data: bytes) -> None:
            if self._is_idle():
                self._start()
                end = data.find(b"\r\n\r\n")  # what comes after is the body, which has a limit of its own
                self._read += len(data) if end < 0 else end
                if self._read > largest:
                    self.transport.close()
                    return
            super().data_received(data)
            if not self._is_idle():
                self._stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            """Whether no request of it is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def _start(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._read = None, 0

    return Patient
