"""Figures that others published, with their source: records/published.json."""

from dataclasses import dataclass
from pathlib import Path

from helpers.jsonfile import Fields, read_json
from helpers.record_basics import record_folder

SCHEMA = "hopper-matmul/published/1"


@dataclass(frozen=True)
class Published:
    """A figure that somebody else published. It is never mixed with measured ones.

    label: what it is. rung: number of the rung of this course that does the same, or None. entry: its kernel function
    if that is not the rung's main one. role: 'kernel' or 'cublas'. tflops at M = N = K = n on `gpu`, with inputs of
    `dtype`. source: title and section. url: where. note: what to know when comparing, or ''.
    """

    label: str
    rung: int | None
    entry: str | None
    role: str
    tflops: float
    n: int
    gpu: str
    dtype: str
    source: str
    url: str
    note: str


def published(path: Path | None = None) -> list[Published]:
    """The published figures, in the order of their file (up the ladder). Raises RecordError if it is damaged."""
    path = path or record_folder() / "published.json"
    top = Fields(read_json(path), path)
    top.choice("schema", (SCHEMA,))
    sources = {name: Fields(item, path, f"sources.{name}") for name, item in top.object("sources").data.items()}
    figures = []
    for item in top.objects("figures"):
        source = item.choice("source", tuple(sources))
        figures.append(
            Published(
                label=item.text("label"),
                rung=item.optional_integer("rung", 1),
                entry=item.optional_text("entry"),
                role=item.choice("role", ("kernel", "cublas")),
                tflops=item.number("tflops"),
                n=item.integer("n", 1),
                gpu=item.text("gpu"),
                dtype=item.choice("dtype", ("float32", "bfloat16")),
                source=f"{sources[source].text('title')}, {item.text('section')}",
                url=sources[source].text("url", r"https://.+", "an https address"),
                note=item.optional_text("note") or "",
            )
        )
    return figures
