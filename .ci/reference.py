"""Write what is made from the definitions of the settings: settings.md, the JSON schema, the table of run.md."""

import json
import re
from pathlib import Path

from mutator.config.reference import json_schema, markdown_of_short_names, markdown_reference

root = Path(__file__).resolve().parent.parent
page = root / "docs" / "settings.md"
head = page.read_text().partition("\n## ")[0].rstrip()
page.write_text(f"{head}\n\n{markdown_reference()}")
(root / "docs" / "mutator.schema.json").write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")
page = root / "docs" / "run.md"
table = markdown_of_short_names()
text, count = re.subn(r"\| setting \| published name \|(?:.*\n)+?(?=\n)", lambda match: table, page.read_text())
assert count == 1
page.write_text(text)
