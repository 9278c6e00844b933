"""Figures that a notebook shows by themselves, whatever matplotlib's backend is, and without pyplot."""

import io

from matplotlib.figure import Figure

DOTS = 110  # per inch


class NotebookFigure(Figure):
    """A figure that is a picture in a notebook; all else is matplotlib's."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=DOTS)
        return content.getvalue()
