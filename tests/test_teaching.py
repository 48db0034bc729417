"""The teacher's kit, the README's tables and the picture of the ladder: current, complete, and true of the code."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from helpers import readme
from helpers.errors import ArgumentError, RecordError
from helpers.exercises.registry import all_exercises
from helpers.ladder import ladder_points, recordings
from helpers.minutes import (
    NO_GPU,
    PRACTICE_MINUTES,
    RUNNING,
    in_fives,
    keep,
    load_running,
    main,
    minutes,
)
from helpers.notebooks import read_notebook
from helpers.plots.ladder import LadderPoint
from helpers.plots.ladder_svg import HEIGHT, SMALLEST_TEXT, WIDTH, ladder_svg
from helpers.rungs import ROOT, RUNGS

WORKSHOP = readme.WORKSHOP.read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


def block(text, name):
    return text.split(readme.begin(name))[1].split(readme.end(name))[0].strip()


# What the commands write


@pytest.mark.parametrize("path", [readme.README, readme.WORKSHOP], ids=lambda path: path.name)
def test_tables_are_what_records_and_notebooks_say(path):
    text = path.read_text(encoding="utf-8")
    assert readme.rewritten(text) == text, "run `python -m helpers.readme`"


def test_every_table_has_its_place():
    assert {name for name in readme.BLOCKS if readme.begin(name) in WORKSHOP} == {"minutes", "exercises"}
    text = readme.README.read_text(encoding="utf-8")
    assert {name for name in readme.BLOCKS if readme.begin(name) in text} == {"ladder", "notebooks", "results"}


def test_the_picture_of_the_ladder_is_what_the_records_say():
    assert readme.LADDER.read_text(encoding="utf-8") == readme.ladder(), "run `python -m helpers.readme`"


def test_a_stale_picture_or_table_is_noticed(tmp_path, monkeypatch, capsys):
    paths = {"README": readme.README, "WORKSHOP": readme.WORKSHOP, "LADDER": readme.LADDER}
    for name, path in paths.items():
        copy = tmp_path / path.name
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        monkeypatch.setattr(readme, name, copy)
    assert readme.main(["--check"]) == 0
    for name in paths:
        copy = getattr(readme, name)
        whole = copy.read_text(encoding="utf-8")
        copy.write_text(whole.replace("clusters", "custers"), encoding="utf-8")
        assert readme.main(["--check"]) == 1
        assert f"{copy.name} is not what records and notebooks say" in capsys.readouterr().err
        assert readme.main([]) == 0
        assert copy.read_text(encoding="utf-8") == whole or name != "LADDER"
        copy.write_text(whole, encoding="utf-8")


# Minutes


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_notebooks_own_words_on_its_minutes_agree(rung):
    goal = "\n".join(cell.source for cell in read_notebook(rung.notebook).cells[:3])
    said = re.search(r"About (\d+) minutes to read.*?(\d+)(?: minutes)? for the exercises", goal)
    assert said, "the Goal says how long the notebook takes"
    found = minutes(rung)
    assert abs(int(said.group(1)) - found.reading) <= 8
    assert abs(int(said.group(2)) - found.practice) <= 8


def test_exercises_are_practised_and_not_read(monkeypatch):
    found = minutes(RUNGS[0])
    assert found.exercises == len(readme.exercises("01")) >= 3
    assert found.practice >= min(PRACTICE_MINUTES.values()) * found.exercises
    notebook = read_notebook(RUNGS[0].notebook)
    at = next(index for index, cell in enumerate(notebook.cells) if "## Exercises" in cell.source)
    notebook.cells[at].source += " word" * 1000
    monkeypatch.setattr("helpers.minutes.read_notebook", lambda _: notebook)
    assert minutes(RUNGS[0]).reading == found.reading
    notebook.cells[0].source += " word" * 1500
    assert minutes(RUNGS[0]).reading == pytest.approx(found.reading + 10)


@pytest.mark.parametrize(("value", "said"), [(1, 5), (7.4, 5), (7.6, 10), (31, 30), (33, 35)])
def test_minutes_are_said_in_fives(value, said):
    assert in_fives(value) == said


def rows(**seconds):
    return [{"notebook": f"{name}.ipynb", "passed": True, "seconds": value} for name, value in seconds.items()]


def test_seconds_of_a_run_are_kept_by_machine(tmp_path):
    path = tmp_path / "running.json"
    path.write_text('{"schema": 1, "machines": []}')
    keep(rows(**{"01_coalescing": 5.123, "05_tma": 9}), "NVIDIA H200", path=path)
    keep(rows(**{"05_tma": 8}), "NVIDIA H200", path=path)
    keep(rows(**{"05_tma": 30}), "NVIDIA H200", first=True, path=path)
    keep(rows(**{"05_tma": 7}), NO_GPU, path=path)
    known = load_running(path)
    assert known["NVIDIA H200"].seconds == {"01_coalescing": 5.1, "05_tma": 8}
    assert known["NVIDIA H200"].first == {"05_tma": 30} and known[NO_GPU].seconds == {"05_tma": 7}


def test_a_rough_figure_goes_when_one_is_measured(tmp_path):
    path = tmp_path / "running.json"
    rough = {"machine": "NVIDIA H200", "date": "", "measured": False, "seconds": {"04_swizzling": 60}, "first": {}}
    path.write_text(json.dumps({"schema": 1, "machines": [rough]}))
    keep(rows(**{"01_coalescing": 40}), "NVIDIA H200", path=path)
    found = load_running(path)["NVIDIA H200"]
    assert found.measured and found.seconds == {"01_coalescing": 40}


@pytest.mark.parametrize(
    ("text", "says"),
    [("[1]", "not what `python -m helpers run --json` prints"), ("{}", "not what"), ("no", "cannot be read as JSON"),
     ('[{"notebook": "05_tma.ipynb", "passed": false, "seconds": 1}]', "05_tma.ipynb failed in this run")],
)  # fmt: skip
def test_what_is_no_run_is_refused_in_a_sentence(tmp_path, capsys, text, says):
    file, kept = tmp_path / "run.json", tmp_path / "running.json"
    file.write_text(text)
    kept.write_bytes(RUNNING.read_bytes())
    assert main([str(file), "--output", str(kept)]) == 1
    error = capsys.readouterr().err
    assert says in error and len(error.splitlines()) == 1
    assert kept.read_bytes() == RUNNING.read_bytes()


def test_a_damaged_file_of_seconds_is_named(tmp_path):
    path = tmp_path / "running.json"
    path.write_text(
        '{"schema": 1, "machines": [{"machine": "x", "date": "", "measured": 1, "seconds": {}, "first": {}}]}'
    )
    with pytest.raises(RecordError, match=r"running.json: machines\[0\].measured is 1, but it must be true or false"):
        load_running(path)


# The picture


def test_the_picture_is_small_legible_and_says_what_it_shows():
    text = readme.ladder()
    assert len(text) < 12_000
    root = ElementTree.fromstring(text)
    title = root.find(f"{SVG}title").text
    card = root.find(f"{SVG}rect")
    assert float(card.get("width")) == WIDTH - 1 and card.get("fill").startswith("#F"), "an opaque light card"
    texts = root.findall(f"{SVG}text")
    assert min(float(item.get("font-size")) for item in texts) >= SMALLEST_TEXT
    for item in recordings():
        assert f"{item.tflops:.3g}" in title and any(word.text == f"{item.tflops:.3g}" for word in texts)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "it loads nothing"


def test_marks_and_words_lie_within_the_picture_and_apart():
    root = ElementTree.fromstring(readme.ladder())
    boxes = []
    for item in root.findall(f"{SVG}text"):
        size = float(item.get("font-size"))
        width = 0.62 * size * len(item.text)   # DejaVu Sans is about so wide
        x, y = float(item.get("x")), float(item.get("y"))
        left = x - {"start": 0, "middle": width / 2, "end": width}[item.get("text-anchor")]
        boxes.append((left, y - 0.75 * size, left + width, y + 0.2 * size, item.text))
    for box in boxes:
        assert box[0] > -6 and box[2] < WIDTH + 6 and box[1] > 0 and box[3] < HEIGHT, box
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


def test_figures_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="2000 TFLOP/s: it must be 0.2 to 1500"):
        ladder_svg([LadderPoint(1, "x", 2000.0, "recorded")], None, "")
    assert "polyline" in ladder_svg(ladder_points([]), None, "nothing recorded yet")


# What the kit says


def test_the_kit_tells_of_every_exercise():
    listed = re.findall(r"^\| (\d\d\.\d+) \|", block(WORKSHOP, "exercises"), flags=re.MULTILINE)
    assert listed == [task.id for task in all_exercises()]


def test_exercises_sections_and_files_that_the_kit_names_are_there():
    ids = {task.id for task in all_exercises()}
    assert set(re.findall(r"\b\d\d\.\d\b", WORKSHOP)) <= ids
    for link in re.findall(r"\]\(([^)\s]+)\)", WORKSHOP):
        assert "://" in link or (readme.WORKSHOP.parent / link.partition("#")[0]).exists(), link
    for module in re.findall(r"python -m ([\w.]+)", WORKSHOP):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "helpers").rglob("*.py"))
    for variable in set(re.findall(r"HOPPER_\w+", WORKSHOP)):
        assert f'"{variable}"' in sources, variable


def test_the_kit_has_the_three_routes_and_their_minutes_add_up():
    for words, minutes_of_room in (("90 minutes", 90), ("Half a day", 210), ("A full day", 420)):
        part = re.split(r"\n\n(?:\*\*|## )", WORKSHOP.split(f"**{words}")[1])[0]
        table = [int(value) for value in re.findall(r"^\| (\d+) \|", part, flags=re.MULTILINE)]
        assert sum(table) == minutes_of_room, words


def test_the_kit_gives_a_notebook_no_less_time_than_its_reading_and_the_exercise_take():
    """Where a class works through a whole notebook, with the exercises that are not left to who is done."""
    tasks = {task.id: PRACTICE_MINUTES[type(task).__name__] for task in all_exercises()}
    row = r"^\| (\d+) \| Notebook (\d+)(?:, whole)?; exercises? (.*?)(?:, .*for those.*)?\.? \|"
    rows = re.findall(row, WORKSHOP, flags=re.MULTILINE)
    assert len(rows) >= 10
    for given, number, exercises_named in rows:
        needed = minutes(RUNGS[int(number) - 1]).reading
        needed += sum(tasks[name] for name in re.findall(r"\d\d\.\d", exercises_named))
        assert int(given) >= needed - 2.5, (number, given, needed)


@pytest.mark.parametrize("task", all_exercises(), ids=lambda task: task.id)
def test_the_kit_and_the_notebook_name_the_same_kind_of_exercise(task):
    kind = re.search(rf"^\| {re.escape(task.id)} \| ([a-z ]+)", block(WORKSHOP, "exercises"), flags=re.MULTILINE)[1]
    cells = read_notebook(RUNGS[int(task.id[:2]) - 1].notebook).cells
    asked = next(cell.source for cell in cells if f"**{task.id}**" in cell.source)
    assert f"**{task.id}** ({kind.strip()}" in asked


# CONTRIBUTING.md

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_there_is_a_recipe_for_each_thing_that_people_add():
    titles = re.findall(r"^## (.+)$", CONTRIBUTING, flags=re.MULTILINE)
    assert {"A rung", "A counter", "An exercise", "A planted bug", "A figure", "A record"} <= set(titles)


def test_files_and_commands_of_the_recipes_are_there():
    made_up = {"kernels/11_name.cu", "notebooks/11_name.ipynb", "notebooks/NAME.ipynb", "notebooks/*.ipynb",
               "helpers/exercises/nbNN.py", "helpers/solutions/nbNN.py"}   # fmt: skip
    named = set(re.findall(r"\b(?:kernels|notebooks|helpers|tests|docs)/[\w*./-]*\w", CONTRIBUTING))
    assert {path for path in named - made_up if not (ROOT / path).exists()} == set()
    for module in re.findall(r"python -m (helpers[\w.]*)", CONTRIBUTING):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_names_of_the_recipes_are_in_the_files_that_they_name():
    for path, names in {
        "helpers/rungs.py": ("RUNGS",),
        "helpers/plots/ladder.py": ("RUNG_NAMES",),
        "helpers/emulator/runtime/protocol.h": ("enum class Total",),
        "helpers/emulator/protocol.py": ("_SYNC_TOTALS", "_ASYNC_TOTALS"),
        "helpers/plots/figure.py": ("def overlaps", "def style"),
        "tests/test_plots.py": ("PICTURES",),
        "helpers/minutes.py": ("PRACTICE_MINUTES",),
    }.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        assert path in CONTRIBUTING
        for name in names:
            assert name in text, (path, name)
