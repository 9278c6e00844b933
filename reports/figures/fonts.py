"""The fonts of figures: matplotlib's own, and behind it those of this machine that have what it lacks."""

from functools import cache

from matplotlib.font_manager import fontManager

# Chinese, Japanese and Korean: as Linux, macOS and Windows have them.
CJK = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC",
    "WenQuanYi Micro Hei", "Droid Sans Fallback", "IPAexGothic", "NanumGothic", "PingFang SC", "Hiragino Sans GB",
    "Hiragino Sans", "Apple SD Gothic Neo", "Arial Unicode MS", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
)  # fmt: skip

NORMAL = (400, "normal", "regular")  # as matplotlib may write the weight of a font


@cache
def families() -> list[str]:
    """Families in the order in which a letter is looked for.

    Of one that is not installed, or not in the weight of our text, matplotlib would warn in every run.
    """
    installed = {font.name for font in fontManager.ttflist if font.weight in NORMAL}
    return ["sans-serif", *(name for name in CJK if name in installed)]
