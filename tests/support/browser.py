"""Headless Chromium, which shows a page as a person sees it, and axe-core, which finds what hinders some people."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT

DESK, PHONE = 1200, 390  # pixels
_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(found => done(found.violations.map(one =>
    one.id + ": " + one.help + ": " + one.nodes.map(node => node.target + " " + node.failureSummary).join("; "))));
"""


class Browser:
    """A browser. Each page is opened by its path, with a width and a colour scheme."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._axe = next((ROOT / "build" / "browser").glob("axe-*.min.js")).read_text()

    def show(self, path: Path, width: int, scheme: str) -> None:
        """Open a page. scheme: light | dark."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self._driver.get(path.resolve().as_uri())

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        return self._driver.execute_script(f"return {expression}")

    def violations(self) -> list[str]:
        """Return what axe-core finds in the page."""
        self._driver.execute_script(self._axe)
        return list(self._driver.execute_async_script(_AXE))

    def messages(self) -> list[str]:
        """Return the errors and warnings of the browser so far, such as a request that the page's policy stopped."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def picture(self, height: int) -> bytes:
        """Return the top of the page as a PNG."""
        width = self.value("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taken = self._driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(taken["data"])

    def printed(self) -> bytes:
        """Return the page as a PDF."""
        return base64.b64decode(self._driver.execute_cdp_cmd("Page.printToPDF", {})["data"])


@contextmanager
def opened() -> Iterator[Browser]:
    """Start a browser; skip the test where there is none, as .ci/browser.sh says."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs or not any((ROOT / "build" / "browser").glob("axe-*.min.js")):
        pytest.skip("Chromium, its driver or axe-core is missing: make browser")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
