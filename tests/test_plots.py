"""Every picture: draws fast and small, has an alt text with its numbers, and no text covers another."""

import base64
import importlib
import inspect
import io
import random
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from picture_checks import MIN_CONTRAST, contrast, lightness, luminance, require_legible
from PIL import Image

from helpers.arrays import random_matrix
from helpers.errors import ArgumentError
from helpers.ladder import plot_ladder
from helpers.models.buffers import buffer_schedule
from helpers.models.coalescing import lane_addresses
from helpers.models.machine import H100_PCIE, H200
from helpers.models.mbarrier import Mbarrier
from helpers.models.predict import predict
from helpers.models.pyramid import pyramid
from helpers.models.register_tile import RegisterTile
from helpers.models.roofline import roofs
from helpers.models.tiling import shared_loads, tile_traffic
from helpers.models.tma import place_box
from helpers.models.waves import occupancy, waves
from helpers.plots import figure
from helpers.plots.banks import bank_map
from helpers.plots.bounds import bound_bars
from helpers.plots.buffers import buffer_timeline
from helpers.plots.coalescing import sector_map
from helpers.plots.ladder import KINDS, LadderPoint, ladder
from helpers.plots.mbarrier import barrier_life
from helpers.plots.pyramid import memory_pyramid
from helpers.plots.register_tile import loads_per_fma, thread_tile
from helpers.plots.roofline import RooflinePoint, roofline
from helpers.plots.samples import round_samples
from helpers.plots.shapes import ratio_chart
from helpers.plots.tiling import tile_reuse, traffic_bars
from helpers.plots.tma import box_layout
from helpers.plots.waves import occupancy_bars, wave_chart, wave_efficiency
from helpers.records import find_record
from helpers.rungs import APPENDIX, ROOT, find_rung
from helpers.shape_records import load_shapes
from helpers.tensor_map import tensor_map

N = 4096
TILE = RegisterTile()
ONE, ROW, COLUMN = (lane_addresses(lambda lane, step=step: step * lane) for step in (0, 1, N))
HALF = lane_addresses(lambda lane: lane if lane < 16 else None, 16)
COALESCED = {"A": ONE, "B": ROW, "C": ROW}
UNCOALESCED = {"A": COLUMN, "B": ONE, "C": COLUMN}
SIZES = np.arange(128, 4097, 128)
RUNGS = [(0, 0.46), (1, 5.9), (2, 7.4), (3, 29.9), (4, 38), (5, 44), (6, 420), (7, 700), (8, 702), (9, 740), (10, 806)]
POINTS = [RooflinePoint("1 uncoalesced", 15.9, 0.46), RooflinePoint("1 coalescing", 15.9, 5.9),
          RooflinePoint("2 smem tiling", 15.9, 7.4), RooflinePoint("3 register tiling", 83.6, 29.9)]


def points(kind, factor=1.0, rungs=RUNGS):
    return [LadderPoint(number, f"rung {number}", tflops * factor, kind) for number, tflops in rungs]


def recorded(size=N, entry=None):
    return find_record(1, size, size, size, entry=entry)


MAP = tensor_map(random_matrix(40, 88, seed=0, backend="emulator"), (64, 32))
TWO_PHASES = [Mbarrier(1), Mbarrier(1).arrive_expect_tx(49152), Mbarrier(1).arrive_expect_tx(16).complete_tx(16)]

ALL = points("published", 0.9) + points("recorded") + points("live", 1.01)

