"""Topics and patterns: words between dots; `*` stands for one word, `#` for any number of words."""

import re

from signalbus.errors import TopicError

_WORD = re.compile(r"[A-Za-z0-9_-]+")


def check_topic(topic, *, pattern=False):
    """Return the words of a topic or pattern. Raises `TopicError`."""
    words = topic.split(".")
    for word in words:
        if pattern and word in ("*", "#"):
            continue
        if not _WORD.fullmatch(word):
            raise TopicError(f"bad word {word!r} in {topic!r}")
    return words


def matches(pattern, topic):
    """Whether a topic fits a pattern."""
    return _match(pattern.split("."), topic.split("."))


def _match(wanted, words):
    if not wanted:
        return not words
    head, *rest = wanted
    if head == "#":
        return any(_match(rest, words[start:]) for start in range(len(words) + 1))
    if not words:
        return False
    if head not in ("*", words[0]):
        return False
    return _match(rest, words[1:])


def specificity(pattern):
    """Return a key by which patterns are sorted: the more exactly one says what it wants, the larger."""
    words = pattern.split(".")
    exact = sum(word not in ("*", "#") for word in words)
    return (exact, words.count("*"), -words.count("#"))
