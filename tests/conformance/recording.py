"""Answers as small text files: one per topic, each array zlib-compressed in base64, with shape, dtype and SHA-256."""

import base64
import hashlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from helpers.errors import RecordError
from helpers.files import write_whole
from helpers.jsonfile import display, format_json, read_json

from .cases import Arrays, Case

RECORDED = Path(__file__).parent / "recorded" / "nvidia-h200"   # the reference device
REMEDY = "record it again with `python -m tests.conformance.record` on a Hopper GPU"


def input_hash(case: Case) -> str:
    """Identity of what a case was given, so that an answer to another question is noticed."""
    digest = hashlib.sha256()
    for name, array in sorted(case.inputs().items()):
        digest.update(f"{name} {array.dtype} {array.shape};".encode() + np.ascontiguousarray(array).tobytes())
    for argument in case.arguments:
        digest.update((argument.tobytes() if isinstance(argument, np.ndarray) else repr(argument).encode()) + b";")
    digest.update(repr((case.entry, case.grid, case.block, sorted(case.defines.items()))).encode())
    return digest.hexdigest()[:16]


def pack(array: np.ndarray) -> dict[str, Any]:
    data = np.ascontiguousarray(array).tobytes()
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
        "zlib": base64.b64encode(zlib.compress(data, 9)).decode(),
    }


def unpack(packed: dict[str, Any], what: str) -> np.ndarray:
    """Raises RecordError if the bytes are not those that were recorded."""
    try:
        data = zlib.decompress(base64.b64decode(packed["zlib"], validate=True))
        array = np.frombuffer(data, np.dtype(packed["dtype"])).reshape(packed["shape"])
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise RecordError(f"{what} is damaged ({error}): {REMEDY}.") from None
    if hashlib.sha256(data).hexdigest() != packed.get("sha256"):
        raise RecordError(f"{what} does not have the SHA-256 that stands beside it: {REMEDY}.")
    return array


def write_topic(directory: Path, topic: str, device: dict[str, str], answers: dict[str, dict[str, Any]]) -> Path:
    """Write the file of one topic. answers: name of the case -> its entry, as `entry` makes it."""
    content = {"topic": topic, "device": device, "cases": answers}
    return write_whole(directory / f"{topic}.json", format_json(content) + "\n")


def entry(case: Case, answer: Arrays | str) -> dict[str, Any]:
    """What is written of a case. answer: of a refused case, the status with which the GPU stopped."""
    if isinstance(answer, str):
        return {"input": input_hash(case), "status": answer}
    return {"input": input_hash(case), "arrays": {name: pack(array) for name, array in answer.items()}}


def recorded(case: Case, directory: Path = RECORDED) -> Arrays | str:
    """What the hardware answered, of a refused case its status.

    Raises RecordError if that is not known, damaged, or of other inputs.
    """
    path = directory / f"{case.topic}.json"
    found = read_json(path).get("cases", {}).get(case.name)
    if found is None:
        raise RecordError(f"{display(path)} has no case {case.name}: {REMEDY}.")
    if found["input"] != input_hash(case):
        raise RecordError(f"{display(path)}: {case.name} was recorded with other inputs: {REMEDY}.")
    if case.refused:
        return found["status"]
    return {name: unpack(packed, f"{display(path)}: {case.name}, {name},") for name, packed in found["arrays"].items()}