PICTURES = {   # name: (draws it, what its alt text must say)
    "sectors": (lambda: sector_map({"coalesced": COALESCED, "uncoalesced": UNCOALESCED}),
                ["coalesced, A: 1 sector, 2 of 32", "uncoalesced, C: 32 sectors, 64 of 1,024"]),
    "sectors of one": (lambda: sector_map({"every third": {"A": lane_addresses(lambda lane: 3 * lane)}}),
                       ["6 sectors"]),
    "sectors of a half warp": (lambda: sector_map({"half": {"A": HALF}}, 16), ["8 sectors, 256 of 256"]),
    "banks, rung 3": (lambda: bank_map(TILE.a_addresses(chunk=2), 16, title="A"),
                      ["32 wavefronts where 4 would do: 8-fold", "banks 8, 9, 10, 11"]),
    "banks, rung 4": (lambda: bank_map(TILE.a_addresses(chunk=2, swizzle=True), 16), ["4 wavefronts, no conflict"]),
    "banks, B": (lambda: bank_map(TILE.b_addresses(), 16), ["2 wavefronts, no conflict", "1 row of 128 bytes"]),
    "banks, stores": (lambda: bank_map(lane_addresses(lambda lane: lane, 16), 16, "store"), ["4 rows", "4 phases"]),
    "banks, 32 bits": (lambda: bank_map(lane_addresses(lambda lane: 2 * lane, 4), 4), ["2-fold conflict"]),
    "banks, 16 bits": (lambda: bank_map(lane_addresses(lambda lane: lane, 2), 2), ["1 wavefront, no conflict"]),
    "banks, 32 rows": (lambda: bank_map(lane_addresses(lambda lane: 32 * lane, 4), 4), ["32 rows", "32-fold"]),
    "pyramid": (lambda: memory_pyramid(pyramid(H200, {"L2": 6.7e12}), "H200"),
                ["L2 60 MiB, 6.7 TB/s (measured, 40% of 16.7 TB/s)", "HBM 141 GB, 4.8 TB/s (datasheet)"]),
    "tile reuse": (lambda: tile_reuse(256, 256, 192, 32, 32, 32), ["A is loaded 8 times", "1.57 MB"]),
    "tile reuse, oblong": (lambda: tile_reuse(1024, 4096, 256, 128, 256, 64, (7, 15), 3), ["A is loaded 16 times"]),
    "tile reuse, big": (lambda: tile_reuse(8192, 8192, 8192, 128, 256, 64, (0, 0), 0), ["A is loaded 32 times"]),
    "traffic": (lambda: traffic_bars({f"{a} x {b}": tile_traffic(N, N, N, a, b)
                                      for a, b in ((1, 1), (1, 32), (32, 32), (128, 256))}),
                ["1 x 1: 275 GB", "128 x 256: 1.61 GB"]),
    "thread tile": (lambda: thread_tile(), ["rows 2, 10, 18", "columns 72 to 79 and 104 to 111", "128 elements"]),
    "thread tile, 8 x 8": (lambda: thread_tile(RegisterTile(128, 128), 4, 31), ["columns 24 to 31: 64 elements"]),
    "loads": (lambda: loads_per_fma({"1 x 1": shared_loads(1, 1), "8 x 16": shared_loads(8, 16, 8, 8)}),
              ["1 x 1: 2", "8 x 16: 0.0234"]),
    "occupancy": (lambda: occupancy_bars(occupancy(168, 256, 49152), "rung 3"), ["1 CTA, 8 of 64", "by registers"]),
    "waves": (lambda: wave_chart(waves(512), "rung 3"), ["512 tiles in 4 waves, 97.0%", "116 of them"]),
    "many waves": (lambda: wave_chart(waves(16384, 132, 2)), ["63 waves"]),
    "one wave": (lambda: wave_chart(waves(1)), ["1 tile in 1 wave"]),
    "wave efficiency": (lambda: wave_efficiency(SIZES, [waves((s // 128) ** 2) for s in SIZES.tolist()], N),
                        ["N=4096: 8 waves, 97.0%"]),
    "roofline": (lambda: roofline(roofs(H200), POINTS, H200.dense_tflops), ["HBM 4.8 TB/s", "29.9 TFLOP/s at 83.6"]),
    "roofline, bare": (lambda: roofline(roofs(H100_PCIE)[:1]), ["Points: none"]),
    "bounds": (lambda: bound_bars(predict(1), 5.9, "recorded on H200"),
               ["L1 wavefronts 8.36", "recorded on H200: 5.9"]),
    "bounds, twin": (lambda: bound_bars(predict(1, entry="matmul_uncoalesced")), ["0.507"]),
    "bounds, rung 3": (lambda: bound_bars(predict(3), 29.9), ["54% of the lowest bound"]),
    "ladder": (lambda: ladder(ALL, 770, 989.4),
               ["10 clusters 814 (live; live: 1.09 times", "published: 764 TFLOP/s, H100 SXM, N=4096"]),
    "ladder, start": (lambda: ladder(points("published") + points("recorded", rungs=RUNGS[:4]), 770, 989.4),
                      ["3 register tiling 29.9 (recorded; recorded: 4.04 times", "4 swizzling 38 (published"]),
    "ladder, live after recorded": (   # one kind over the same kind: here both rungs have a recording
        lambda: ladder(points("recorded", rungs=RUNGS[:5]) + points("live", 1.01, RUNGS[4:5]), 770, 989.4),
        ["4 swizzling 38.4 (live; recorded: 1.27 times the rung before)"],
    ),
    "ladder, cuBLAS below the target": (lambda: ladder(ALL, 700, 989.4), ["cuBLAS in the same run 700"]),
    "ladder, a short summit": (lambda: ladder(points("live", rungs=RUNGS[6:8]), 1200), ["7 pipelining 700 (live"]),
    "ladder, from the records": (lambda: plot_ladder(3), ["published: 764 TFLOP/s, H100 SXM, N=4096"]),
    "box": (lambda: box_layout(place_box(MAP, 8, 0)),
            ["A box of 64 x 32 at x = 8, y = 0", "at places 2, 3, 0, 1, 6, 7, 4, 5, 2, 3"]),
    "box at the edge": (lambda: box_layout(place_box(MAP, -16, 30), "the edge", 3, 12),
                        ["the edge: 4,096 bytes", "places 3, 2, 1, 0, 7, 6, 5, 4, 3, 2 of", "3,136 of its bytes lie"]),
    "box without swizzle": (lambda: box_layout(place_box(tensor_map(MAP.array, (80, 8), "none"), 0, 0)),
                            ["swizzle none", "places 2, 2, 2, 2, 2, 2, 2, 2 of"]),
    "barrier": (lambda: barrier_life(TWO_PHASES),
                ["phase 0, 0 arrivals and 49,152 bytes missing", "16 bytes land: phase 1, 1 arrival and 0 bytes"]),
    "barrier of many": (lambda: barrier_life([Mbarrier(256), Mbarrier(256).expect_tx(1 << 19)], "many"),
                        ["many, event by event", "256 arrivals and 524,288 bytes"]),
    "buffers": (lambda: buffer_timeline([buffer_schedule(6, buffers, 1, 3) for buffers in (1, 2)], "loads"),
                ["1 buffer the last of 6 multiplications is done after 24", "2 buffers", "waited 1 for"]),
    "many buffers": (lambda: buffer_timeline([buffer_schedule(12, 4, 768, 1024)], title="four"), ["four, in clocks"]),
    "samples": (lambda: round_samples([recorded(), recorded(entry="matmul_uncoalesced")]),
                ["recorded on NVIDIA H200", "01_coalescing.matmul_uncoalesced 0.", "cuBLAS in turn"]),
    "samples of two sizes": (lambda: round_samples([recorded(1024), recorded(4096)]), ["01_coalescing N=1024"]),
    "ladder, empty": (lambda: ladder([], target=None), ["no points", "Lines: none"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


@pytest.mark.parametrize("seed", range(12))
def test_ladder_of_any_subset(seed):
    rng = random.Random(seed)
    some = [
        LadderPoint(number, "some", tflops * rng.uniform(0.6, 1.6), kind)
        for number, tflops in RUNGS for kind in KINDS if rng.random() < rng.choice([0.2, 0.9])
    ]
    picture = ladder(some, rng.choice([None, 655, 770]), rng.choice([None, 989.4]))
    assert figure.overlaps(picture) == []


@pytest.mark.parametrize("seed", range(8))
def test_roofline_labels_find_room(seed):
    rng = random.Random(seed)
    some = [RooflinePoint(f"{i} register tiling", 10 ** rng.uniform(1, 2), 10 ** rng.uniform(0, 2.5)) for i in range(8)]
    assert figure.overlaps(roofline(roofs(H200), some, H200.dense_tflops)) == []


def test_no_leader_crosses_a_roof():
    """Rungs 1 and 6 lie in the wedge between the roofs of L2 and HBM, which has room for a figure but for no name."""
    points = [RooflinePoint("01_coalescing", 0.67, 5.37), RooflinePoint("06_wgmma", 63, 691)]
    picture = roofline(roofs(H200), points, H200.dense_tflops)
    notes = picture.axes[0].texts
    assert [note.get_text() for note in notes] == ["5.37", "691"]
    assert all(note.arrow_patch is None for note in notes)
    names = [text.get_text() for text in picture.legends[-1].get_texts()]
    assert names == ["01_coalescing", "06_wgmma"]


@pytest.mark.parametrize(("end", "crossed"), [((600, 500), True), ((600, 420), False), ((395, 520), False)])
def test_leaders_that_cross_a_line_are_found(end, crossed):
    line = figure._dense(np.array([[0.0, 450.0], [1000.0, 470.0]]))
    box = Bbox.from_extents(end[0], end[1] - 10, end[0] + 80, end[1] + 10)
    mark = np.array([400.0, 400.0 if end[0] == 600 else 560.0])
    assert figure._crosses(line, mark, box, 6.0) is crossed


def test_ladder_compares_like_with_like():
    picture = ladder(points("published", 0.5, RUNGS[:3]) + points("recorded", 1, RUNGS[3:4]), target=None)
    assert "3 register tiling 29.9 (recorded)" in picture.alt   # no factor: rung 2 is only published
    assert "2 smem tiling 3.7 (published; published: 1.25 times" in picture.alt


def test_ladder_gives_what_is_live_a_star():
    """Else 764 over 775 would seem to be a factor of 1.03: that of two recordings."""
    picture = ladder(points("recorded", rungs=RUNGS[:9]) + points("live", 0.9, RUNGS[7:9]))
    written = [text.get_text() for text in picture.axes[0].texts]
    assert [text for text in written if text.startswith("★")] == ["★630", "★632", "★x 1.00"]
    assert {"420", "x 9.55", "x 1.67"} < set(written)


@pytest.mark.parametrize("factor", [0.93, 0.96, 0.98, 1.0])
def test_names_of_the_summits_lines_keep_clear_of_marks(factor):
    rungs = [(6, 698), (7, 761), (8, 775), (9, 796), (10, 828)]   # rung 7 where the target's name begins, below it
    picture = ladder(points("published", 0.9) + points("recorded", rungs=rungs) + points("live", factor, rungs), 777)
    inset = picture.axes[1]
    renderer = picture.canvas.get_renderer()
    names = [text.get_window_extent(renderer) for text in inset.texts if ":" in text.get_text()]
    marks = [line.get_xydata() for line in inset.lines if line.get_marker() in ("o", "D", "*")]
    ways = [begin + np.linspace(0, 1, 50)[:, None] * (end - begin)
            for begin, end in (line.get_xydata() for line in inset.lines if line.get_linewidth() == 1.0)]
    drawn = inset.transData.transform(np.concatenate(marks + ways))
    frame = inset.get_window_extent(renderer)
    assert len(names) == 2 and all(frame.x0 < box.x0 and box.x1 < frame.x1 and box.y1 < frame.y1 for box in names)
    assert not any(box.padded(3).contains(*point) for box in names for point in drawn)


def test_ladder_marks_rungs_without_a_figure_of_ours_as_faint():
    picture = ladder(points("published") + points("recorded", rungs=RUNGS[:2]))
    weights = {text.get_text(): text.get_fontweight() for text in picture.axes[0].texts}
    assert weights["1 coalescing"] == "bold" and weights["2 smem tiling"] == "normal"


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((11, "x", 1.0, "live"), "rung_number"),
        ((1, "x", 1.0, "guessed"), "kind"),
        ((1, "x", float("nan"), "live"), "tflops"),
    ],
)
def test_ladder_refuses_points_that_cannot_be(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        LadderPoint(*arguments)


def test_lanes_that_do_not_exist_are_refused():
    with pytest.raises(ArgumentError, match="lane is 32"):
        thread_tile(lane=32)
    with pytest.raises(ArgumentError, match="tile row is 8"):
        tile_reuse(256, 256, 256, 32, 32, 32, (8, 0))


def test_png_is_deterministic_and_bare():
    one, two = (figure.png(thread_tile()) for _ in range(2))
    assert one == two
    image = Image.open(io.BytesIO(one))
    assert image.info.keys() <= {"transparency", "dpi"}
    assert image.convert("RGB").getpixel((image.width - 8, 8)) == pytest.approx((251, 250, 246), abs=4)   # opaque card


def test_each_kernel_that_a_shape_may_get_has_a_mark_of_its_own():
    some = next(iter(load_shapes("nvidia-h200").values()))
    names = [find_rung(10).name, *(rung.name for rung in APPENDIX)]
    shapes = {name: replace(some, measurement=replace(some.measurement, rung=name)) for name in names}
    require_legible(lambda: ratio_chart({"Each": shapes}), ["4 marks"])
    picture = ratio_chart({"Each": shapes})
    (axes,) = picture.axes
    marks = {(line.get_marker(), line.get_color()) for line in axes.lines if len(line.get_xdata()) == 1}
    keys = {(line.get_marker(), line.get_color()) for line in picture.artists}
    assert marks == keys and len({marker for marker, _ in marks}) == len({color for _, color in marks}) == 4
    assert set(names) <= {text.get_text() for text in picture.texts}
    few = ratio_chart({"Two": {name: shapes[name] for name in names[1:3]}})
    said = {text.get_text() for text in few.texts}
    assert said.isdisjoint({names[0], names[3]}) and said >= {*names[1:3], "line through a mark: interval of the ratio"}
    other = replace(some, measurement=replace(some.measurement, rung="07_pipelining"))
    with pytest.raises(ArgumentError, match="^rung is '07_pipelining': it must be one of '10_clusters', 'append"):
        ratio_chart({"Other": {"other": other}})


@pytest.mark.parametrize("draw", [thread_tile, lambda: bound_bars(predict(1))])
def test_no_side_of_the_frame_is_cut_off(draw):
    page = np.asarray(Image.open(io.BytesIO(figure.png(draw()))).convert("L"))
    for side in (page[0], page[-1], page[:, 0], page[:, -1]):
        assert side.max() < 200


def test_style_leaves_no_trace():
    before = dict(mpl.rcParams)
    figure.png(wave_chart(waves(512)))
    assert dict(mpl.rcParams) == before


def test_notebook_bundle_has_the_alt_text(monkeypatch):
    picture = wave_chart(waves(512))
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == picture.alt
    assert re.search(r'<img src="data:image/png;base64,[^"]+" alt="512 tiles in 4 waves', bundle["text/html"])
    data = base64.b64decode(re.search(r"base64,([^\"]+)", bundle["text/html"]).group(1))
    assert data == figure.png(picture)
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    figure.show(picture)
    figure.show(picture, 'a "quoted" text')
    assert shown[0] == bundle and 'alt="a &quot;quoted&quot; text"' in shown[1]["text/html"]


def test_overlaps_are_found():
    with figure.style():
        picture = figure.new_picture(4, 3)
        axes = picture.add_axes((0.1, 0.1, 0.8, 0.8))
        axes.text(0.5, 0.5, "one")
        axes.text(0.52, 0.51, "two")
        axes.text(0.99, 0.9, "beyond the edge of the figure")
    assert figure.overlaps(picture) == [("beyond the edge of the figure", "(edge)"), ("one", "two")]


def test_visible_texts_misses_nothing_that_is_drawn(monkeypatch):
    picture = roofline(roofs(H200), POINTS, 989.4)
    drawn = []
    original = Text.draw

    def draw(self, renderer):
        drawn.append(self.get_text())
        original(self, renderer)

    monkeypatch.setattr(Text, "draw", draw)
    picture.canvas.draw()
    found = {text.get_text() for text in figure.visible_texts(picture)}
    assert {text for text in drawn if text.strip()} == found


def test_colours_differ_in_greyscale():
    surfaces = [*figure.PHASES, figure.PALE, figure.CARD]
    assert min(np.diff([lightness(color) for color in surfaces])) > 7
    assert min(np.diff([lightness(color) for color in figure.PHASES])) > 12


def test_text_is_legible_on_every_colour():
    for color, text in figure.ON.items():
        assert contrast(luminance(to_rgb(color)), luminance(to_rgb(text))) > MIN_CONTRAST
    for surface in (figure.CARD, figure.PALE):
        assert contrast(luminance(to_rgb(figure.GREY)), luminance(to_rgb(surface))) > MIN_CONTRAST


@pytest.mark.parametrize("change", [{"tflops": "a"}, {"tflops": float("inf")}, {"tflops": -1}, {"rung_number": None}])
def test_a_ladder_point_that_cannot_be_drawn_is_refused(change):
    with pytest.raises(ArgumentError, match="it must be"):
        LadderPoint(**({"rung_number": 1, "name": "x", "tflops": 1.0, "kind": "live"} | change))


def plots_of_ours():
    """Every function that draws a picture."""
    for path in sorted((ROOT / "helpers" / "plots").glob("*.py")):
        module = importlib.import_module(f"helpers.plots.{path.stem}")
        for name, function in list(vars(module).items()):
            if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_"):
                if str(inspect.signature(function).return_annotation).rpartition(".")[2].rstrip("'>") == "Picture":
                    yield pytest.param(function, id=name)


@pytest.mark.parametrize("draw", [item for item in plots_of_ours() if item.id != "new_picture"])
@pytest.mark.parametrize("kind", ["nothing", "no kind"])
def test_a_plot_of_nothing_is_a_picture_or_a_sentence(draw, kind):
    needed = [item for item in inspect.signature(draw).parameters.values() if item.default is item.empty]
    given = [
        object() if kind == "no kind" else {} if "Mapping" in str(item.annotation) else 4096 if item.annotation is int
        else [] for item in needed
    ]
    try:
        picture = draw(*given)
    except ArgumentError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        assert kind == "nothing" or not needed
        assert figure.overlaps(picture) == [] and picture.alt.endswith(".")
