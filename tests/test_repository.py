"""What must hold for the tree as a whole: what is in it, what is not, and that its parts agree with each other."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers import readme
from helpers.record_basics import RECORD_DIR
from helpers.records import Samples, find_record
from helpers.rungs import KERNEL_DIR, NOTEBOOK_DIR, ROOT, RUNGS

MAX_BYTES = 1_000_000
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Import name -> distribution, where they differ.
DISTRIBUTIONS = {
    "IPython": "ipykernel",   # ipykernel requires ipython
    "PIL": "matplotlib",      # matplotlib requires pillow
    "cupy": "cupy-cuda13x",
    "cupy_backends": "cupy-cuda13x",
    "cuda": "cuda-bindings",
    "jupyter_client": "nbclient",   # nbclient requires it
    "mistune": "jupyterlab",        # jupyterlab requires nbconvert, which requires mistune
    "nbconvert": "jupyterlab",
    "nvidia": "nvidia-cuda-nvrtc",
    "pynvml": "nvidia-ml-py",
    "yaml": "pyyaml",
}
# Imported only where a developer happens to have them; the module says what it does without.
OPTIONAL = {"helpers/cublas_torch.py": {"torch"}}


def tracked_files() -> list[Path]:
    """The files of the repository, or without git those that are not made by a command."""
    try:
        git = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        )  # fmt: skip
        paths = [ROOT / name for name in git.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        made = {".git", ".venv", "build", "__pycache__", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
        paths = [path for path in ROOT.rglob("*") if not made & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file())


FILES = tracked_files()


def text_files() -> list[tuple[str, str]]:
    """(path, text) of every file of the repository; a file that is no text fails."""
    return [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in FILES]


def occurrences(pattern: str, flags: int = 0) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in text_files()
        for match in re.finditer(pattern, text, flags)
    ]


# What must not be in the tree. The patterns are put together from pieces, so that this file passes them.


def test_there_are_files_to_look_at():
    names = {str(path.relative_to(ROOT)) for path in FILES}
    assert {"README.md", "LICENSE", "Makefile", "environment.yml", "requirements.lock", ".ci/run"} <= names


def test_no_package_host_is_named():
    domains = ["py" + "pi", "python" + "hosted", "np" + "mjs", "ana" + "conda", "de" + "bian", "ub" + "untu"]
    assert occurrences(rf"\b(?:{'|'.join(domains)})\.(?:org|com|net|io)\b") == []
    assert occurrences(r"--(?:extra-)?index-" + r"url|find-" + r"links") == []


def test_no_place_of_one_machine_is_named():
    folders = ["ro" + "ot", "wo" + "rk", "home/" + r"\w+", "Us" + r"ers/\w+", "op" + "t", "mn" + "t", "sr" + "v"]
    folders += ["scra" + "tch", "ni" + "x", "priv" + "ate", "med" + "ia", "va" + r"r/\w+"]
    assert occurrences(rf"(?<![\w./<>{{}}\])-])/(?:{'|'.join(folders)})/") == []


def test_no_host_is_named_but_public_ones():
    """An address is for a reader to click: of documents that everybody can read, or of this very machine."""
    public = {"docs.nvidia.com", "developer.nvidia.com", "www.aleksagordic.com", "cudaforfun.substack.com",
              "github.com", "www.w3.org"}
    made_up = {"127.0.0.1", "example.org", "example.invalid", "x.y"}
    found = occurrences(r"(?i)\bhttps?://[^\W_](?:[\w.-]*\w)?\.\w+")
    assert {text.rpartition("//")[2] for text in found} <= public | made_up and found
    assert occurrences(r"(?<=[\w-])\.(?:intern" + r"al|loc" + r"al|la" + r"n|cor" + r"p|localdom" + r"ain)\b") == []
    addresses = occurrences(r"(?<![=.\w])\d{1,3}(?:\.\d{1,3}){3}(?![.\w])")
    of_versions = "docs/licences.md:"
    others = [text for text in addresses if not text.endswith(" 127.0.0.1") and not text.startswith(of_versions)]
    assert others == []
    assert occurrences(r"(?<=[\w.+-])@[\w-]+\.[a-z]{2,}\b") == [], "an address of mail"


def test_no_secret_is_in_the_tree():
    kinds = [
        "-----BEGIN [A-Z ]*PRIV" + "ATE KEY-----",
        r"\bgh[pousr]_\w{30,}",
        r"\bgithub_" + r"pat_\w{20,}",
        r"\bAK" + r"IA[0-9A-Z]{16}\b",
        r"\bsk-[\w-]{20,}",
        r"\bxox[abprs]-[\w-]{10,}",
        r"\bgl" + r"pat-[\w-]{20,}",
        r"\bnv" + r"api-[\w-]{20,}",
        r"\bh" + r"f_[A-Za-z]{30,}",
        r"\bAI" + r"za[\w-]{35}\b",
        r"\bey" + r"J[\w-]{10,}\.ey" + r"J[\w-]{10,}",
        r"://[^/\s:@'\"]+:[^/\s@'\"]+" + r"@",   # a name and a password before a host
        r"(?i)\b(?:pass" + r"word|sec" + r"ret|api_?key|to" + r"ken)\b\s*[:=]\s*['\"][^'\"\s]{8,}['\"]",
    ]
    assert [found for kind in kinds for found in occurrences(kind)] == []


def test_every_file_is_small_text():
    assert [str(path) for path in FILES if path.stat().st_size > MAX_BYTES] == []
    assert [str(path) for path in FILES if b"\0" in path.read_bytes()] == []
    text_files()   # all of them are UTF-8
    assert [str(path) for path in FILES if path.is_symlink()] == []


def test_kernels_hold_no_inline_assembly():
    kernels = sorted(KERNEL_DIR.glob("[0-9][0-9]_*.cu"))
    assert [path.name for path in kernels] == [rung.path.name for rung in RUNGS]
    for path in kernels:
        assert not re.search(r"\b_*asm_*\b", path.read_text(encoding="utf-8")), path.name


def test_the_licence_is_mit():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License\n\nCopyright (c) ")
    assert PROJECT["license"] == "MIT"


# Requirements


def pins(name: str) -> dict[str, list[Requirement]]:
    """Distribution -> the pinned requirements of a lock file (several where markers split them)."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            assert [specifier.operator for specifier in requirement.specifier] == ["=="], line
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def required(*extras: str) -> list[Requirement]:
    lines = PROJECT["dependencies"] + [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements.lock", required("dev")),
        ("requirements-gpu.lock", [Requirement(line) for line in PROJECT["optional-dependencies"]["gpu"]]),
    ],
)
def test_locks_satisfy_the_project(lock, requirements):
    pinned = pins(lock)
    for requirement in requirements:
        mine = pinned.get(canonicalize_name(requirement.name), [])
        assert mine, f"{requirement.name} is not in {lock}"
        for pin in mine:
            version = next(iter(pin.specifier)).version
            assert requirement.specifier.contains(version, prereleases=True), f"{lock} pins {pin}, not {requirement}"


