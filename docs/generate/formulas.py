"""Formulas as MathML, which browsers draw themselves: no script, no font and no request."""

import re
from itertools import count

from latex2mathml.converter import convert

# Code is left alone: a dollar there is a dollar.
FORMULA = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL | re.MULTILINE
)
# What a maximum or a mean is over stands below it, as in print.
OVER = re.compile(r"(\\max|\\min|\\operatorname\*\{\w+\})(?=_)")


def taken_out(text: str) -> tuple[str, dict[str, str]]:
    """The text with a word in the place of each formula, and the formula behind each word.

    Markdown must not see a formula: it would take its underscores for emphasis.
    """
    found: dict[str, str] = {}
    numbers = count()

    def word(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        name = f"formula{next(numbers)}x"
        written = (match["block"] or match["inline"]).strip().replace(r"\arg", r"\operatorname{arg}")  # not known to it
        if match["block"]:
            written = OVER.sub(r"\g<0>\\limits", written)
        found[name] = convert(written, display="block" if match["block"] else "inline")
        return name

    return FORMULA.sub(word, text), found


def put_back(html: str, found: dict[str, str]) -> str:
    """The page with its formulas."""
    return re.sub(r"formula\d+x", lambda match: found.get(match[0], match[0]), html)
