"""The articles about countries, regions and settlements."""

from __future__ import annotations

from agentgym.tasks.search.pages.page import section

COUNTRY = (
    section(
        "lead",
        "",
        (
            "{name} is a country whose capital is {capital}.",
            "The country of {name} is governed from its capital, {capital}.",
        ),
        (
            "It covers an area of {area} square kilometres, and its people speak {language}.",
            "{language} is spoken in the country, which has an area of {area} square kilometres.",
        ),
    ),
    section(
        "history",
        "History",
        (
            "{name} was founded as one state in {founded}.",
            "The founding of {name} is dated to the year {founded}.",
        ),
        fillers=("Its early annals are lost.", "Older borders can still be traced in the landscape."),
    ),
    section(
        "economy",
        "Economy and symbols",
        (
            "The currency of {name} is the {currency}; its main export is {export}.",
            "People in {name} pay with the {currency}, its currency, and the country exports {export}.",
        ),
        (
            "The national flower is the {flower}, and the national colours are {colours}.",
            "Its flag shows the national colours, {colours}, and the {flower} is the national flower.",
        ),
    ),
    section(
        "government",
        "Presidents",
        (
            "The presidents of {name} on record were {presidents}.",
            "The list of the presidents of {name} names {presidents}.",
        ),
    ),
)

REGION = (
    section(
        "lead",
        "",
        (
            "{name} is a region of {country}; its capital is {capital}.",
            "The region of {name}, with {capital} as its capital, is a part of {country}.",
            "{name}, a region in {country}, has its capital in {capital}.",
        ),
        (
            "It has {population} inhabitants.",
            "Its population is {population}.",
        ),
        fillers=("Travellers praise its slow trains.", "Two dialects are spoken in the region."),
    ),
    section(
        "geography",
        "Geography",
        (
            "{name} has an area of {area} square kilometres.",
            "The area of the region is {area} square kilometres.",
        ),
        (
            "{peak}, its highest mountain, rises to {peak_height} metres.",
            "The highest mountain is {peak}, at {peak_height} metres.",
        ),
        fillers=("Winters are long in the uplands.", "Fog is common in the valleys until noon."),
    ),
    section(
        "history",
        "History and economy",
        (
            "{name} joined the country in {joined}.",
            "The region became a part of the country in {joined}.",
        ),
        (
            "Its economy rests on {industry}.",
            "The leading industry of the region is {industry}.",
        ),
    ),
    section(
        "settlements",
        "Settlements",
        (
            "The settlements of {name} with articles of their own are {settlements}.",
            "In {name} there are the following settlements: {settlements}.",
        ),
    ),
)

SETTLEMENT = (
    section(
        "lead",
        "",
        (
            "{name} is a settlement in the region of {region} with a population of {population}.",
            "With {population} inhabitants, {name} is one of the settlements of the region of {region}.",
            "The settlement of {name} lies in the region of {region}. Its population is {population}.",
        ),
        fillers=(
            "Visitors usually stay for a single night.",
            "Its station was built on the wrong side of the hill.",
            "The old centre was rebuilt after a fire.",
        ),
    ),
    section(
        "geography",
        "Geography",
        (
            "{name} stands at an elevation of {elevation} metres.",
            "The elevation of the settlement is {elevation} metres above the sea.",
        ),
        (
            "The river {river} flows through it.",
            "It lies on the river {river}.",
            "Its mills once stood along the river {river}.",
        ),
        fillers=("Clay soil makes building difficult.", "The nearest forest is an hour away on foot."),
    ),
    section(
        "history",
        "History",
        (
            "{name} was founded in {founded}.",
            "The founding of {name} is recorded for the year {founded}.",
            "A charter of {founded} marks the founding of {name}.",
        ),
        (
            "It was called {former_name} until {renamed}, when it took its present name.",
            "Until {renamed} the settlement was formerly known as {former_name}.",
            "Its former name, {former_name}, was given up in {renamed}.",
        ),
        fillers=("Floods destroyed the first archive.", "The walls were pulled down for their stone."),
    ),
    section(
        "culture",
        "Culture and trade",
        (
            "{name} was long known for its trade in {trade}, with a market every {market_day}.",
            "Every {market_day} there is a market, and {trade} is the old trade of {name}.",
        ),
        (
            "Its best-known landmark is {landmark}.",
            "Guidebooks name {landmark} as its landmark.",
        ),
        (
            "{name} is twinned with {twin}.",
            "Its twin town is {twin}.",
            "A partnership links it with its twin town, {twin}.",
        ),
    ),
    section(
        "government",
        "Mayors",
        (
            "The mayors of {name} on record were {mayors}.",
            "According to the town rolls, the mayors of {name} were {mayors}.",
            "The list of the mayors of {name} names {mayors}.",
        ),
        fillers=("Earlier rolls were lost in a fire.", "The town hall displays their portraits."),
    ),
)
