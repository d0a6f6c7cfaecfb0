"""The articles about universities, companies, clubs and prizes."""

from __future__ import annotations

from agentgym.tasks.search.pages.page import section

UNIVERSITY = (
    section(
        "lead",
        "",
        (
            "{name} is a university in {place}, founded in {founded}.",
            "Founded in {founded}, {name} is a university in {place}.",
        ),
    ),
    section(
        "campus",
        "Campus",
        (
            "{name} has {students} students.",
            "The number of students at {name} is {students}.",
        ),
        ("Its library is the {library}.", "Books are kept in the {library}, its library."),
    ),
    section(
        "rectors",
        "Rectors",
        (
            "The rectors of {name} on record were {rectors}.",
            "The list of the rectors of {name} names {rectors}.",
        ),
        fillers=("Rectors were elected by the professors.",),
    ),
)

COMPANY = (
    section(
        "lead",
        "",
        (
            "{name} is a company in the field of {industry} with headquarters in {place}.",
            "Active in {industry}, the company {name} has its headquarters in {place}.",
        ),
    ),
    section(
        "history",
        "History",
        (
            "{name} was founded in {founded} by {founder}.",
            "Its founder, {founder}, set up {name} in {founded}.",
            "In {founded} {founder} became the founder of {name}.",
        ),
        (
            "It is the successor of {predecessor}.",
            "It took over the business of its predecessor, {predecessor}.",
        ),
        fillers=("The first workshop burned down twice.", "Early account books show steady losses."),
    ),
    section(
        "people",
        "Directors and staff",
        (
            "{name} has {employees} employees.",
            "The number of employees of {name} is {employees}.",
        ),
        (
            "Its directors on record were {directors}.",
            "The list of its directors names {directors}.",
        ),
    ),
)

CLUB = (
    section(
        "lead",
        "",
        (
            "{name} is a {sport} club from {place}.",
            "The {sport} club {name} is at home in {place}.",
        ),
        fillers=("Its supporters are known for their songs.",),
    ),
    section(
        "history",
        "History",
        (
            "{name} was founded in {founded} by {founder}.",
            "The founder of {name} was {founder}, in {founded}.",
        ),
        fillers=("Few of the first members stayed for long.",),
    ),
    section(
        "ground",
        "Ground and colours",
        (
            "The club colours of {name} are {colours}.",
            "{name} plays in {colours}, the club's colours.",
        ),
        ("Its home ground is {ground}.", "Home games take place at {ground}, its ground."),
    ),
)

PRIZE = (
    section(
        "lead",
        "",
        (
            "The {name} is an award for achievements in {field}, first given in {founded}.",
            "First given in {founded}, the {name} honours achievements in {field}.",
        ),
    ),
    section(
        "endowment",
        "Endowment",
        (
            "The {name} comes with a sum of {worth}.",
            "Winners of the {name} receive a sum of {worth}.",
        ),
        ("It was founded by {founder}.", "Its founder was {founder}."),
    ),
    section(
        "winners",
        "Winners",
        (
            "The winners of the {name}, by year: {winners}.",
            "By year, the {name} had these winners: {winners}.",
        ),
        fillers=("In other years no award was made.",),
    ),
)
