"""Function families about nested structures and small languages: brackets, templates, expressions, nested lists."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import WORDS
from agentgym.tasks.code.parts import int_test, word_map

_FLAT = block("""
    tokens = <tokens>
    total = int(tokens[0])
    for i in range(1, len(tokens), 2):
        other = int(tokens[i + 1])
        if tokens[i] == "<add>":
            total = <first> + <second>
        elif tokens[i] == "<mul>":
            total = <first> * <second>
        else:
            total = <first> - <second>
""")
_SUMS_FIRST = block("""
    total = 1
    for part in text.split(" <mul> "):
        inner = 0
        sign = 1
        for token in part.split():
            if token == "<add>":
                sign = 1
            elif token == "<sub>":
                sign = -1
            else:
                inner += sign * int(token)
        total *= inner
""")
_PRODUCTS_FIRST = block("""
    total = 0
    sign = 1
    product = 1
    for token in text.split():
        if token in ("<add>", "<sub>"):
            total += sign * product
            sign = 1 if token == "<add>" else -1
            product = 1
        elif token != "<mul>":
            product *= int(token)
    total += sign * product
""")


def _flat(tokens: str, first: str, second: str) -> str:
    return _FLAT.replace("<tokens>", tokens).replace("<first>", first).replace("<second>", second)


_RULES = (
    (
        "There is no precedence: work strictly from left to right.",
        _flat("text.split()", "total", "other"),
    ),
    (
        "There is no precedence: work strictly from right to left (`1 <sub> 2 <sub> 3` is 1 - (2 - 3)).",
        _flat("text.split()[::-1]", "other", "total"),
    ),
    (
        "`<add>` and `<sub>` bind tighter than `<mul>`; operators that bind equally work from left to right.",
        _SUMS_FIRST,
    ),
    (
        "`<mul>` binds tighter than `<add>` and `<sub>`, which work from left to right.",
        _PRODUCTS_FIRST,
    ),
)
"""The semantics of a language: in words, and as the lines that compute `total` from `text`."""


@function(
    Area.PARSING,
    3,
    "In the text, `{o1}` is closed by `{c1}` and `{o2}` by `{c2}`, and brackets must be properly nested. "
    "Return {what}, or {bad} if the brackets are not balanced. Ignore all other characters.",
    "There are two kinds of brackets, `{o1}{c1}` and `{o2}{c2}`. If the brackets in the text are not "
    "properly nested, return {bad}; otherwise return {what}. Other characters do not matter.",
    "Check the brackets `{o1} {c1}` and `{o2} {c2}` in a text. If they are not properly nested, return "
    "{bad}; if they are, return {what}. Skip all other characters.",
)
def bracket_depth(rng: Random) -> Function:
    """Check brackets and measure them."""
    (o1, c1), (o2, c2) = rng.sample(("()", "[]", "{}", "<>", "/\\"), 2)
    bad, weight = rng.choice((-1, -10, None)), rng.randint(2, 5)
    what, update = rng.choice(
        (
            ("the greatest depth of nesting (0 without brackets)", "max(result, len(stack))"),
            (
                f"the number of bracket pairs, where pairs of `{o2}{c2}` count {weight} times",
                f"result + ({weight} if c == {o2!r} else 1)",
            ),
            ("the sum of the depths of all pairs (an outermost one has depth 1)", "result + len(stack)"),
            (
                f"the number of bracket pairs, where an outermost pair counts {weight} times",
                f"result + ({weight} if len(stack) == 1 else 1)",
            ),
        )
    )
    source = block(f"""
        def depth(text: str) -> int | None:
            partner = {{{c1!r}: {o1!r}, {c2!r}: {o2!r}}}
            stack = []
            result = 0
            for c in text:
                if c in partner.values():
                    stack.append(c)
                    result = {update}
                elif c in partner:
                    if not stack or stack.pop() != partner[c]:
                        return {bad}
            return {bad} if stack else result
    """)

    def draw(r: Random) -> Arguments:
        text = ""
        for _ in range(r.randint(1, 6)):
            pair = r.choice((o1 + c1, o2 + c2))
            text = r.choice((pair[0] + text + pair[1], text + pair, pair[0] + pair[1] + text + r.choice("ab")))
        return (text[:-1] if r.random() < 0.15 else text,)

    edges = ((o1 + o2 + c1 + c2,), ("abc",), (c1 + o1,), (o1 * 3 + c1 * 3,), (o2 + c2 + o1 + o2 + c2 + c1,), (o1,))
    words = {"o1": o1, "c1": c1, "o2": o2, "c2": c2, "what": what, "bad": bad}
    return Function(source, words, draw, edges)


@function(
    Area.PARSING,
    3,
    "Fill in a template: replace every `{open}name{close}` with {map}, where v is the value of that name in "
    "the dict. If the name is missing, {miss}. {case}An opening `{open}` that is never closed stays as it "
    "is.",
    "Replace the placeholders `{open}name{close}` of the template with {map}, where v is the value that the "
    "dict has for the name (for missing names, {miss}). {case}If no `{close}` follows an opening `{open}`, "
    "both it and the text after it stay unchanged.",
    "Return the template with each `{open}name{close}` replaced by {map}, where v is the value of the name "
    "in the dict. For unknown names, {miss}. {case}Treat any `{open}` without a closing `{close}` as plain "
    "text.",
)
def fill_template(rng: Random) -> Function:
    """Fill the gaps of a template."""
    opener, closer = rng.choice((("<", ">"), ("[", "]"), ("{", "}"), ("${", "}"), ("<<", ">>"), ("@", ";")))
    default = rng.choice(("?", "n/a", "none", "-", *WORDS))
    miss, code = rng.choice(
        (
            (f"write {default!r}", repr(default)),
            (f"write {default!r} and the name as it stands there", f"{default!r} + name"),
            ("leave the placeholder as it is", f"{opener!r} + name + {closer!r}"),
            ("write nothing", "''"),
            ("write the name as it stands there, in upper case", "name.upper()"),
        )
    )
    change = word_map(rng)
    case, key = rng.choice(
        (
            ("", "name"),
            ("Spaces around a name do not matter. ", "name.strip()"),
            ("Names are looked up in lower case. ", "name.lower()"),
        )
    )
    source = block(f"""
        def fill(template: str, values: dict[str, str]) -> str:
            first, *rest = template.split({opener!r})
            out = first
            for part in rest:
                name, closed, after = part.partition({closer!r})
                if closed:
                    v = values.get({key})
                    out += ({code} if v is None else {change.of("v")}) + after
                else:
                    out += {opener!r} + part
            return out
    """)
    gap = (opener + "%s" + closer).replace

    def draw(r: Random) -> Arguments:
        names = r.sample(("name", "city", "Day", " age ", "x"), 3)
        text = " ".join(r.choice((gap("%s", r.choice(names)), r.choice(WORDS))) for _ in range(r.randint(2, 6)))
        return (text, {name.strip().lower(): r.choice(WORDS) for name in names if r.random() < 0.7})

    edges = (
        ("", {}),
        ("plain text", {"a": "b"}),
        (gap("%s", "x"), {}),
        (f"a {opener}b", {"b": "c"}),
        (gap("%s", "Name") + gap("%s", " name ") + gap("%s", "name"), {"name": "Zoë", "Name": "Al"}),
        (gap("%s", "") + "!", {"": "empty"}),
    )
    return Function(
        source, {"open": opener, "close": closer, "miss": miss, "case": case, "map": change.say("v")}, draw, edges
    )


@function(
    Area.PARSING,
    4,
    "Evaluate an expression in a small language. Its tokens are separated by spaces: whole numbers, `{add}` "
    "(addition), `{mul}` (multiplication) and `{sub}` (subtraction). {rule} The text is always valid. Return "
    "its value{mod}.",
    "Evaluate an expression in which `{add}` adds, `{mul}` multiplies and `{sub}` subtracts, with a space "
    "between all tokens. {rule} You can assume valid input. Return the value{mod}.",
    "Compute the value{mod} of a text such as `2 {add} 3 {mul} 4 {sub} 1`. The operators are `{add}` for "
    "plus, `{mul}` for times and `{sub}` for minus. {rule} There is no need to check for errors.",
)
def evaluate(rng: Random) -> Function:
    """Evaluate expressions in a custom language."""
    add, mul, sub = rng.sample("#!?@$%&~^", 3)
    m = rng.choice((0, 0, 97, 1000))
    rule, body = rng.choice(_RULES)
    names = {"add": add, "mul": mul, "sub": sub}
    for name, sign in names.items():
        body = body.replace(f"<{name}>", sign)
        rule = rule.replace(f"<{name}>", sign)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"def evaluate(text: str) -> int:\n{lines}    return total{f' % {m}' if m else ''}\n"

    def draw(r: Random) -> Arguments:
        tokens = [str(r.randint(0, 12))]
        for _ in range(r.randint(1, 5)):
            tokens += [r.choice((add, mul, sub)), str(r.randint(0, 12))]
        return (" ".join(tokens),)

    edges = (
        ("7",),
        (f"2 {add} 3 {mul} 4",),
        (f"2 {mul} 3 {add} 4",),
        (f"9 {sub} 4 {sub} 3",),
        (f"1 {sub} 2 {mul} 5 {sub} 3",),
    )
    words = names | {"rule": rule, "mod": f" modulo {m} (as with `%` in Python)" if m else ""}
    return Function(source, words, draw, edges)


@function(
    Area.PARSING,
    5,
    "The text holds nested lists such as `{o}3{s}{o}4{s}-5{c}{s}6{c}`: numbers and lists between `{o}` and "
    "`{c}`, separated by `{s}`. A number inside k lists has depth k. {ask}",
    "Lists are written between `{o}` and `{c}`, with items separated by `{s}`; an item is a whole number or "
    "another list. The depth of a number is how many lists it is inside. {ask}",
    "Parse nested lists (opened by `{o}`, closed by `{c}`, items separated by `{s}`). Every number has a "
    "depth, starting at 1 for those directly in the outermost list. {ask}",
    held_out=True,
)
def nested_lists(rng: Random) -> Function:
    """Weigh the numbers of nested lists."""
    (o, c), s = rng.choice(("()", "[]", "{}", "<>")), rng.choice((",", " ", ";", "|"))
    test, k = int_test(rng), rng.randint(2, 4)
    ask, code = rng.choice(
        (
            (
                f"Multiply each of the numbers that {test} by its depth, and return the sum of the results.",
                f"sum(d * n for d, n in found if {test.of('n')})",
            ),
            (
                f"Return the sum of the numbers that {test} and whose depth is at least {k}.",
                f"sum(n for d, n in found if d >= {k} and {test.of('n')})",
            ),
            (
                f"Multiply each of the numbers that {test} by {k} minus its depth, and return the sum of the results.",
                f"sum(n * ({k} - d) for d, n in found if {test.of('n')})",
            ),
            (
                f"Return the list of the numbers that {test}, deepest first, equal depths in their order.",
                f"[n for d, n in sorted(found, key=lambda p: -p[0]) if {test.of('n')}]",
            ),
        )
    )
    source = block(f"""
        def weigh(text: str) -> {"list[int]" if code.startswith("[") else "int"}:
            found = []
            depth = 0
            digits = ""
            for sign in text:
                if sign in "-0123456789":
                    digits += sign
                    continue
                if digits:
                    found.append((depth, int(digits)))
                    digits = ""
                if sign == {o!r}:
                    depth += 1
                elif sign == {c!r}:
                    depth -= 1
            return {code}
    """)

    def nest(r: Random, levels: int) -> str:
        inner = [
            nest(r, levels - 1) if levels and r.random() < 0.4 else str(r.randint(-9, 20))
            for _ in range(r.randint(1, 4))
        ]
        return o + s.join(inner) + c

    edges = (
        (o + c,),
        (o + "7" + c,),
        (o * 4 + "8" + c * 4,),
        (f"{o}3{s}{o}4{s}-5{c}{s}6{c}",),
        (f"{o}{o}2{c}{s}{o}{c}{s}12{c}",),
    )
    return Function(source, {"o": o, "c": c, "s": s, "ask": ask}, lambda r: (nest(r, 3),), edges)
