"""Write the package as a zip for `spark-submit --py-files`: `zip.py OUT`. The same sources give the same bytes."""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

root = Path(__file__).resolve().parent.parent
out = Path(sys.argv[1])
out.parent.mkdir(parents=True, exist_ok=True)
out.unlink(missing_ok=True)
with ZipFile(out, "x") as archive:
    sources = [*(root / "mutator").rglob("*.py"), *(root / "mutator").rglob("templates/*")]
    for path in sorted(sources, key=lambda path: path.relative_to(root).as_posix()):
        # ZipInfo's default date is 1980-01-01; fixed permissions make the bytes independent of the checkout's umask
        entry = ZipInfo(path.relative_to(root).as_posix())
        entry.external_attr = 0o644 << 16
        entry.compress_type = ZIP_DEFLATED
        archive.writestr(entry, path.read_bytes())
