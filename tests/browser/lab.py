"""A JupyterLab of its own, driven through a browser: no settings, no notebooks of the user's are touched."""

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

from webdriver import Browser, free_port, wait_for

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


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

    def screenshot(self, browser: Browser, theme: str, path: Path, width: int = 1200) -> None:
        """A picture of the whole notebook in the theme 'light' or 'dark'."""
        browser.run("await jupyterapp.commands.execute('apputils:change-theme', {theme: arguments[0]});", THEMES[theme])
        browser.resize(width, 900)
        height = browser.run(
            """
            await new Promise(done => setTimeout(done, 700));
            const outer = jupyterapp.shell.currentWidget.content.node.querySelector('.jp-WindowedPanel-outer');
            outer.scrollTop = 0;
            return outer.scrollHeight;
            """
        )
        browser.resize(width, min(height + 120, 16000))   # Chromium draws no larger picture
        browser.run("await new Promise(done => setTimeout(done, 700));")
        browser.screenshot(path)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