def test_this_environment_is_the_locked_one():
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("not run in .venv")
    from importlib.metadata import version

    for name, requirements in pins("requirements.lock").items():
        for pin in requirements:
            if pin.marker is None or pin.marker.evaluate():
                assert pin.specifier.contains(version(name), prereleases=True), f"{name} {version(name)} is not {pin}"


def imports_of(source: str) -> set[str]:
    """The top-level names of the modules that a Python text imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
    return names


def sources() -> list[tuple[str, str]]:
    """(where, Python text) of the package and of the notebooks' code."""
    found = [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "helpers").rglob("*.py"))]
    for path in sorted(NOTEBOOK_DIR.glob("*.ipynb")):
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        found += [(path, cell) for cell in cells]
    return [(path.relative_to(ROOT).as_posix(), code) for path, code in found]


def uncovered_imports(source: str) -> set[str]:
    """Imported modules that are neither Python's own, nor the project's, nor of a required distribution."""
    covered = {canonicalize_name(requirement.name) for requirement in required("gpu")}
    missing = set()
    for name in imports_of(source) - set(sys.stdlib_module_names) - {"helpers"}:
        if canonicalize_name(DISTRIBUTIONS.get(name, name)) not in covered:
            missing.add(name)
    return missing


def test_every_import_is_covered_by_the_requirements():
    missing = {where: uncovered_imports(code) - OPTIONAL.get(where, set()) for where, code in sources()}
    assert {where: names for where, names in missing.items() if names} == {}


