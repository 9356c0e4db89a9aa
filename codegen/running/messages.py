"""Messages between an evaluator and its processes: JSON on a pipe, the length in front."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

_LENGTH = struct.Struct("<I")


def write_message(descriptor: int, message: Message) -> None:
    """Raises `BrokenPipeError` where nobody reads any more."""
    data = json.dumps(message).encode()
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(descriptor, data) :]


def read_message(read: Callable[[int], bytes]) -> Message | None:
    """The next message; None at the end of the pipe. `read(n)` gives n bytes, or fewer at the end."""
    head = read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = read(length)
    if len(body) < length:
        return None
    message: Message = json.loads(body)
    return message
