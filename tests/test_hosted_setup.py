"""The set-up for hosted notebooks: what it would install, what it leaves alone, and that it prepares the kernel."""

import importlib.util
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from helpers.rungs import ROOT

SCRIPT = ROOT / "scripts" / "hosted_setup.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def setup():
    spec = importlib.util.spec_from_file_location("hosted_setup", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needed(setup):
    names = {setup.canonical(Requirement(line).name) for line in PROJECT["dependencies"]}
    return names - set(setup.HOSTS_OWN)


def test_an_empty_host_gets_every_requirement_as_locked_but_no_jupyter(setup):
    wanted = [Requirement(line) for line in setup.missing({})]
    assert {setup.canonical(item.name) for item in wanted} == needed(setup)
    assert all([specifier.operator for specifier in item.specifier] == ["=="] for item in wanted)
    assert set(setup.HOSTS_OWN) <= {setup.canonical(Requirement(line).name) for line in PROJECT["dependencies"]}


def test_what_fits_is_left_alone_and_what_does_not_is_replaced(setup):
    installed = {name: "999" for name in needed(setup)} | {"numpy": "2.1.0", "matplotlib": "3.7.0"}
    wanted = {setup.canonical(Requirement(line).name) for line in setup.missing(installed)}
    assert "numpy" not in wanted, "another version than the locked one will do"
    assert "matplotlib" in wanted, "too old"
    assert "nvidia-cuda-nvrtc" in wanted, "the recordings' own compiler, no other"


def test_cupy_for_another_cuda_is_a_rival(setup, monkeypatch):
    names = ["cupy-cuda12x", "cupy", "cupy_cuda13x", "cupy-rocm-5-0", "cupyx-tools", "numpy"]
    items = [SimpleNamespace(metadata={"Name": name}) for name in names]
    monkeypatch.setattr(setup, "distributions", lambda: items)
    assert setup.rival_cupys() == ["cupy", "cupy-cuda12x", "cupy-rocm-5-0"]


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_another_python_is_refused_before_anything_is_installed(setup, monkeypatch, version):
    monkeypatch.setattr(setup.sys, "version_info", (*version, 0))
    monkeypatch.setattr(setup, "pip", lambda *_: pytest.fail("installed"))
    with pytest.raises(SystemExit, match=r"choose a host with Python 3.11, 3.12 or 3.13\.$"):
        setup.main()


def test_a_failing_pip_is_one_sentence(setup, monkeypatch):
    answer = SimpleNamespace(returncode=1, stderr="a\nERROR: No matching distribution\n")
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(SystemExit) as stopped:
        setup.pip("install", "x")
    assert "\n" not in str(stopped.value) and "(ERROR: No matching distribution)" in str(stopped.value)


def test_in_a_complete_environment_it_only_prepares_the_kernel(tmp_path):
    """As `%run` does it: from any folder, and afterwards the same process imports helpers and stands in notebooks/."""
    code = (
        f"import runpy, sys; sys.path = [p for p in sys.path if p not in ('', {str(ROOT)!r})];"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__');"
        "import os, helpers; print(os.path.basename(os.getcwd()), helpers.load(1).rung.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "installing" not in done.stdout
    assert done.stdout.startswith("Ready, in notebooks/. ") and done.stdout.endswith("notebooks 01_coalescing\n")
