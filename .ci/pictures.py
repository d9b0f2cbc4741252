"""Write the pictures of docs/reports.md: pages of the sample of the tests, as Chromium shows them."""

import sys
import tempfile
from pathlib import Path

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root))

from tests.support.browser import DESK, opened  # noqa: E402
from tests.support.sample_pages import base_sample, merged_sample  # noqa: E402

with tempfile.TemporaryDirectory() as directory, opened() as browser:
    place = Path(directory)
    (place / "merge.html").write_text(merged_sample(place / "data").html().replace(f"{place}/data", "/data/prices"))
    (place / "base.html").write_text(base_sample().html())
    for name, page, width, scheme, height in (
        ("report_merge", "merge", DESK, "light", 1830),
        ("report_base", "base", DESK, "light", 840),
    ):
        browser.show(place / f"{page}.html", width, scheme)
        (root / "docs" / f"{name}.png").write_bytes(browser.picture(height))
