"""What all tests share: no display, and skips that name their reason.

Mark a test `compiler`, `gpu` or `hopper` if it needs one; it is skipped with the reason where there
is none.
"""

import contextlib
import os
import shutil
import tempfile

import pytest

# Before anything imports pyplot: a test must not open a window, nor need a notebook's backend.
os.environ["MPLBACKEND"] = "Agg"

# Before anything imports NumPy: each process of pytest-xdist has a processor to itself. More threads of BLAS would wait
# for one another, busily, and keep the other processes from theirs.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Both make a folder in the user's home when they are imported, and there may be none.
if not os.access(os.path.expanduser("~"), os.W_OK):
    os.environ.setdefault("CUPY_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"cupy-{os.getuid()}"))
    os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), f"matplotlib-{os.getuid()}"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=1, metavar="N", help="N times as many random cases in tests/fuzz")
    parser.addoption("--soak", action="store_true", help="also the tests marked soak: more of the same kind")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build the emulator's runtime before pytest-xdist starts its processes: each of them would build it for itself."""
    is_first = not hasattr(session.config, "workerinput")
    if not (is_first and session.config.getoption("numprocesses", None) and has_compiler()):
        return
    from helpers.emulator.build import build_runtime
    from helpers.errors import BackendError

    with contextlib.suppress(BackendError):   # the tests that need it will say why it cannot be built
        build_runtime()


@pytest.fixture
def fuzz(request: pytest.FixtureRequest) -> int:
    """How many times the usual number of random cases to try."""
    return request.config.getoption("--fuzz")


def has_compiler() -> bool:
    """Whether the emulator can be built: $CXX, g++ or clang++ is a program here."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)


def compute_capability() -> str | None:
    """'9.0' and the like of the first GPU; None without a GPU or a driver."""
    try:
        import cupy

        if not cupy.cuda.is_available():
            return None
        digits = cupy.cuda.Device(0).compute_capability
    except Exception:  # a broken driver is as good as none, and must not stop the other tests
        return None
    return f"{digits[:-1]}.{digits[-1]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("soak")])
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    marked = {name for item in items for name in ("compiler", "gpu", "hopper") if item.get_closest_marker(name)}
    reasons: dict[str, str] = {}
    if "compiler" in marked and not has_compiler():
        reasons["compiler"] = "no C++ compiler: install g++, or name one in $CXX"
    if marked & {"gpu", "hopper"}:
        capability = compute_capability()
        if capability is None:
            reasons["gpu"] = reasons["hopper"] = "no CUDA GPU answers on this machine"
        elif capability != "9.0":
            reasons["hopper"] = f"needs compute capability 9.0, this GPU has {capability}"
    for item in items:
        for name, reason in reasons.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
