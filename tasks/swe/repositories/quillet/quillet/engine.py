"""Templates, and engines that hold several."""

import re

from quillet import nodes
from quillet.errors import RenderError, TemplateSyntaxError
from quillet.expressions import parse_expression
from quillet.filters import FILTERS
from quillet.lexer import OUTPUT, TEXT, tokenize

_FOR = re.compile(r"for\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s+in\s+(.+)", re.DOTALL)
_SET = re.compile(r"set\s+([A-Za-z_]\w*)\s*=\s*(.+)", re.DOTALL)
_INCLUDE = re.compile(r"""include\s+["']([^"']+)["']""")


class Engine:
    """Templates by name, with filters of their own.

    Args:
        templates: Names to sources.
        filters: More filters, or other ones of the same names.
        autoescape: Whether outputs are escaped for HTML.
        max_depth: How deep includes may be nested.
    """

    def __init__(self, templates=None, *, filters=None, autoescape=False, max_depth=10):
        self.sources = dict(templates or {})
        self.filters = {**FILTERS, **(filters or {})}
        self.autoescape = autoescape
        self.max_depth = max_depth
        self._parsed = {}

    def add(self, name, source):
        """Add a template or replace one."""
        self.sources[name] = source
        self._parsed.pop(name, None)

    def get(self, name):
        """Return a template. Raises `RenderError` if there is none of that name."""
        if name not in self.sources:
            raise RenderError(f"there is no template {name!r}")
        if name not in self._parsed:
            self._parsed[name] = Template(self.sources[name], engine=self)
        return self._parsed[name]

    def render(self, name, **values):
        """Render a template."""
        return self.get(name).render(**values)


class Template:
    """One template, parsed once."""

    def __init__(self, source, *, engine=None):
        self._engine = engine or Engine()
        self._body = _Parser(tokenize(source)).parse()

    def render(self, **values):
        """Return the text with values filled in. Raises `RenderError`."""
        return self.render_scope(values)

    def render_scope(self, scope):
        """Return the text for a scope, which is not changed."""
        return nodes.render_all(self._body, dict(scope), self._engine)


class _Parser:
    def __init__(self, tokens):
        self._tokens = tokens
        self._place = 0

    def parse(self):
        body, ending = self._until(())
        assert ending is None
        return body

    def _until(self, endings, opened=None):
        """Return the nodes up to a tag that begins with one of the endings, and that tag."""
        body = []
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            self._place += 1
            if token.kind == TEXT:
                body.append(nodes.Text(token.value))
            elif token.kind == OUTPUT:
                body.append(nodes.Output(parse_expression(token.value, token.line)))
            else:
                word = token.value.split(None, 1)[0] if token.value else ""
                if word in endings:
                    return body, token
                body.append(self._tag(word, token))
        if opened is not None:
            raise TemplateSyntaxError(f"{opened.value.split()[0]!r} has no end", opened.line)
        return body, None

    def _tag(self, word, token):
        if word == "if":
            return self._if(token)
        if word == "for":
            return self._for(token)
        if word == "set":
            found = self._match(_SET, token)
            return nodes.Set(found[1], parse_expression(found[2], token.line))
        if word == "include":
            return nodes.Include(self._match(_INCLUDE, token)[1])
        if word in ("end", "else", "elif"):
            raise TemplateSyntaxError(f"{word!r} without a beginning", token.line)
        raise TemplateSyntaxError(f"unknown tag {word!r}", token.line)

    def _if(self, token):
        branches, otherwise = [], []
        ending = token
        while ending.value.startswith(("if", "elif")):
            condition = parse_expression(ending.value.split(None, 1)[-1], ending.line)
            body, ending = self._until(("elif", "else", "end"), token)
            branches.append((condition, body))
        if ending.value == "else":
            otherwise, _ = self._until(("end",), token)
        return nodes.If(branches, otherwise)

    def _for(self, token):
        found = self._match(_FOR, token)
        names = [name.strip() for name in found[1].split(",")]
        body, ending = self._until(("else", "end"), token)
        otherwise = self._until(("end",), token)[0] if ending.value == "else" else []
        return nodes.For(names, parse_expression(found[2], token.line), body, otherwise)

    def _match(self, pattern, token):
        found = pattern.fullmatch(token.value)
        if found is None:
            raise TemplateSyntaxError(f"cannot read {token.value!r}", token.line)
        return found
