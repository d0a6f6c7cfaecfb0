"""The articles about novels, films, paintings and songs."""

from __future__ import annotations

from agentgym.tasks.search.pages.page import Section, section

_RECEPTION = section(
    "reception",
    "Reception",
    (
        "{name} won {prize} in {prize_year}.",
        "In {prize_year} it was awarded {prize}.",
        "In {prize_year} {prize} went to {name}.",
    ),
    (
        "It was dedicated to {dedicated_to}.",
        "The dedication names {dedicated_to}.",
        "{dedicated_to} is the person to whom it was dedicated.",
    ),
    fillers=(
        "Critics were divided at first.",
        "It was mocked in the newspapers.",
        "Schoolchildren took to it at once.",
    ),
)


def _content(*more: tuple[str, ...]) -> Section:
    return section(
        "content",
        "Content",
        (
            "{name} is set in {setting}.",
            "The setting of {name} is {setting}.",
            "{name} has its setting in {setting}.",
        ),
        *more,
        fillers=("Weather plays a large part in it.", "The mood changes abruptly towards the end."),
    )


_HERO = (
    "Its main character is called {hero}.",
    "At its centre stands a character named {hero}, the main character.",
)
_SEQUEL = (
    "It is the sequel to {sequel_to}.",
    "It continues {sequel_to}, to which it is the sequel.",
)

NOVEL = (
    section(
        "lead",
        "",
        (
            "{name} is {a_genre} published in {year}.",
            "{name}, {a_genre}, was published in {year}.",
        ),
        ("Its author is {creator}.", "It was written by {creator}, its author.", "The author is {creator}."),
        ("Its author is {credited}.", "It was written by {credited}, its author.", "The author is {credited}."),
    ),
    section(
        "publication",
        "Publication",
        (
            "The first edition of {name} has {pages} pages.",
            "{name} ran to {pages} pages in its first edition.",
        ),
        ("The publisher was {house}.", "It was brought out by the publisher {house}.", "Its publisher was {house}."),
    ),
    _content(_HERO, _SEQUEL),
    _RECEPTION,
)

FILM = (
    section(
        "lead",
        "",
        (
            "{name} is {a_genre} released in {year}.",
            "{name}, {a_genre}, was released in {year}.",
        ),
        ("It was directed by {creator}.", "Its director is {creator}.", "The director was {creator}."),
    ),
    section(
        "production",
        "Production",
        (
            "{name} runs for {minutes} minutes.",
            "The running time of {name} is {minutes} minutes.",
        ),
        ("It was produced by the studio {house}.", "The studio behind it was {house}.", "Its studio was {house}."),
        ("The film is based on {based_on}.", "Its story is based on {based_on}."),
    ),
    _content(_HERO, _SEQUEL),
    _RECEPTION,
)

PAINTING = (
    section(
        "lead",
        "",
        (
            "{name} is {a_genre} finished in {year}.",
            "{name}, {a_genre}, was painted in {year}.",
        ),
        ("It was painted by {creator}.", "The painter was {creator}.", "Its painter is {creator}."),
    ),
    section(
        "whereabouts",
        "Whereabouts",
        (
            "{name} hangs in the {museum}, its museum for many years.",
            "The museum that shows {name} is the {museum}.",
        ),
        ("The canvas is {height} centimetres high.", "The height of the canvas is {height} centimetres."),
    ),
    _content(),
    _RECEPTION,
)

SONG = (
    section(
        "lead",
        "",
        (
            "{name} is {a_genre} written in {year}.",
            "{name}, {a_genre}, was written in {year}.",
        ),
        ("Its composer is {creator}.", "It was composed by {creator}.", "The composer was {creator}."),
        ("Its composer is {credited}.", "It was composed by {credited}.", "The composer was {credited}."),
    ),
    section(
        "performance",
        "Performance",
        (
            "{name} was first performed in {performed_in}.",
            "The first performance of {name} took place in {performed_in}.",
        ),
        ("It has {verses} verses.", "Its number of verses is {verses}."),
    ),
    _content(),
    _RECEPTION,
)
