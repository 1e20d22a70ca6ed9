"""Chooses by name what is to be run."""

import re


def plain(text):
    """Letters and digits only, so that SET-P100 stands for `SET P=100`."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def chosen(entries, words, name=lambda entry: entry.name):
    """The entries that comma-separated words choose: each word those that are called so, else those whose name contains it.

    No words choose all. A word that chooses nothing ends the program with the list of names.
    """
    entries = list(entries)
    words = [word.strip() for word in words.split(",") if word.strip()]
    if not words:
        return entries
    picked = set()
    for word in words:
        found = [index for index, entry in enumerate(entries) if plain(name(entry)) == plain(word)]
        found = found or [index for index, entry in enumerate(entries) if plain(word) in plain(name(entry))]
        if not found or not plain(word):
            names = "".join(f"\n  {name(entry)}" for entry in entries)
            raise SystemExit(f"{word!r} matches nothing; the names are:{names}")
        picked.update(found)
    return [entry for index, entry in enumerate(entries) if index in picked]
