"""`doctor`: what is missing on this machine, and the line to type; with --performance, why a kernel is slower here."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from helpers import cuda
from helpers.cache import cache_directory
from helpers.cli.output import Output
from helpers.errors import CourseError
from helpers.gpu import probe, unfit
from helpers.rungs import ROOT, RUNGS
from helpers.tables import CHECK_COLUMNS, UNDER_FOUND

OLDEST_PYTHON, FIRST_UNSUPPORTED_PYTHON = (3, 11), (3, 14)


class Finding(NamedTuple):
    """Outcome of a check. remedy: what to type, "" if all is well."""

    ok: bool
    detail: str
    remedy: str = ""


def doctor(options: argparse.Namespace, output: Output) -> int:
    """Run all checks. Exit 1 if something is missing that the course needs on every machine (so not the GPU)."""
    if options.performance:
        return performance(options, output)
    broken = False
    for name, check, required in CHECKS:
        finding = carefully(check)
        broken = broken or required and not finding.ok
        output.row({"check": name, **finding._asdict(), "required": required}, CHECK_COLUMNS)
        if not finding.ok and finding.remedy:
            output.text(f"{UNDER_FOUND}{'' if required else 'only for speeds of your own: '}{finding.remedy}")
    return 1 if broken else 0


def performance(options: argparse.Namespace, output: Output) -> int:
    """Measure a rung beside its recording and say which known causes fit. Exit 1 if its result is wrong."""
    from helpers.performance import measure_and_explain

    report = measure_and_explain(options.rung, options.size, "sustained" if options.sustained else "burst")
    output.text(str(report))
    output.rows.extend({**asdict(finding), "required": False} for finding in report.findings)
    return 1 if report.facts.refused else 0


def carefully(check: Callable[[], Finding]) -> Finding:
    """A check's finding; an error that it raises is one too."""
    try:
        return check()
    except CourseError as error:
        what, _, remedy = str(error).rpartition(": ")
        return Finding(False, what, remedy)
    except Exception as error:
        text = " ".join(str(error).split())
        return Finding(False, f"{type(error).__name__}: {text}", "run `make setup`")


def python() -> Finding:
    version = sys.version_info[:2]
    detail = f"Python {sys.version.split()[0]}"
    if OLDEST_PYTHON <= version < FIRST_UNSUPPORTED_PYTHON:
        return Finding(True, detail)
    return Finding(False, detail, "install Python 3.11, 3.12 or 3.13, then `make setup PYTHON=python3.13`")


def packages() -> Finding:
    import ml_dtypes
    import numpy

    try:
        import cupy
    except PermissionError as error:   # CuPy makes its cache folder when it is imported
        return Finding(False, f"CuPy: {error}", "set CUPY_CACHE_DIR to a folder that can be written")

    return Finding(True, f"NumPy {numpy.__version__}, ml_dtypes {ml_dtypes.__version__}, CuPy {cupy.__version__}")


def compiler() -> Finding:
    from helpers.emulator import compiler_version

    return Finding(True, compiler_version())


def nvrtc() -> Finding:
    architectures = cuda.supported_architectures()
    headers = cuda.cuda_include_directory()
    detail = f"NVRTC {cuda.nvrtc_version()}, headers in {headers}"
    if 90 in architectures:
        return Finding(True, detail)
    return Finding(False, f"{detail}, but it does not compile for Hopper", "run `make setup`")


def nvdisasm() -> Finding:
    path = cuda.nvdisasm()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
    release = [line for line in done.stdout.splitlines() if "release" in line]
    return Finding(True, release[0].strip() if release else str(path))


def gpu() -> Finding:
    answer = probe()
    if answer.gpu is None:
        what, _, remedy = answer.problem.rpartition(": ")
        return Finding(False, f"{what}; speeds are shown as recorded", remedy.rstrip("."))
    found = answer.gpu
    capability = f"{found.capability[0]}.{found.capability[1]}"
    runs = [rung for rung in RUNGS if not unfit(rung.name, rung.compute_capability, found)]
    cuda_version = f"{found.driver // 1000}.{found.driver % 1000 // 10}"
    detail = f"{found.name}, compute capability {capability}, driver for CUDA {cuda_version}"
    if len(runs) == len(RUNGS):
        return Finding(True, detail)
    return Finding(False, f"{detail}: it runs {len(runs)} of {len(RUNGS)} rungs", "use a Hopper GPU (H100, H200)")


def cublas() -> Finding:
    from helpers.cublas import version

    found = version()
    return Finding(True, f"cuBLAS {found}") if found else Finding(False, "cuBLAS was not found", CUBLAS_REMEDY)


def folders() -> Finding:
    cache_directory("cuda")
    build = ROOT / "build"
    try:
        build.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=build):
            pass
    except OSError as error:
        return Finding(False, f"{build} cannot be written ({error.strerror})", f"make {ROOT} writable, or copy it")
    cache = os.environ.get("HOPPER_CACHE")
    return Finding(True, "build/ can be written" + (f", and so can HOPPER_CACHE={cache}" if cache else ""))


def jupyter() -> Finding:
    """The notebooks' kernel is this very interpreter with ipykernel, whatever kernels are registered elsewhere."""
    import ipykernel
    import jupyterlab
    import nbclient

    modules = (("JupyterLab", jupyterlab), ("ipykernel", ipykernel), ("nbclient", nbclient))
    versions = ", ".join(f"{name} {module.__version__}" for name, module in modules)
    return Finding(True, f"{versions} in {Path(sys.prefix).name}")


CUBLAS_REMEDY = "run `.venv/bin/pip install 'nvidia-cublas>=13.0,<14'`"
CHECKS: tuple[tuple[str, Callable[[], Finding], bool], ...] = (
    ("python", python, True),
    ("packages", packages, True),
    ("C++ compiler", compiler, True),
    ("NVRTC, headers", nvrtc, True),
    ("nvdisasm", nvdisasm, True),
    ("GPU", gpu, False),
    ("cuBLAS", cublas, False),
    ("folders", folders, True),
    ("Jupyter", jupyter, True),
)
