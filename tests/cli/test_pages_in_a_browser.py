"""Pages of HTML in headless Chromium: at the width of a desk and of a phone, light and dark, and printed."""

from __future__ import annotations

import pytest

from tests.support.browser import DESK, PHONE, opened
from tests.support.sample_pages import base_sample, merged_sample

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def browser():
    with opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    place = tmp_path_factory.mktemp("a_long_name_that_cannot_be_broken_between_words")
    (place / "merge.html").write_text(merged_sample(place).html())
    (place / "base.html").write_text(base_sample().html())
    return place


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("name", ["merge", "base"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_page_can_be_read_by_everybody(browser, pages, name, width, scheme):
    browser.show(pages / f"{name}.html", width, scheme)

    assert browser.violations() == []
    assert browser.value("document.documentElement.scrollWidth") == width  # only tables scroll sideways
    assert browser.messages() == []
    dark = browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")
    shown = browser.value("[...document.querySelectorAll('svg.flow')].filter(one => one.clientWidth).length")
    assert shown == (name == "merge")


@pytest.mark.rest
def test_a_page_can_be_printed(browser, pages):
    browser.show(pages / "merge.html", DESK, "dark")

    assert browser.printed().startswith(b"%PDF-")
