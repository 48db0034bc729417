"""The answers of one device as a text file: each array LZMA-compressed in base64, with shape, dtype and SHA-256."""

import base64
import hashlib
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.device import slug
from helpers.errors import RecordError
from helpers.files import write_whole
from helpers.jsonfile import display, format_json, read_json

from .cases import Arrays, Case

RECORDED = Path(__file__).parent / "recorded" / "nvidia-h200.json"   # the reference device
REMEDY = "record it again with `python -m tests.conformance.record` on a Hopper GPU"
# The contexts that make arrays of 16- and 32-bit values smallest. Whoever reads learns them from the data.
_FILTERS = [{"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 1, "pb": 2}]


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
        "lzma": base64.b64encode(lzma.compress(data, lzma.FORMAT_ALONE, filters=_FILTERS)).decode(),
    }


def unpack(packed: dict[str, Any], what: str) -> np.ndarray:
    """Raises RecordError if the bytes are not those that were recorded."""
    try:
        data = lzma.decompress(base64.b64decode(packed["lzma"], validate=True))
        array = np.frombuffer(data, np.dtype(packed["dtype"])).reshape(packed["shape"])
    except (KeyError, TypeError, ValueError, lzma.LZMAError) as error:
        raise RecordError(f"{what} is damaged ({error}): {REMEDY}.") from None
    if hashlib.sha256(data).hexdigest() != packed.get("sha256"):
        raise RecordError(f"{what} does not have the SHA-256 that stands beside it: {REMEDY}.")
    return array


def entry(case: Case, answer: Arrays | str) -> dict[str, Any]:
    """What is written of a case. answer: of a refused case, the status with which the GPU stopped."""
    if isinstance(answer, str):
        return {"input": input_hash(case), "status": answer}
    return {"input": input_hash(case), "arrays": {name: pack(array) for name, array in answer.items()}}


def write(directory: Path, device: dict[str, str], answers: dict[str, dict[str, Any]]) -> Path:
    """Write a device's file, named after it. answers: name of the case -> its entry, as `entry` makes it."""
    content = {"device": device, "cases": {case: answers[case] for case in sorted(answers)}}
    return write_whole(directory / f"{slug(device['name'])}.json", format_json(content) + "\n")


@dataclass(frozen=True)
class Recording:
    """A device's file. cases: name of the case -> its entry."""

    path: Path
    device: dict[str, str]
    cases: dict[str, dict[str, Any]]

    def answer(self, case: Case) -> Arrays | str:
        """What the hardware answered, of a refused case its status.

        Raises RecordError if that is not known, damaged, or of other inputs.
        """
        where = display(self.path)
        found = self.cases.get(case.name)
        if found is None:
            raise RecordError(f"{where} has no case {case.name}: {REMEDY}.")
        if found["input"] != input_hash(case):
            raise RecordError(f"{where}: {case.name} was recorded with other inputs: {REMEDY}.")
        if case.refused:
            return found["status"]
        return {name: unpack(packed, f"{where}: {case.name}, {name},") for name, packed in found["arrays"].items()}


def read(path: Path = RECORDED) -> Recording:
    """Raises RecordError if the file is missing or damaged."""
    content = read_json(path)
    if not (isinstance(content.get("device"), dict) and isinstance(content.get("cases"), dict)):
        raise RecordError(f"{display(path)} has no device or no cases: {REMEDY}.")
    return Recording(path, content["device"], content["cases"])
