"""The articles about people."""

from __future__ import annotations

from agentgym.tasks.search.pages.page import section

PERSON = (
    section(
        "lead",
        "",
        (
            "{name} was born on {birth_date} in {birth_place} and became known as {a_occupation}.",
            "Born in {birth_place} on {birth_date}, {name} {is} {a_occupation}.",
            "{name}, born on {birth_date} in {birth_place}, {is} {a_occupation}.",
            "{name} {is} {a_occupation} who was born in {birth_place} on {birth_date}.",
        ),
        (
            "{name} died on {death_date}.",
            "{His} death came on {death_date}.",
            "{He} died on {death_date}.",
        ),
        fillers=(
            "A good deal has been written about {name}.",
            "{He} was never at ease with fame.",
            "Those who met {him} remembered a quiet voice.",
            "Several portraits of {name} survive.",
        ),
    ),
    section(
        "early-life",
        "Early life",
        (
            "{surname}'s parents were {father}, {his} father, and {mother}, {his} mother.",
            "The mother of {name} was {mother}, and {his} father was {father}.",
            "{name} grew up in the house of {his} father {father} and {his} mother {mother}.",
        ),
        (
            "{He} studied at {university}.",
            "For some years {he} studied at {university}.",
            "As a young person {he} studied at {university}.",
        ),
        (
            "{teacher} was {his} teacher.",
            "{His} teacher was {teacher}.",
            "{He} was a pupil of {teacher}, {his} teacher for several years.",
        ),
        fillers=(
            "Little else is known of these years.",
            "Childhood illness kept {him} indoors for long months.",
            "School reports call {him} attentive but slow to speak.",
            "In later life {he} seldom spoke of this time.",
        ),
    ),
    section(
        "career",
        "Career",
        (
            "{surname} was employed by {employer} for some years.",
            "For a time {he} worked for {employer}.",
            "{His} employer in those years was {employer}.",
        ),
        (
            "{He} won {prize} in {prize_year}.",
            "In {prize_year} {he} won {prize}.",
            "{He} was proud of {prize}, which {he} won in {prize_year}.",
        ),
        fillers=(
            "Colleagues thought {him} exacting.",
            "{His} papers from this period are lost.",
            "{He} travelled a good deal on business.",
        ),
    ),
    section(
        "works",
        "Works",
        (
            "Known works by {name}, in alphabetical order: {works}.",
            "The works of {name} that survive are, by title, {works}.",
            "Listed by title, {surname}'s known works are {works}.",
        ),
        fillers=(
            "Each has an article of its own.",
            "Other titles are attributed to {him} without good reason.",
            "Drafts of several more were burned.",
        ),
    ),
    section(
        "family",
        "Personal life",
        (
            "{surname} married {spouse} in {married}.",
            "In {married} {name} and {spouse} were married.",
            "{He} was married to {spouse} from {married} on.",
        ),
        (
            "{His} children were {children}.",
            "The children of this marriage, with articles of their own, were {children}.",
            "{He} and {his} family brought up {children} as their children.",
        ),
        (
            "{His} favourite pastime was {hobby}.",
            "In {his} free time {he} was devoted to {hobby}, a pastime since childhood.",
            "{He} spent {his} leisure hours on {hobby}, a pastime {he} never gave up.",
        ),
        fillers=(
            "Neighbours described the household as noisy.",
            "The family's letters are kept in private hands.",
        ),
    ),
    section(
        "death",
        "Last years and death",
        (
            "{surname} spent {his} last years in {death_place}, where {he} died.",
            "{name} died in {death_place} after a short illness.",
            "Death found {him} at {his} house in {death_place}.",
        ),
        fillers=(
            "The funeral was a small one.",
            "A plaque was put up some years later.",
            "{His} library was sold within the year.",
        ),
    ),
)
