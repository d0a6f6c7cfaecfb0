"""The relations of people and places."""

from __future__ import annotations

from agentgym.tasks.search.relations.relation import FOUNDED, PRIZE, table

_AREA = (
    "area", "the area of {x} in square kilometres", "area square kilometres",
    "How many square kilometres does {x} cover?", "What is the area, in square kilometres, of {x}?",
    "How large is the area of {x}, in square kilometres?",
)  # fmt: skip
_CAPITAL = (
    "capital", "the capital of {x}", "capital",
    "What is the capital of {x}?", "Which settlement is the capital of {x}?", "Name the capital of {x}.",
)  # fmt: skip

PERSON = table(
    (
        "birth_place", "the birthplace of {x}", "born birthplace",
        "Where was {x} born?", "In which settlement was {x} born?", "What is the birthplace of {x}?",
    ),
    (
        "birth_date", "the date of birth of {x}", "born on",
        "When was {x} born?", "On which date was {x} born?", "What is the date of birth of {x}?",
    ),
    (
        "death_date", "the date of death of {x}", "born died",
        "When did {x} die?", "On which date did {x} die?", "What is the date of death of {x}?",
    ),
    (
        "death_place", "the place of death of {x}", "last years and death",
        "Where did {x} die?", "In which settlement did {x} die?", "What was the place of death of {x}?",
    ),
    (
        "occupation", "the occupation of {x}", "born known as",
        "What was the occupation of {x}?", "What did {x} do for a living?", "What was the profession of {x}?",
    ),
    (
        "father", "the father of {x}", "early life father",
        "Who was the father of {x}?", "What was the name of the father of {x}?", "Name the father of {x}.",
    ),
    (
        "mother", "the mother of {x}", "early life mother",
        "Who was the mother of {x}?", "What was the name of the mother of {x}?", "Name the mother of {x}.",
    ),
    (
        "university", "the university at which {x} studied", "early life studied",
        "Where did {x} study?", "At which institution was {x} a student?", "Which university did {x} attend?",
    ),
    (
        "teacher", "the teacher of {x}", "early life teacher",
        "Who was the teacher of {x}?", "Whose pupil was {x}?", "By whom was {x} taught?",
    ),
    (
        "spouse", "the spouse of {x}", "personal life married",
        "Who was married to {x}?", "Who was the spouse of {x}?", "Who did {x} marry?",
    ),
    (
        "married", "the year in which {x} married", "personal life married",
        "In which year did {x} marry?", "When did {x} marry? Give the year.", "In what year was the wedding of {x}?",
    ),
    (
        "hobby", "the favourite pastime of {x}", "personal life pastime",
        "What was the favourite pastime of {x}?", "To which pastime was {x} devoted?",
        "How did {x} like to spend their free time?",
    ),
    (
        "employer", "the employer of {x}", "career employer",
        "Who was the employer of {x}?", "Which company employed {x}?", "By which company was {x} employed?",
    ),
    (*PRIZE[:2], "career won", *PRIZE[3:]),
)  # fmt: skip
COUNTRY = table(
    _CAPITAL, _AREA, FOUNDED,
    (
        "currency", "the currency of {x}", "economy currency",
        "What is the currency of {x}?", "Which currency do people pay with in {x}?", "Name the currency of {x}.",
    ),
    (
        "flower", "the national flower of {x}", "symbols national flower",
        "What is the national flower of {x}?", "Which flower is a symbol of {x}?", "Name the national flower of {x}.",
    ),
    (
        "language", "the language of {x}", "language",
        "Which language is spoken in {x}?", "What is the language of {x}?", "What language do people in {x} speak?",
    ),
)  # fmt: skip
REGION = table(
    (
        "country", "the country of {x}", "region country",
        "In which country does {x} lie?", "Which country is {x} part of?", "To which country does {x} belong?",
    ),
    _CAPITAL, _AREA,
    (
        "population", "the population of {x}", "region capital population",
        "How many inhabitants does {x} have?", "What is the population of {x}?", "How many people live in {x}?",
    ),
    (
        "peak", "the highest mountain of {x}", "geography mountain",
        "What is the highest mountain of {x}?", "Which mountain is the highest in {x}?",
        "Name the highest mountain of {x}.",
    ),
    (
        "industry", "the leading industry of {x}", "economy industry",
        "What is the leading industry of {x}?", "On which industry does {x} depend?",
        "Which industry is the economy of {x} built on?",
    ),
    (
        "joined", "the year in which {x} joined its country", "history joined",
        "In which year did {x} join its country?", "When did {x} become part of its country? Give the year.",
        "What is the year in which {x} became part of its country?",
    ),
)  # fmt: skip
SETTLEMENT = table(
    (
        "region", "the region of {x}", "settlement region",
        "In which region does {x} lie?", "Which region is {x} in?", "To which region does {x} belong?",
    ),
    FOUNDED,
    (
        "population", "the population of {x}", "settlement region population",
        "How many inhabitants does {x} have?", "What is the population of {x}?", "How many people live in {x}?",
    ),
    (
        "elevation", "the elevation of {x} in metres", "geography elevation metres",
        "How many metres above sea level is {x}?", "What is the elevation, in metres, of {x}?",
        "At what elevation, in metres, is {x}?",
    ),
    (
        "river", "the river on which {x} lies", "geography river",
        "On which river does {x} lie?", "Which river flows through {x}?",
        "What is the name of the river that flows through {x}?",
    ),
    (
        "former_name", "the former name of {x}", "history founding",
        "What was {x} formerly called?", "What is the former name of {x}?", "What was {x} called before?",
    ),
    (
        "twin", "the twin town of {x}", "culture twin",
        "With which settlement is {x} twinned?", "What is the twin town of {x}?", "Name the twin town of {x}.",
    ),
    (
        "landmark", "the best-known landmark of {x}", "culture landmark",
        "What is the best-known landmark of {x}?", "Which landmark is {x} known for?",
        "Name the best-known landmark of {x}.",
    ),
    (
        "trade", "the old trade of {x}", "culture and trade",
        "Which trade was {x} long known for?", "What goods did {x} traditionally trade in?",
        "What was the traditional trade of {x}?",
    ),
)  # fmt: skip
