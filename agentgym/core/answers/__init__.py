"""When two answers are equal: numbers, texts, dates and cells, by rules with names. Needs only Python."""
