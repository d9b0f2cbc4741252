"""Write what is made from definitions: settings.md, the JSON schema, the tables in run.md and python.md."""

import json
import re
from pathlib import Path

from mutator.config.reference import json_schema, markdown_of_short_names, markdown_reference
from mutator.errors.exceptions import CATALOGUE

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
page = root / "docs" / "python.md"
kinds: dict[type, list[str]] = {}
for kind, (family, _) in sorted(CATALOGUE.items()):
    kinds.setdefault(family, []).append(f"`{kind}`")
rows = [
    f"| `{family.__name__}` | {family.exit_code} | {', '.join(found)} |\n"
    for family, found in sorted(kinds.items(), key=lambda item: item[0].exit_code)
]
head = "| class | `exit_code` | `kind` |\n|---|---|---|\n"
text, count = re.subn(rf"{re.escape(head)}(?:\|.*\n)*", lambda match: head + "".join(rows), page.read_text())
assert count == 1
page.write_text(text)
