"""Chat templates, which are programs, are tried with limits before they are used."""

from __future__ import annotations

from agentgym.base.template_trial import try_templates
from tests.refusals import differing, refusal

PLAIN = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"

BOMBS = [
    "{{ 'a' * 10**10 }}",
    "{% if false %}{{ 'a' * 10**10 }}{% endif %}",
    "{% set n = namespace(x='a') %}{% for _ in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    "{{ 'a'.center(10**10) }}",
    "{% if messages|length > 100 %}{{ messages[0].content * 10**10 }}{% endif %}",
    "{% for message in messages if message.content|length > 2000 %}{{ message.content * 10**7 }}{% endfor %}",
    "{% generation %}{{ 'a' | center(10**10) }}{% endgeneration %}",
    {"default": PLAIN, "tools": "{{ '%10000000000d' % 1 }}"},
]

HARMLESS = [
    PLAIN,
    "{{ bos_token }}{% generation %}{{ tools | tojson }}{% endgeneration %}{% break %}",
    "{{ raise_exception('no system message') }}",
    "{% not a template",
    None,
]


def test_a_template_that_takes_too_much_is_refused():
    def why(template: object) -> str:
        words = refusal(lambda: try_templates(template, "'mine'"))
        return "chat template of 'mine' takes more than" if "'mine' takes more than 1024 MB" in words else words

    assert differing(why, [(template, "chat template of 'mine' takes more than") for template in BOMBS]) == []
    for template in HARMLESS:
        try_templates(template, "'mine'")