def test_an_uncovered_import_is_noticed():
    assert uncovered_imports("import numpy, os\nfrom helpers import x\nfrom cupy.cuda import y") == set()
    assert uncovered_imports("def f():\n    import torch\n    from scipy.linalg import lu") == {"torch", "scipy"}


# environment.yml


def test_conda_file_is_honest():
    data = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert set(data) == {"name", "channels", "dependencies"}
    assert data["name"] == PROJECT["name"] and data["channels"] == ["conda-forge"]
    python, pip, packages = data["dependencies"]
    assert python == f"python {PROJECT['requires-python']}"
    assert pip == "pip"
    assert packages == {"pip": ["-r requirements.lock", "-e ."]}
    assert (ROOT / "requirements.lock").is_file()


# Commands and README


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_every_make_target_in_the_readme_exists_and_is_documented():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {word for line in re.findall(r"`make ([a-z ]+)`", text) for word in line.split()}
    named |= set(re.findall(r"^ {4}make ([a-z]+)", text, flags=re.MULTILINE))
    assert {"test", "setup", "lab", "record", "lint", "clean", "help"} <= named
    assert named <= makefile_targets()


def test_make_help_lists_every_documented_target():
    result = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^ {4}make ([a-z]+)", result.stdout, flags=re.MULTILINE))
    assert listed == makefile_targets()


def test_make_ends_with_what_was_made_and_where_to_look_next():
    """Without the pages of text that a picture has for those who cannot see it."""
    command = ["make", "-n", "--no-print-directory"]   # `make test` runs this one, and then make names its folder
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    made, following = (line.removeprefix("echo ").strip("'") for line in planned[-2:])
    for name in ("build/notebooks", "build/ladder.png"):
        assert name in made and any(name in line for line in planned[:-2]), name
    assert made.startswith("Made: ") and following.startswith("Next: ") and len(made) <= 120 >= len(following)
    named = set(re.findall(r"`make ([a-z]+)`", following))
    assert "lab" in named and named <= makefile_targets()


def test_shell_scripts_parse():
    for name in ("scripts/setup.sh", "scripts/sanitize.sh", ".ci/run"):
        subprocess.run(["sh", "-n", str(ROOT / name)], check=True)


