"""The articles about battles, elections, expeditions and festivals."""

from __future__ import annotations

from agentgym.tasks.search.pages.page import section

BATTLE = (
    section(
        "lead",
        "",
        (
            "The {name} was fought near {place} on {date}.",
            "On {date} the {name} took place near {place}.",
        ),
        (
            "It ended in a victory of {victor} over {loser}.",
            "{victor} won it, and {loser} was defeated.",
        ),
    ),
    section(
        "course",
        "Commanders",
        (
            "In the {name}, the victorious commander was {commander}, and {opponent} was the defeated commander.",
            "{commander} was the victorious commander in the {name}; the defeated commander was {opponent}.",
        ),
        fillers=("Fog hid the first attack.", "Both sides ran short of powder."),
    ),
    section(
        "aftermath",
        "Aftermath",
        (
            "The {name} cost {casualties} casualties.",
            "The number of casualties in the {name} was {casualties}.",
        ),
        ("It was followed by the {treaty}.", "The {treaty} brought peace in the end."),
    ),
)

ELECTION = (
    section(
        "lead",
        "",
        (
            "The {name} was held in {place} in {year} and won by {winner}.",
            "{winner} won the {name}, held in {place} in {year}.",
        ),
    ),
    section(
        "result",
        "Result",
        (
            "In the {name} a total of {votes} votes were cast.",
            "The number of votes cast in the {name} was {votes}.",
        ),
        ("The runner-up was {runner_up}.", "{runner_up} came second, as runner-up."),
        ("The main issue was {issue}.", "Voters argued most about {issue}, the main issue."),
    ),
)

EXPEDITION = (
    section(
        "lead",
        "",
        (
            "The {name} set out in {year} under the leader {leader}.",
            "{leader} was the leader of the {name}, which set out in {year}.",
        ),
        ("It returned in {ended}.", "The year of its return was {ended}."),
    ),
    section(
        "journey",
        "Journey",
        (
            "The {name} sailed on {ship}, its ship, towards the {goal}.",
            "Its goal, the {goal}, was to be reached by the {name} on a ship called {ship}.",
        ),
        ("It had {members} members.", "The number of its members was {members}."),
        ("Its sponsor was {sponsor}.", "{sponsor} paid for it as its sponsor."),
    ),
)

FESTIVAL = (
    section(
        "lead",
        "",
        (
            "The {name} is a festival of {theme} held in {place} every {month}.",
            "Every {month} the {name}, a festival of {theme}, is held in {place}.",
        ),
    ),
    section(
        "history",
        "History",
        (
            "The {name} was founded in {founded} by {founder}.",
            "The founder of the {name} was {founder}, in {founded}.",
        ),
        fillers=("It was called off only in years of war.",),
    ),
    section(
        "visitors",
        "Visitors",
        (
            "The {name} has {visitors} visitors a year.",
            "The number of visitors of the {name} is {visitors} a year.",
        ),
        ("Its patron is {patron}.", "It is held under {patron}, its patron."),
    ),
)
