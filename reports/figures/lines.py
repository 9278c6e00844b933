"""Attention as lines between two columns of words, the darker the stronger."""

from collections.abc import Collection, Sequence

from matplotlib.axes import Axes

from headscope.reports.figures.drawing import OURS, PUBLISHED, text_width

FAINTEST, FAINTEST_LINK = 0.02, 0.15


def draw_lines(
    axes: Axes,
    words: Sequence[str],
    attention: Sequence[Sequence[float]],
    width: float,
    links: Collection[tuple[int, int]] = (),
    size: float = 7.0,
) -> None:
    """Each left word joined to what it attends to, in a panel of so many millimetres; links have a colour of their own."""
    for left, row in enumerate(attention):
        for right, weight in enumerate(row):
            linked = (left, right) in links
            if weight > FAINTEST or linked:
                axes.plot(
                    [0, 1],
                    [left, right],
                    color=PUBLISHED if linked else OURS,
                    alpha=min(1, max(weight, FAINTEST_LINK * linked)),
                    linewidth=1.8 if linked else 1.2,
                )
    marked = {index for link in links for index in link}
    for index, word in enumerate(words):
        weight = "bold" if index in marked else "normal"
        axes.text(-0.03, index, word, ha="right", va="center", fontsize=size, fontweight=weight)
        axes.text(1.03, index, word, ha="left", va="center", fontsize=size, fontweight=weight)
    # Room for the longest word, which is bold at worst, on both sides of lines that share the rest.
    longest = 1.2 * max(text_width(word, size) for word in words) + 3
    reach = longest / max(width - 4 - 2 * longest, 10)
    axes.set(xlim=(-reach, 1 + reach), ylim=(len(words) - 0.4, -0.6))
    axes.axis("off")
