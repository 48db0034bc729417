"""Run the notebooks, keep them in one canonical form, and check what every notebook promises.

    python -m helpers.notebooks canonicalise PATH...    rewrite notebooks in canonical form
    python -m helpers.notebooks check PATH...           list what is wrong with them, exit 1 if anything

The `.ipynb` is the source and is committed executed: its outputs are what a reader without a GPU
sees. So the form on disk is fixed (nbformat 4.5, sorted keys, one-space indent, fixed metadata), and
a run changes outputs only.
"""

import asyncio
import atexit
import contextlib
import os
import queue
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from helpers.background import Background
from helpers.checks import checked_folder, checked_path
from helpers.entry import Parser, fail, guarded
from helpers.errors import ArgumentError, CourseError
from helpers.files import read_text, write_whole
from helpers.jsonfile import SURROGATE
from helpers.notebook_checks import execution_problems, output_problems, structure_problems
from helpers.rungs import NOTEBOOK_DIR
from helpers.words import first_line, one_line

MAX_BYTES = 1_000_000

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT_CELL_METADATA = ("tags",)
CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_REASON = 160   # letters of what nbformat says, which may show the whole notebook

PATIENCE_S = 3.0   # for a kernel to end after Ctrl-C
# What cells print comes as messages; this is what the kernel itself says, such as that it was stopped.
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class NotebookError(CourseError, RuntimeError):
    """A notebook did not run to its end: which cell, and why."""


# Reading and writing


def read_notebook(path: Path) -> NotebookNode:
    """The notebook of a file, as nbformat 4.

    Raises ArgumentError if the file is missing or is not a notebook.
    """
    path = checked_path("path", path)
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise ArgumentError(f"notebook {path} does not exist: give the path of an .ipynb file.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"notebook {path} cannot be read ({reason}): give the path of an .ipynb file.") from None
    try:
        notebook = nbformat.convert(nbformat.reader.reads(text), 4)
        notebook.nbformat_minor = 5
        for cell, name in zip(notebook.cells, _unique_ids(notebook.cells), strict=True):
            cell.id = name
        nbformat.validate(notebook)
        if SURROGATE.search(text):   # half of a pair is no Unicode, and could not be written again
            nbformat.writes(notebook).encode()
    except Exception as error:  # nbformat raises many kinds, from JSON's to AttributeError
        reason = one_line(first_line(error), MAX_REASON)
        raise ArgumentError(f"notebook {path} is not a valid notebook ({reason}): restore it from git.") from None
    return notebook


def canonicalise(notebook: NotebookNode) -> NotebookNode:
    """A copy in canonical form: fixed metadata, unique cell ids, execution counts 1, 2, 3, ... of executed cells.

    Cell ids that are valid and unique stay, so that a diff of two versions lines up. Text, code and
    outputs stay as they are, apart from blanks at the end of a cell.
    """
    cells = []
    count = 0
    for cell, name in zip(notebook.cells, _unique_ids(notebook.cells), strict=True):
        kept = {key: cell.metadata[key] for key in KEPT_CELL_METADATA if cell.metadata.get(key)}
        new = NotebookNode(
            cell_type=cell.cell_type,
            id=name,
            metadata=NotebookNode(kept),
            source=cell.source.rstrip(),
        )
        if cell.cell_type == "code":
            executed = cell.get("execution_count") is not None and new.source != ""
            count += executed
            new.execution_count = count if executed else None
            new.outputs = [_canonical_output(output, new.execution_count) for output in cell.outputs]
        elif cell.get("attachments"):
            new.attachments = cell.attachments
        cells.append(new)
    return NotebookNode(cells=cells, metadata=nbformat.from_dict(METADATA), nbformat=4, nbformat_minor=5)


def _unique_ids(cells: Sequence[NotebookNode]) -> list[str]:
    """One id per cell: its own if that is valid and not taken, else one made from its place."""
    names: list[str] = []
    for number, cell in enumerate(cells, 1):
        name = str(cell.get("id", ""))
        if not CELL_ID.fullmatch(name) or name in names:
            name = f"cell-{number:02d}"
        while name in names:
            name += "-again"
        names.append(name)
    return names


def _canonical_output(output: NotebookNode, count: int | None) -> NotebookNode:
    new = NotebookNode({key: value for key, value in output.items() if key != "transient"})
    if new.output_type == "execute_result":
        new.execution_count = count
    return new


def canonical_text(notebook: NotebookNode) -> str:
    """The bytes, as text, that a canonical notebook has on disk."""
    return nbformat.writes(canonicalise(notebook), version=4).rstrip("\n") + "\n"


def is_canonical(path: Path) -> bool:
    """Whether the file is byte for byte what `write_notebook` would write."""
    return read_text(path) == canonical_text(read_notebook(path))


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook in canonical form; the old file stays whole if that fails.

    Raises ArgumentError if the folder cannot be written.
    """
    path = Path(path)
    text = canonical_text(notebook)
    try:
        write_whole(path, text)
    except OSError as error:
        raise ArgumentError(
            f"output folder {path.parent} cannot be written ({error.strerror}): give another folder."
        ) from None


# Running


class _ThisEnvironment(AsyncKernelManager):
    """The kernel of the running interpreter, whatever kernels the user has registered elsewhere."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(**get_kernel_dict(extra_arguments=["--log-level=ERROR"]))


def run_notebook(path: Path, output_dir: Path, timeout: float = 600.0) -> Path:
    """Run all cells of a notebook in a fresh kernel and write the result to `output_dir`, under the same name.

    timeout: seconds that one cell may take. The cells run with notebooks/ as their folder, so that
    what they print names no place of this machine. Returns the path written. In a folder of the project, such as
    build/notebooks, the notebook's links to ../docs lead there by a link beside that folder.

    Raises NotebookError if a cell fails; what ran until there is then in `output_dir`, unless that is
    where the notebook came from. Raises ArgumentError if the notebook cannot be read or the folder
    cannot be written.
    """
    path, output_dir = checked_path("path", path), checked_folder("output_dir", output_dir)
    notebook = read_notebook(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    target = output_dir / path.name
    in_place = target.resolve() == path.resolve()
    if not in_place:
        write_notebook(notebook, target)  # before the run, so that an unwritable folder is found now
        _link_docs(output_dir)

    folder = NOTEBOOK_DIR if NOTEBOOK_DIR.is_dir() else path.resolve().parent
    with tempfile.TemporaryDirectory(prefix="hopper-") as scratch:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            kernel_manager_class=_ThisEnvironment,
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
            allow_errors=False,
        )
        try:
            _execute(client, _kernel_environment(Path(scratch)))
        except CellExecutionError as error:
            problem = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
        except CellTimeoutError:
            problem = f"it took more than {timeout:g} s"
        except DeadKernelError:
            problem = "the Python process died"
        else:
            write_notebook(notebook, target)
            return target

    place = "the file is unchanged" if in_place else f"what ran until there is in {target}"
    if not in_place:
        write_notebook(notebook, target)
    raise NotebookError(f"notebook {path.name} failed in cell {_last_cell(notebook)} ({problem}); {place}.")


def _link_docs(output_dir: Path) -> None:
    """Make ../docs, as seen from a folder within the project, lead to the project's docs, if nothing is there."""
    beside, docs = output_dir.resolve().parent / "docs", NOTEBOOK_DIR.resolve().parent / "docs"
    if beside.is_relative_to(docs.parent) and not os.path.lexists(beside):
        with contextlib.suppress(OSError):   # a file system without links
            beside.symlink_to(os.path.relpath(docs, beside.parent))


def _execute(client: NotebookClient, environment: dict[str, str]) -> None:
    """Run the cells, in a thread of their own: Ctrl-C then ends the kernel in order and is passed on.

    In the main thread nbclient would answer Ctrl-C itself, by ending the kernel and waiting for what it never says.
    """
    running: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Any]] = queue.SimpleQueue()

    async def execute() -> None:
        running.put((asyncio.get_running_loop(), asyncio.current_task()))
        await client.async_execute(env=environment, **SILENT)

    work = Background(lambda: asyncio.run(execute()))
    try:
        work.result()
    except KeyboardInterrupt:
        process = getattr(getattr(client.km, "provisioner", None), "process", None)
        if process is not None:
            process.kill()   # at once, whatever the cell is at
        loop, task = running.get()
        with contextlib.suppress(RuntimeError):   # it has ended
            loop.call_soon_threadsafe(task.cancel)
        work.ends_within(PATIENCE_S)
        raise
    finally:
        atexit.unregister(client._cleanup_kernel)   # of a kernel that is gone by now


