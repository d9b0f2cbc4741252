"""Write what is made from the definitions of the settings: docs/settings.md, the JSON schema, and README's table."""

import json
import re
from pathlib import Path

from mutator.config.reference import json_schema, markdown_of_short_names, markdown_reference

root = Path(__file__).resolve().parent.parent
page = root / "docs" / "settings.md"
head = page.read_text().partition("\n## ")[0].rstrip()
page.write_text(f"{head}\n\n{markdown_reference()}")
(root / "docs" / "mutator.schema.json").write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")
readme = root / "README.md"
table = markdown_of_short_names("docs/")
text, count = re.subn(r"\| setting \| published name \|(?:.*\n)+?(?=\n)", lambda match: table, readme.read_text())
assert count == 1
readme.write_text(text)
