"""How the lines of a table are drawn."""

from dataclasses import dataclass

from gridtext.errors import StyleError


@dataclass(frozen=True)
class Style:
    """Characters around cells. A rule is (left, line, crossing, right), or `None` for no rule."""

    left: str = ""
    between: str = "  "
    right: str = ""
    top: tuple | None = None
    below_header: tuple | None = None
    between_rows: tuple | None = None
    bottom: tuple | None = None
    marks_alignment: bool = False

    def row(self, cells):
        """Return a line of cells."""
        return (self.left + self.between.join(cells) + self.right).rstrip()

    def rule(self, parts, widths, aligns):
        """Return a rule for columns of given widths, or `None` if there is none."""
        if parts is None:
            return None
        left, line, crossing, right = parts
        pad = len(self.left.strip("|│+")) if self.left else 0
        pieces = [self._piece(line, width + 2 * pad, align) for width, align in zip(widths, aligns)]
        return left + crossing.join(pieces) + right

    def _piece(self, line, width, align):
        piece = line * width
        if not self.marks_alignment or align == "left":
            return piece
        if align == "center":
            return ":" + piece[2:] + ":"
        return piece[1:] + ":"


STYLES = {
    "plain": Style(below_header=("", "-", "  ", "")),
    "compact": Style(between=" "),
    "box": Style(
        left="│ ",
        between=" │ ",
        right=" │",
        top=("┌", "─", "┬", "┐"),
        below_header=("├", "─", "┼", "┤"),
        bottom=("└", "─", "┴", "┘"),
    ),
    "grid": Style(
        left="| ",
        between=" | ",
        right=" |",
        top=("+", "-", "+", "+"),
        below_header=("+", "=", "+", "+"),
        between_rows=("+", "-", "+", "+"),
        bottom=("+", "-", "+", "+"),
    ),
    "markdown": Style(
        left="| ", between=" | ", right=" |", below_header=("|", "-", "|", "|"), marks_alignment=True
    ),
}


def get_style(style):
    """Return a style by its name, or as it is. Raises `StyleError` naming those there are."""
    if isinstance(style, Style):
        return style
    if style not in STYLES:
        raise StyleError(f"no style {style!r}; there are: {', '.join(STYLES)}")
    return STYLES[style]