def _kernel_environment(scratch: Path) -> dict[str, str]:
    """The caller's environment without what would change a notebook's outputs."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "IPYTHONDIR")}
    # No start-up files of the user; a fixed order of sets.
    return environment | {"IPYTHONDIR": str(scratch), "PYTHONHASHSEED": "0"}


def _last_cell(notebook: NotebookNode) -> int:
    """1-based number, among all cells, of the last cell that was started."""
    started = [i for i, cell in enumerate(notebook.cells, 1) if cell.get("execution_count") or cell.get("outputs")]
    return max(started, default=1)


# Checking


def problems(path: Path) -> list[str]:
    """Everything that keeps a committed notebook from what the project promises; empty if nothing does."""
    notebook = read_notebook(path)
    found = [*structure_problems(notebook), *output_problems(notebook), *execution_problems(notebook)]
    size = Path(path).stat().st_size
    if size > MAX_BYTES:
        found.append(f"the file has {size:,} bytes, at most {MAX_BYTES:,} are allowed: draw fewer or smaller figures.")
    if not is_canonical(path):
        found.append(f"not in canonical form: run `python -m helpers.notebooks canonicalise {Path(path).name}`.")
    return found


# Command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if a notebook has problems or cannot be read."""
    parser = Parser(prog="python -m helpers.notebooks", description="Form and checks of notebooks.")
    parser.add_argument("action", choices=("canonicalise", "check"))
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="an .ipynb file")
    options = parser.parse_args(arguments)
    return guarded(lambda: _act(options.action, options.paths))


def _act(action: str, paths: Sequence[Path]) -> int:
    status = 0
    for path in paths:
        try:
            if action == "canonicalise":
                write_notebook(read_notebook(path), path)
                found = []
            else:
                found = problems(path)
        except CourseError as error:
            status = fail(str(error))
            continue
        for problem in found:
            print(f"{path.name}: {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