def test_sanitizers_start_in_any_folder(tmp_path):
    """Spaces and colons separate their options."""
    library = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if library == "libasan.so":
        pytest.skip("g++ has no AddressSanitizer")
    folder = tmp_path / "it's a folder: ü"
    for name in ("scripts", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "sanitize.sh", folder / "scripts")
    python = folder / ".venv" / "bin" / "python"   # stands for Python: the sanitizer starts in it, too
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    result = subprocess.run(["sh", folder / "scripts" / "sanitize.sh", "tests"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_what_ci_runs_is_there():
    """Also of the browser's tests: the words after -k must choose some, and every notebook as committed."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    driver = (ROOT / "tests" / "browser" / "webdriver.py").read_text(encoding="utf-8")
    (browsers,) = re.findall(r"^for name in (.+); do$", script, flags=re.MULTILINE)
    assert f"CHROMIUM = {tuple(browsers.split())}".replace("'", '"') in driver
    targets = set(re.findall(r"^make ?([a-z]*)", script, flags=re.MULTILINE)) - {""}
    assert {"test", "lint", "browser"} <= targets <= makefile_targets()
    (chosen,) = re.findall(r"""^make browser BROWSER='-n 2 -k "(.*)"'$""", script, flags=re.MULTILINE)
    command = [sys.executable, "-m", "pytest", "tests/browser", "--collect-only", "-q", "-k", chosen]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"test_as_committed[{rung.name}.ipynb]" in listed for rung in RUNGS)
    assert "sample" in listed and "is_seen" in listed and "to_the_last[01" not in listed


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("no-such-python", "PYTHON=no-such-python is not a program"),
        ("/bin/true", "3.11, 3.12 or 3.13 is needed"),
    ],
)
def test_a_wrong_python_is_refused_in_one_sentence(argument, says):
    result = subprocess.run(["sh", "scripts/setup.sh", argument], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert says in result.stderr and len(result.stderr.splitlines()) == 1


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert targets
    missing = [target for target in targets if not (ROOT / target.split("#")[0]).exists()]
    if missing and not any(NOTEBOOK_DIR.glob("*.ipynb")):
        pytest.skip("no notebook is written yet")
    assert missing == []


def test_the_readme_lists_exactly_the_notebooks_that_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(notebooks/([\w.]+)\)", text))
    assert linked == {rung.notebook.name for rung in RUNGS}


def test_a_damaged_record_does_not_drop_its_row_from_the_readme(tmp_path, monkeypatch, capsys):
    file = tmp_path / "README.md"
    file.write_text(readme.README.read_text(encoding="utf-8"), encoding="utf-8")
    before = file.read_bytes()
    folder = tmp_path / "records" / "nvidia-h200"
    folder.mkdir(parents=True)
    (folder.parent / "published.json").write_bytes((RECORD_DIR / "published.json").read_bytes())
    (folder / "01_coalescing_4096_burst.json").write_text("{ not json")
    monkeypatch.setattr("helpers.record_basics.RECORD_DIR", folder.parent)
    for arguments in (["--file", str(file)], ["--file", str(file), "--check"]):
        assert readme.main(arguments) == 1
        assert "01_coalescing_4096_burst.json is not valid JSON" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_figure_of_other_rounds_is_told_apart():
    """It stands in a column with figures of another hour, perhaps of another card."""
    found = [find_record(number, 4096, 4096, 4096) for number in range(1, 6)]
    alone = replace(found[0], samples=Samples(found[0].samples.kernel_ms, ((0.25,), (0.25,), (0.25,))))
    together = [replace(item, samples=Samples(item.samples.kernel_ms, ((0.2,), (0.2,), (0.2,)))) for item in found[1:]]
    assert "other rounds" not in readme._provenance(together) and "other rounds" not in readme._provenance([alone])
    said = readme._provenance([*together, alone])
    assert said.endswith(
        "with that in mind. 01_coalescing at 4096 was measured in other rounds than most, where cuBLAS read 550 and "
        "not 687: compare its ratio."
    )
    assert said.count("other rounds") == 1


def test_readme_without_markers_is_refused(tmp_path, capsys):
    file = tmp_path / "README.md"
    file.write_text("nothing")
    assert readme.main(["--file", str(file)]) == 1
    assert "must hold the line" in capsys.readouterr().err
    assert file.read_text() == "nothing"
    file.write_text(f"a\n{readme.begin('results')}\nold figures\n{readme.end('results')}\nb\n")
    assert readme.main(["--check", "--file", str(file)]) == 1
    assert readme.main(["--file", str(file)]) == 0
    assert readme.main(["--check", "--file", str(file)]) == 0
    assert "old figures" not in file.read_text() and file.read_text().endswith("\nb\n")


def test_ten_notebooks_are_promised():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[?(\d\d)_(\w+)", text, flags=re.MULTILINE)
    assert [number for number, _ in rows] == [f"{number:02d}" for number in range(1, 11)]
