"""The pages in a real browser: headless Chromium, driven by Playwright, at the widths of a desk and a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from papilio.reports.build import write_report

LIMIT_MS = 120_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Playwright's Chromium, or one of the system; skips where there is neither."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (papilio[browser])")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    with api.sync_playwright() as playwright:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium found: apt-get install chromium, or playwright install chromium")
        # Root needs no sandbox, a container has neither a GPU nor much shared memory.
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        opened = playwright.chromium.launch(executable_path=path, args=flags, timeout=LIMIT_MS)
        yield opened
        opened.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["experiment", "job"])
def test_the_page_loads_without_errors_and_fits(
    browser: Any, measured: Path, tmp_path: Path, which: str, width: int
) -> None:
    path = measured / "report" / "report.html"
    if which == "job":
        path = write_report(measured / "jobs" / "w2-r1", tmp_path / "report")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(LIMIT_MS)
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri(), wait_until="load")
    assert problems == []
    assert [url for url in requests if not url.startswith("data:image/svg+xml;")] == [path.as_uri()]
    images = page.evaluate("[...document.images].map(image => [image.complete, image.naturalWidth])")
    assert len(images) == {"experiment": 5, "job": 1}[which]
    assert all(complete and wide > 300 for complete, wide in images)
    # Nothing is wider than the screen but what scrolls by itself.
    assert page.evaluate("document.documentElement.scrollWidth") == width
    heading = page.inner_text("h1")
    assert heading.startswith({"experiment": "Strong scaling of", "job": "Butterfly count"}[which])
    assert (
        page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    page.close()
