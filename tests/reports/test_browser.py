"""The pages in a real browser: headless Chromium, driven by Playwright, at the widths of a desk and a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest

from papilio.motifs import CENSUS_CLASSES, rows_by_class
from papilio.reports.figures import draw_census
from papilio.reports.page import show_job, write_report
from papilio.reports.timeline import read_job

LIMIT_MS = 120_000

OVERLAPS = """selector => {
    const found = [...document.querySelectorAll(selector)].filter(each => !each.querySelector(selector));
    const boxes = found.map(each => {
        let {left, top, right, bottom} = each.getBoundingClientRect();
        const frame = each.closest(".scroll")?.getBoundingClientRect();
        if (frame) { left = Math.max(left, frame.left); right = Math.min(right, frame.right); }
        return {left, top, right, bottom, text: each.textContent.trim().slice(0, 40) || each.alt};
    }).filter(box => box.right > box.left && box.bottom > box.top);
    return boxes.flatMap((a, at) => boxes.slice(0, at).filter(b =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1).map(b => [a.text, b.text]));
}"""
"""The pairs of elements without others in them whose boxes share a pixel, in what scrolls as far as it is seen."""

LINES = """selector => [...document.querySelectorAll(selector)].map(each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return [each.textContent, new Set([...range.getClientRects()].map(box => Math.round(box.top))).size];
})"""
"""How many lines the text of each element takes."""

TEXTS = "h1, h2, p, dt, dd, .value, .name, th, td, figcaption, pre, img"


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
    assert page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(OVERLAPS, TEXTS) == []
    assert [text for text, lines in page.evaluate(LINES, ".value") if lines > 1] == []
    page.close()


CONTRASTS = """selector => {
    const light = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(each => each / 255)
            .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = each => {
        const colour = getComputedStyle(each).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" ? behind(each.parentElement) : colour;
    };
    return [...document.querySelectorAll(selector)].filter(each => each.textContent.trim()).map(each => {
        const [one, two] = [light(getComputedStyle(each).color), light(behind(each))];
        return [each.textContent.trim().slice(0, 40), (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05)];
    });
}"""
"""The contrast of the text of each element with what is behind it, as WCAG 2 defines it."""


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(27, 32, 41)")])
def test_all_text_is_readable_in_light_and_in_dark(browser: Any, measured: Path, scheme: str, paper: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page.goto((measured / "report" / "report.html").as_uri(), wait_until="load")
    assert page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor") == paper
    contrasts = page.evaluate(CONTRASTS, f"{TEXTS}, .state, .note, .warning")
    assert len(contrasts) > 20
    assert [(text, ratio) for text, ratio in contrasts if ratio < 4.5] == []
    page.close()


def test_a_number_that_no_screen_holds_breaks_between_its_digits_by_three(browser: Any, odd_job: Path) -> None:
    facts = read_job(odd_job)
    assert facts.result is not None
    result = replace(facts.result, count=comb(400, 200))
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(show_job(replace(facts, result=result), []))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(OVERLAPS, TEXTS) == []
    ((text, lines),) = page.evaluate(LINES, ".tile:first-child .value")
    assert text == f"{comb(400, 200):,}"
    assert lines > 1
    page.close()


def test_no_text_of_a_figure_lies_on_another(browser: Any, measured: Path) -> None:
    rows = rows_by_class(CENSUS_CLASSES, {each.cell: 10 ** (3 * at) for at, each in enumerate(CENSUS_CLASSES)})
    census = measured / "census.svg"
    census.write_bytes(draw_census(rows, "").svg)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    for path in (*sorted((measured / "report" / "figures").glob("*.svg")), census):
        page.goto(path.as_uri(), wait_until="load")
        assert page.evaluate("document.querySelectorAll('text').length") > 4
        assert page.evaluate(OVERLAPS, "text") == [], path.name
    page.close()
