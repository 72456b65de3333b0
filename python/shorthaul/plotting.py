"""What plots have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.axes


def axes(ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Where to draw: there, or else on axes of a new figure.

    Raises ImportError if matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'shorthaul[plot]'") from error
    return plt.subplots(layout="constrained")[1]


def label(what: str, unit: str | None) -> str:
    """For an axis."""
    return f"{what} ({unit})" if unit else what
