"""docs/licences.md names the licence of every pinned package, from the packages' own metadata."""

from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from types import SimpleNamespace

import pytest

from helpers import licences
from helpers.errors import ArgumentError
from helpers.licences import DOCUMENT, ELSEWHERE, Pin, licence, main, pins, stated


def package(**fields: str | list[str]) -> SimpleNamespace:
    """A package with such metadata; `_` stands for `-`."""
    data = Message()
    data["Name"] = "some"
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            data[name.replace("_", "-")] = value
    return SimpleNamespace(metadata=data)


def test_the_page_is_current():
    assert main(["--check"]) == 0, "run `python -m helpers.licences`"
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    names = [tuple(cell.strip() for cell in row.split(" | "))[:2] for row in rows]
    assert names == [(f"| {pin.name}", pin.version) for pin in pins()] and len(names) > 100


def test_what_is_known_of_other_machines_is_what_the_packages_state_there():
    pinned = {str(pin) for pin in pins()}
    assert set(ELSEWHERE) <= pinned, "a line of ELSEWHERE is of no pinned version"
    checked = 0
    for name, said in ELSEWHERE.items():
        try:
            found = distribution(name.partition("==")[0])
        except PackageNotFoundError:
            continue
        if f"{name.partition('==')[0]}=={found.version}" == name:
            assert stated(found) == said
            checked += 1
    assert checked >= 3   # contourpy, numpy and soupsieve in one version or the other


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"License_Expression": "MIT", "License": "other", "Classifier": "License :: Y :: BSD License"}, "MIT"),
        ({"License": "BSD-3-Clause", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD-3-Clause"),
        ({"License": "Copyright (c) 2020 x", "Classifier": ["Topic :: X", "License :: Y :: BSD"]}, "BSD"),
        ({"License": "The text " * 99, "Classifier": ["License :: A :: B", "License :: A :: C"]}, "B and C"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: ISC License (ISCL)"}, "ISC License (ISCL)"),
    ],
)
def test_the_most_exact_statement_counts(fields, said):
    assert stated(package(**fields)) == said


def test_a_package_without_a_licence_is_noticed(monkeypatch, tmp_path, capsys):
    with pytest.raises(ArgumentError, match="some states no licence: look it up"):
        stated(package(License="UNKNOWN"))
    with pytest.raises(ArgumentError, match="no-such-package==1.0 is not installed here"):
        licence(Pin("no-such-package", "1.0", ""))
    with pytest.raises(ArgumentError, match="numpy==0.1 is not installed here"):
        licence(Pin("numpy", "0.1", ""))
    lock = tmp_path / "requirements.lock"
    lock.write_text("# what\nnumpy>=1\n")
    with pytest.raises(ArgumentError, match="requirements.lock has the line 'numpy>=1'"):
        list(pins([lock]))
    lock.write_text("packaging==0.1\n")
    monkeypatch.setattr(licences, "pins", lambda: pins([lock]))
    assert main(["--check"]) == 1 and "packaging==0.1 is not installed" in capsys.readouterr().err


def test_an_old_page_is_noticed_and_written_anew(tmp_path, capsys):
    page = tmp_path / "licences.md"
    page.write_text(DOCUMENT.read_text(encoding="utf-8").replace("| MIT |", "| GPL |"))
    assert main(["--check", "--file", str(page)]) == 1
    assert "run `python -m helpers.licences`" in capsys.readouterr().err
    assert main(["--file", str(page)]) == 0
    assert page.read_bytes() == DOCUMENT.read_bytes()
