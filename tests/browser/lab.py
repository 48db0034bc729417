"""A JupyterLab of its own, driven through a browser: no settings, no notebooks of the user's are touched."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from PIL import Image
from webdriver import Browser, free_port, wait_for

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
MOST_PIXELS = 8000   # of a picture's height: Chromium draws twice as many at most
OUTER = "const outer = jupyterapp.shell.currentWidget.content.node.querySelector('.jp-WindowedPanel-outer');"


@dataclass(frozen=True)
class PageState:
    """What an open notebook shows.

    errors: texts of error outputs. stderr: texts written to stderr. images, broken_images: how many.
    without_alt: images in HTML or Markdown outputs without alt text. unfinished: code cells that were not run.
    """

    errors: tuple[str, ...]
    stderr: tuple[str, ...]
    images: int
    broken_images: int
    without_alt: int
    unfinished: int


STATE = """
const cells = jupyterapp.shell.currentWidget.content.widgets;
const node = jupyterapp.shell.currentWidget.content.node;
const outputs = cells.filter(c => c.model.type === 'code').flatMap(c => c.model.outputs.toJSON());
const images = [...node.querySelectorAll('.jp-OutputArea-output img, .jp-MarkdownOutput img')];
await Promise.all(images.map(image => image.decode().catch(() => null)));
return {
  errors: outputs.filter(o => o.output_type === 'error').map(o => `${o.ename}: ${o.evalue}`),
  stderr: outputs.filter(o => o.name === 'stderr').map(o => o.text),
  images: images.length,
  broken_images: images.filter(image => !image.complete || image.naturalWidth === 0).length,
  without_alt: images.filter(image => !image.closest('.jp-RenderedImage') && !image.alt).length,
  unfinished: cells.filter(c => c.model.type === 'code' && c.model.sharedModel.source.trim()
                                && c.model.executionCount === null).length,
};
"""

# Contrast as of WCAG 2.2, 1.4.3. What is drawn behind a text: the nearest background that is no veil.
FAINT = """
const node = jupyterapp.shell.currentWidget.content.node;
const channel = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = rgb => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
const parse = color => {
  const numbers = color.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
  const scale = color.startsWith('color(') ? 1 : 255;
  return [...numbers.slice(0, 3).map(value => value / scale), numbers.length > 3 ? numbers[3] : 1];
};
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat([1]);
const behind = element => {
  const layers = [];
  for (let here = element; here; here = here.parentElement) {
    layers.push(parse(getComputedStyle(here).backgroundColor));
    if (layers[layers.length - 1][3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [1, 1, 1, 1]);
};
const found = {};
for (const area of node.querySelectorAll('.jp-OutputArea-output, .jp-MarkdownOutput')) {
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!text || !box.width || style.visibility === 'hidden' || element.closest('style, script')) continue;
    let opacity = 1;
    for (let here = element; here !== node; here = here.parentElement) opacity *= getComputedStyle(here).opacity;
    const below = behind(element), ink = parse(style.color);
    const shown = over([...ink.slice(0, 3), ink[3] * opacity], below);
    const [low, high] = [luminance(shown), luminance(below)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const name = `${element.className || element.tagName}: ${contrast.toFixed(1)}`;
    if (contrast < arguments[0]) found[name] ??= text.slice(0, 60);
  }
}
return Object.entries(found).map(([where, text]) => `${where}: ${text}`);
"""


class Lab:
    """A server on copies of notebooks, in `folder`. Use as a context manager."""

    def __init__(self, folder: Path, notebooks: Sequence[Path]):
        self._folder = folder
        self.root = folder / "notebooks"
        self.root.mkdir(parents=True)
        for notebook in notebooks:
            shutil.copy(notebook, self.root)

    def __enter__(self) -> "Lab":
        settings = self._folder / "settings"
        # All cells in the page, so that they can be looked at; no question about news.
        _write_json(settings / "@jupyterlab/notebook-extension/tracker.jupyterlab-settings", {"windowingMode": "none"})
        disabled = {"@jupyterlab/apputils-extension:announcements": True}
        _write_json(self._folder / "config/labconfig/page_config.json", {"disabledExtensions": disabled})
        environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"} | {
            "JUPYTERLAB_SETTINGS_DIR": str(settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(self._folder / "workspaces"),
            "JUPYTER_CONFIG_DIR": str(self._folder / "config"),
            "JUPYTER_DATA_DIR": str(self._folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self._folder / "runtime"),
            "IPYTHONDIR": str(self._folder / "ipython"),
        }
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--expose-app-in-browser",
            "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
            "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={self.root}",
        ]  # fmt: skip
        self._log = (self._folder / "server.log").open("w")
        self._server = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
        try:
            wait_for(lambda: urlopen(f"{self.url}/api", timeout=5).status == 200, 60, "JupyterLab does not answer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
        self._log.close()

    def open(self, browser: Browser, notebook: str) -> None:
        """Open a notebook as a reader does, and wait until its kernel is idle."""
        browser.open(f"{self.url}/lab/tree/{quote(notebook)}?reset")
        ready = """
        const widget = window.jupyterapp && jupyterapp.shell.currentWidget;
        return !!(widget && widget.content && widget.content.widgets && widget.content.widgets.length
                  && widget.sessionContext.session && widget.sessionContext.session.kernel
                  && widget.sessionContext.session.kernel.status === 'idle');
        """
        wait_for(lambda: browser.run(ready), 90, f"{notebook} does not open with an idle kernel")
        browser.run("jupyterapp.shell.collapseLeft(); await new Promise(done => setTimeout(done, 500));")

    def run_all(self, browser: Browser, seconds: float) -> None:
        """Run all cells from the first to the last, by Run > Run All Cells."""
        command = "jupyterapp.commands.execute('notebook:run-all-cells')"
        browser.run(f"{command}.finally(() => {{ window.hopperDone = true; }});")
        wait_for(lambda: browser.run("return window.hopperDone === true;"), seconds, "the cells do not end")
        browser.run("await new Promise(done => setTimeout(done, 500));")   # the last outputs are drawn

    def state(self, browser: Browser) -> PageState:
        """What the open notebook shows now."""
        values = browser.run(STATE)
        return PageState(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})

    def faint(self, browser: Browser, contrast: float) -> list[str]:
        """Texts of the open notebook that stand out less than this from what is behind them: class, contrast, words."""
        return browser.run(FAINT, contrast)

    def theme(self, browser: Browser, name: str) -> None:
        """Switch to the theme 'light' or 'dark'."""
        browser.run("await jupyterapp.commands.execute('apputils:change-theme', {theme: arguments[0]});", THEMES[name])
        browser.run("await new Promise(done => setTimeout(done, 700));")

    def screenshot(self, browser: Browser, path: Path, width: int = 1200) -> None:
        """A picture of the whole open notebook, put together from parts where it is longer than Chromium draws."""
        browser.resize(width, 900)
        height = browser.run(f"await new Promise(done => setTimeout(done, 700)); {OUTER} return outer.scrollHeight;")
        browser.resize(width, min(height + 120, MOST_PIXELS))
        top, shown, height = browser.run(
            f"""
            await new Promise(done => setTimeout(done, 700));
            {OUTER}
            return [Math.round(outer.getBoundingClientRect().top), outer.clientHeight, outer.scrollHeight];
            """
        )
        whole = Image.new("RGB", (width, top + max(height, shown)))
        for place in range(0, height, shown):
            script = f"{OUTER} outer.scrollTop = arguments[0]; await new Promise(done => setTimeout(done, 300));"
            scrolled = browser.run(f"{script} return Math.round(outer.scrollTop);", place)
            page = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
            if not place:
                whole.paste(page.crop((0, 0, width, top)), (0, 0))
            whole.paste(page.crop((0, top, width, top + shown)), (0, top + scrolled))
        path.parent.mkdir(parents=True, exist_ok=True)
        whole.save(path)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
