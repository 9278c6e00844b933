"""The atlas as one page that needs nothing else: styles, scripts and data stand in the file itself."""

import base64
import gzip
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.reports.atlas.modules import joined

PAGE = Path(__file__).parent / "page"
DIGITS = 6  # significant; atlas.json keeps all of them
PLAIN_BYTES = 4_000_000  # data beyond this size is packed with gzip, which browsers unpack
STYLE = re.compile(r'<link rel="stylesheet" href="([\w.]+)">')
SCRIPT = re.compile(r'<script type="module" src="([\w.]+)"></script>')
# Comments that have their lines to themselves, and indentation: a third of the scripts, and of no use in a finished page.
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)\n", re.M | re.S)
INDENT = re.compile(r"^[ \t]+", re.M)
DATA = '<script id="atlas" type="application/json">{}</script>'
# Inside a script element these would end it, hide its end, or (in older readers of JSON) break a line.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def atlas_html(atlas: Mapping[str, Any]) -> str:
    """The whole page; its policy lets only its own styles and scripts run and forbids every request.

    Only a page that is served (`live`) may ask its own server.
    """
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def inlined(tag: str, text: str) -> str:
        text = "\n" + slim(text)
        hashes[tag].append(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'")
        return f"<{tag}>{text}</{tag}>"

    page = (PAGE / "page.html").read_text(encoding="utf-8")
    page = STYLE.sub(lambda found: inlined("style", (PAGE / found[1]).read_text(encoding="utf-8")), page)
    page = SCRIPT.sub(lambda found: inlined("script", joined(PAGE / found[1])), page)
    policy = (
        f"default-src 'none'; style-src {' '.join(hashes['style'])}; script-src {' '.join(hashes['script'])}; "
        "img-src data:; base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if "live" in atlas else "")
    )
    head = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    title = html.escape(str(atlas.get("title", "Atlas of attention heads")))
    page = page.replace('<meta charset="utf-8">', head, 1)
    page = page.replace("<title>Atlas of attention heads</title>", f"<title>{title}</title>", 1)
    return page.replace(DATA, embedded(atlas), 1)


def slim(code: str) -> str:
    """Styles or scripts without comments and indentation; line by line the same, as nothing in them spans lines."""
    return INDENT.sub("", COMMENT.sub("", code))


def embedded(atlas: Mapping[str, Any]) -> str:
    """The data as a script element that is never run: readable JSON, or packed where it is large."""
    text = json.dumps(rounded(atlas), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text) > PLAIN_BYTES:
        packed = base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()
        return f'<script id="atlas" type="application/gzip">{packed}</script>'
    return f'<script id="atlas" type="application/json">{safe(text)}</script>'


def safe(text: str) -> str:
    """JSON that means the same and can stand inside a script element."""
    return re.sub("|".join(UNSAFE), lambda found: UNSAFE[found[0]], text)


def rounded(value: Any) -> Any:
    """Numbers with as many digits as a reader can use; what is not finite becomes null."""
    if isinstance(value, float):  # asked first: nearly everything is a number
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short if math.isfinite(short) else None
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value]
