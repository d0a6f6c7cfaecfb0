"""The relations of works, organisations and events."""

from __future__ import annotations

from agentgym.tasks.search.relations.relation import FOUNDED, FOUNDER, PRIZE, Relation, table


def _work(verb: str, noun: str, year: str, *more: tuple[str, ...]) -> dict[str, Relation]:
    return table(
        (
            "creator", f"the {noun} of {{x}}", f"{noun} {verb} by",
            f"Who {verb} {{x}}?", f"Who is the {noun} of {{x}}?", f"By whom was {{x}} {_PARTICIPLE[verb]}?",
        ),
        (
            "year", f"the year in which {{x}} was {year}", year,
            f"In which year was {{x}} {year}?", f"When was {{x}} {year}? Give the year.",
            f"What is the year in which {{x}} was {year}?",
        ),
        (
            "setting", "the place in which {x} is set", "content setting",
            "Where is {x} set?", "In which settlement is {x} set?", "What is the setting of {x}?",
        ),
        (
            "dedicated_to", "the person to whom {x} is dedicated", "reception dedicated",
            "To whom is {x} dedicated?", "Who is named in the dedication of {x}?", "Who is {x} dedicated to?",
        ),
        PRIZE, *more,
    )  # fmt: skip


_PARTICIPLE = {"wrote": "written", "directed": "directed", "painted": "painted", "composed": "composed"}
_HERO = (
    "hero", "the main character of {x}", "content main character",
    "Who is the main character of {x}?", "What is the name of the main character of {x}?",
    "Name the main character of {x}.",
)  # fmt: skip
_SEQUEL = (
    "sequel_to", "the work to which {x} is the sequel", "content sequel",
    "To which work is {x} the sequel?", "Which work does {x} continue?", "{x} is the sequel to which work?",
)  # fmt: skip
NOVEL = _work(
    "wrote", "author", "published", _HERO, _SEQUEL,
    (
        "pages", "the number of pages of the first edition of {x}", "publication pages",
        "How many pages does the first edition of {x} have?", "How long is the first edition of {x}, in pages?",
        "What is the number of pages of the first edition of {x}?",
    ),
    (
        "house", "the publisher of {x}", "publication publisher",
        "Who was the publisher of {x}?", "Which company published {x}?", "By which company was {x} published?",
    ),
)  # fmt: skip
FILM = _work(
    "directed", "director", "released", _HERO, _SEQUEL,
    (
        "minutes", "the running time of {x} in minutes", "production minutes",
        "How many minutes does {x} run for?", "What is the running time, in minutes, of {x}?",
        "How long is {x}, in minutes?",
    ),
    (
        "house", "the studio that produced {x}", "production studio",
        "Which studio produced {x}?", "Which studio is behind {x}?", "By which studio was {x} produced?",
    ),
    (
        "based_on", "the work on which {x} is based", "production based on",
        "On which work is {x} based?", "What is {x} based on?", "Which work does {x} take its story from?",
    ),
)  # fmt: skip
PAINTING = _work(
    "painted", "painter", "painted",
    (
        "museum", "the museum that shows {x}", "whereabouts museum",
        "In which museum does {x} hang?", "Which museum shows {x}?", "Where can {x} be seen? Name the museum.",
    ),
    (
        "height", "the height of {x} in centimetres", "whereabouts height",
        "How many centimetres high is {x}?", "What is the height, in centimetres, of {x}?",
        "How tall is the canvas of {x}, in centimetres?",
    ),
)  # fmt: skip
SONG = _work(
    "composed", "composer", "written",
    (
        "performed_in", "the place where {x} was first performed", "performance first performed",
        "Where was {x} first performed?", "In which settlement was {x} first performed?",
        "What was the place of the first performance of {x}?",
    ),
    (
        "verses", "the number of verses of {x}", "performance verses",
        "How many verses does {x} have?", "What is the number of verses of {x}?", "Of how many verses is {x} made up?",
    ),
)  # fmt: skip
_HOME = (
    "place", "the place where {x} is at home", "is in",
    "Where is {x}?", "In which settlement is {x} based?", "In which settlement can {x} be found?",
)  # fmt: skip
UNIVERSITY = table(
    _HOME, FOUNDED,
    (
        "students", "the number of students of {x}", "campus students",
        "How many students does {x} have?", "What is the number of students at {x}?",
        "How many students are there at {x}?",
    ),
    (
        "library", "the library of {x}", "campus library",
        "What is the library of {x} called?", "Which library belongs to {x}?", "Name the library of {x}.",
    ),
)  # fmt: skip
COMPANY = table(
    FOUNDED, FOUNDER,
    (
        "place", "the place where {x} has its headquarters", "headquarters",
        "Where are the headquarters of {x}?", "In which settlement does {x} have its headquarters?",
        "Where is {x} based?",
    ),
    (
        "industry", "the industry in which {x} is active", "company field",
        "In which industry is {x} active?", "What is the line of business of {x}?",
        "Which field of business is {x} in?",
    ),
    (
        "employees", "the number of employees of {x}", "staff employees",
        "How many employees does {x} have?", "What is the number of employees of {x}?",
        "How many people does {x} employ?",
    ),
    (
        "predecessor", "the company that {x} succeeded", "history predecessor",
        "Which company did {x} succeed?", "What was the predecessor of {x}?", "{x} is the successor of which company?",
    ),
)  # fmt: skip
CLUB = table(
    _HOME, FOUNDED, FOUNDER,
    (
        "colours", "the club colours of {x}", "ground and colours",
        "What are the club colours of {x}?", "In which colours does {x} play?", "Which colours does {x} wear?",
    ),
    (
        "ground", "the home ground of {x}", "ground and colours",
        "What is the home ground of {x}?", "Where does {x} play its home games?", "Name the home ground of {x}.",
    ),
)  # fmt: skip
PRIZES = table(
    FOUNDER,
    (
        "field", "the field of {x}", "award achievements",
        "For achievements in which field is {x} given?", "What is the field of {x}?",
        "Which field does {x} honour?",
    ),
    (
        "worth", "the sum that comes with {x}", "endowment sum",
        "How much money comes with {x}?", "How much do winners of {x} receive?",
        "What is {x} worth?",
    ),
)  # fmt: skip
BATTLE = table(
    (
        "date", "the date of {x}", "fought near",
        "When was {x} fought?", "On which date was {x}?", "What is the date of {x}?",
    ),
    (
        "place", "the settlement near which {x} was fought", "fought near",
        "Near which settlement was {x} fought?", "Where did {x} take place?", "Where was {x} fought?",
    ),
    (
        "commander", "the victorious commander in {x}", "commanders",
        "Who was the victorious commander in {x}?", "Who commanded the side that won {x}?",
        "Which commander won {x}?",
    ),
    (
        "opponent", "the defeated commander in {x}", "commanders",
        "Who was the defeated commander in {x}?", "Who commanded the side that lost {x}?",
        "Which commander lost {x}?",
    ),
    (
        "victor", "the country that won {x}", "fought near victory",
        "Which country won {x}?", "Who was the victor of {x}?", "What country was victorious in {x}?",
    ),
    (
        "casualties", "the number of casualties in {x}", "aftermath casualties",
        "How many casualties were there in {x}?", "How many casualties did {x} cost?",
        "What was the number of casualties in {x}?",
    ),
    (
        "treaty", "the treaty that followed {x}", "aftermath treaty",
        "Which treaty followed {x}?", "By which treaty was peace made after {x}?",
        "What is the name of the treaty after {x}?",
    ),
)  # fmt: skip
ELECTION = table(
    (
        "winner", "the winner of {x}", "won held",
        "Who won {x}?", "Who was the winner of {x}?", "By whom was {x} won?",
    ),
    (
        "runner_up", "the runner-up in {x}", "result runner-up",
        "Who was the runner-up in {x}?", "Who came second in {x}?", "Which candidate lost {x} as runner-up?",
    ),
    (
        "votes", "the number of votes cast in {x}", "result votes cast",
        "How many votes were cast in {x}?", "What was the number of votes cast in {x}?",
        "What was the total number of votes in {x}?",
    ),
)  # fmt: skip
EXPEDITION = table(
    (
        "leader", "the leader of {x}", "leader set out",
        "Who led {x}?", "Who was the leader of {x}?", "Under whose command was {x}?",
    ),
    (
        "year", "the year in which {x} set out", "set out year",
        "In which year did {x} set out?", "When did {x} set out? Give the year.",
        "What is the year in which {x} began?",
    ),
    (
        "ship", "the ship of {x}", "journey ship sailed",
        "On which ship did {x} sail?", "What was the ship of {x} called?", "Name the ship of {x}.",
    ),
    (
        "sponsor", "the sponsor of {x}", "journey sponsor",
        "Who was the sponsor of {x}?", "Which company paid for {x}?", "Who paid for {x}?",
    ),
    (
        "members", "the number of members of {x}", "journey members",
        "How many members did {x} have?", "What was the number of members of {x}?",
        "How many people took part in {x}?",
    ),
)  # fmt: skip
FESTIVAL = table(
    FOUNDED, FOUNDER, _HOME,
    (
        "theme", "the theme of {x}", "festival of",
        "What is the theme of {x}?", "What is celebrated at {x}?", "{x} is a festival of what?",
    ),
    (
        "month", "the month of {x}", "festival every",
        "In which month is {x} held?", "Which month does {x} take place in?",
        "At what time of the year is {x} held? Name the month.",
    ),
    (
        "visitors", "the yearly number of visitors of {x}", "visitors",
        "How many visitors does {x} have each year?", "What is the yearly number of visitors to {x}?",
        "How many people visit {x} in a year?",
    ),
)  # fmt: skip
