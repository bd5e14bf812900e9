"""A check of the built pages in a browser: none scrolls sideways, on a wide and a narrow screen.

Run as ``python docs/_ext/check_widths.py FOLDER`` with the folder of the pages. Without Chromium
there is nothing to see with, and the check is skipped.
"""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

#: Pixels from side to side.
WIDTHS = (1400, 500)
#: Names of the browser.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SEVERAL = 50  # pages that one start of the browser looks at

#: Shows one page after the other in a frame, and writes which are too wide, by how many pixels, and
#: which element reaches farthest to the right.
_LOOK = """<!DOCTYPE html><title>widths</title><pre id="found">not finished</pre>
<iframe id="frame" style="border: 0; height: 900px"></iframe>
<script>
const pages = PAGES, widths = WIDTHS, frame = document.getElementById("frame"), found = [];
let current = null;
function next() {
  if (!pages.length) {
    document.getElementById("found").textContent = JSON.stringify(found);
    return;
  }
  current = pages.shift();
  frame.src = current;
}
function widest(root) {
  let right = 0, name = "";
  for (const part of root.querySelectorAll("body *")) {
    const edge = part.getBoundingClientRect().right;
    if (edge > right) { right = edge; name = part.tagName + "." + part.className; }
  }
  return name;
}
frame.onload = () => {
  for (const width of widths) {
    frame.style.width = width + "px";
    const root = frame.contentDocument.documentElement;
    const excess = root.scrollWidth - root.clientWidth;
    if (excess > 0) found.push([current, width, excess, widest(root)]);
  }
  next();
};
next();
</script>
"""


class _Server(SimpleHTTPRequestHandler):
    """Serves a folder and, under one more name, the page that looks at the others."""

    look = ""

    def do_GET(self) -> None:
        if self.path != "/look-at-widths":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(type(self).look.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def find_browser() -> str | None:
    """Return the path of a browser, if there is one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def _served(folder: Path) -> Iterator[tuple[type[_Server], str]]:
    """Serve a folder on this machine."""

    class Server(_Server):
        pass

    handler = functools.partial(Server, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Server, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _seen(browser: str, address: str) -> list[tuple[str, int, int, str]]:
    """Return which pages the browser found too wide."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={profile}", "--virtual-time-budget=600000"]
        command += [f"{address}/look-at-widths"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    text = html.unescape(match[1]) if match else "nothing"
    if not text.startswith("["):
        raise RuntimeError(f"the browser has not looked at all pages: {text}")
    return [tuple(each) for each in json.loads(text)]


def problems(folder: Path, widths: Sequence[int] = WIDTHS) -> Iterator[str]:
    """Give a sentence for each page of a folder that scrolls sideways."""
    browser = find_browser()
    if browser is None:
        raise RuntimeError("there is no Chromium")
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.html"))]
    pages = [f"/{name}" for name in names if "_static" not in name]
    with _served(folder) as (server, address):
        for start in range(0, len(pages), _SEVERAL):
            look = _LOOK.replace("WIDTHS", json.dumps(list(widths)))
            server.look = look.replace("PAGES", json.dumps(pages[start : start + _SEVERAL]))
            for name, width, excess, widest in _seen(browser, address):
                yield f"{name[1:]} is {excess} pixels too wide for {width}: see {widest}"


def main(folder: str) -> int:
    """Print what is too wide; the exit status is 1 if anything is."""
    if find_browser() is None:
        sys.stdout.write("skipped: no Chromium\n")
        return 0
    found = list(problems(Path(folder)))
    sys.stdout.writelines(f"{line}\n" for line in found or ["no page scrolls sideways"])
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
