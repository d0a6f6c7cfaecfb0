"""The parts of a template after parsing; each renders itself."""

from quillet.errors import RenderError


class Text:
    """Text as it stands."""

    def __init__(self, text):
        self.text = text

    def render(self, scope, engine):
        """Return the text."""
        return self.text


class Output:
    """The value of an expression."""

    def __init__(self, expression):
        self.expression = expression

    def render(self, scope, engine):
        """Return the value as text, escaped if the engine says so; nothing for `None`."""
        value = self.expression(scope, engine.filters)
        if value is None:
            return ""
        text = str(value)
        return engine.filters["escape"](text) if engine.autoescape else text


class If:
    """Branches, of which the first whose condition holds is rendered."""

    def __init__(self, branches, otherwise):
        self.branches = branches
        self.otherwise = otherwise

    def render(self, scope, engine):
        """Return the text of the branch."""
        for condition, body in self.branches:
            if condition(scope, engine.filters):
                return render_all(body, scope, engine)
        return render_all(self.otherwise, scope, engine)


class For:
    """A body that is rendered for each item."""

    def __init__(self, names, expression, body, otherwise):
        self.names = names
        self.expression = expression
        self.body = body
        self.otherwise = otherwise

    def render(self, scope, engine):
        """Return the texts of all items, or of `else` if there are none."""
        value = self.expression(scope, engine.filters)
        items = list(value.items()) if isinstance(value, dict) and len(self.names) == 2 else list(value)
        if not items:
            return render_all(self.otherwise, scope, engine)
        pieces = []
        for index, item in enumerate(items):
            loop = {
                "index": index + 1,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
            }
            inner = {**scope, "loop": loop, **self._bound(item)}
            pieces.append(render_all(self.body, inner, engine))
        return "".join(pieces)

    def _bound(self, item):
        if len(self.names) == 1:
            return {self.names[0]: item}
        values = tuple(item)
        if len(values) != len(self.names):
            raise RenderError(f"cannot unpack {len(values)} values into {', '.join(self.names)}")
        return dict(zip(self.names, values))


class Set:
    """A name for a value, from here on."""

    def __init__(self, name, expression):
        self.name = name
        self.expression = expression

    def render(self, scope, engine):
        """Put the value into the scope; return nothing."""
        scope[self.name] = self.expression(scope, engine.filters)
        return ""


class Include:
    """Another template in place of the tag."""

    def __init__(self, name):
        self.name = name

    def render(self, scope, engine):
        """Return the text of the other template."""
        depth = scope.get("__depth__", 0)
        if depth >= engine.max_depth:
            raise RenderError(f"includes are nested too deeply at {self.name!r}")
        return engine.get(self.name).render_scope({**scope, "__depth__": depth + 1})


def render_all(nodes, scope, engine):
    """Return the texts of nodes, one after the other."""
    return "".join(node.render(scope, engine) for node in nodes)
