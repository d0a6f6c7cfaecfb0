"""The ordinary words that worlds are built with. No names are listed here: names are invented."""

from __future__ import annotations

PRESENT = 1990
"""The present year of every encyclopedia."""
OCCUPATIONS = {
    "painter": 8, "novelist": 10, "composer": 6, "film director": 9, "botanist": 4, "physicist": 4, "engineer": 6,
    "merchant": 6, "general": 5, "explorer": 4, "politician": 9, "footballer": 3, "historian": 4, "physician": 5,
    "architect": 4, "astronomer": 3, "chemist": 4, "banker": 4, "printer": 3, "teacher": 4,
}  # fmt: skip
"""Occupations with their weights."""
EARLIEST_BIRTH = {"film director": 1872, "footballer": 1868}
HOBBIES = (
    "beekeeping", "chess", "calligraphy", "clock repair", "fencing", "rose growing", "kite building", "lace making",
    "mushroom hunting", "pigeon breeding", "puppet theatre", "rowing", "skating", "stamp collecting", "stargazing",
    "topiary", "wood carving", "falconry", "bell ringing", "glass blowing", "map collecting", "orchid growing",
    "archery", "bookbinding", "cheese making", "cider making", "croquet", "genealogy", "ice sailing", "juggling",
)  # fmt: skip
BEASTS = (
    "Fox", "Lion", "Owl", "Heron", "Badger", "Wolf", "Raven", "Otter", "Stag", "Falcon", "Lynx", "Bear", "Hare", "Swan",
)  # fmt: skip
INDUSTRIES = (
    "shipbuilding", "glassmaking", "printing", "railways", "paper", "brewing", "cutlery", "clockmaking", "textiles",
    "ceramics", "insurance", "mining", "optics", "fertiliser", "chocolate", "bicycles", "furniture", "telegraphy",
)  # fmt: skip
LANDMARKS = (
    "a leaning clock tower", "a covered bridge", "a botanical garden", "a salt market", "an octagonal library",
    "a glass arcade", "a flooded quarry", "a stone lighthouse", "a blue-tiled bath house", "a wooden opera house",
    "a ruined aqueduct", "a seven-arched viaduct", "a hillside observatory", "a walled cemetery", "a copper-domed hall",
    "a floating market", "an underground chapel", "a spiral granary", "a whalebone gate", "a double windmill",
)  # fmt: skip
TRADES = (
    "wool", "timber", "salt fish", "slate", "honey", "linen", "copper ware", "saddles", "cheese", "dried fruit",
    "rope", "candles", "tiles", "vinegar", "barley", "amber", "felt hats", "ink", "pewter", "wine",
)  # fmt: skip
FLOWERS = (
    "gentian",
    "foxglove",
    "marsh orchid",
    "edelweiss",
    "bluebell",
    "cornflower",
    "wild iris",
    "heather",
    "yarrow",
)
SPORTS = ("football", "rowing", "cycling", "handball", "ice hockey", "water polo", "fencing")
COLOURS = (
    "red and black", "green and white", "blue and gold", "maroon and sky blue", "black and white", "orange and navy",
    "purple and silver", "yellow and green", "brown and cream", "scarlet and grey",
)  # fmt: skip
THEMES = ("lanterns", "puppetry", "choral singing", "kites", "bread", "short films", "masks", "river boats", "poetry")
FIELDS = ("literature", "painting", "music", "film", "science", "engineering", "medicine", "exploration")
FIELD_OF = {
    "novelist": "literature", "historian": "literature", "painter": "painting", "composer": "music",
    "film director": "film", "botanist": "science", "physicist": "science", "astronomer": "science",
    "chemist": "science", "engineer": "engineering", "architect": "engineering", "physician": "medicine",
    "explorer": "exploration",
}  # fmt: skip
WORK_OF = {"novelist": "novel", "painter": "painting", "composer": "song", "film director": "film"}
GENRES = {
    "novel": ("historical novel", "crime novel", "comic novel", "epistolary novel", "gothic novel", "satirical novel"),
    "film": ("drama film", "comedy film", "adventure film", "mystery film", "musical film", "war film"),
    "painting": (
        "landscape painting",
        "still life painting",
        "group portrait",
        "seascape painting",
        "history painting",
    ),
    "song": ("ballad", "lullaby", "marching song", "drinking song", "lament", "love song"),
}
TITLES = (
    "The Silence of {w}", "Letters to {w}", "{w} at Dawn", "The Last Winter in {w}", "A House in {w}",
    "The {w} Inheritance", "Goodbye to {w}", "The Road to {w}", "{w} Under Snow", "The Clocks of {w}",
    "Seven Days in {w}", "The Daughters of {w}", "Bells over {w}", "The {w} Affair", "Night Train to {w}",
    "The Gardens of {w}", "Dreaming of {w}", "The Bridge at {w}", "{w} and the Sea", "Harvest in {w}",
    "The Ghost of {w}", "Portrait of {w}", "The Keeper of {w}", "Song for {w}", "Rain on {w}",
)  # fmt: skip
MUSEUM = ("Municipal Gallery", "Museum of Fine Arts", "Old Mint Gallery", "Riverside Museum", "Academy Collection")
