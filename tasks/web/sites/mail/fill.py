"""The mailbox at the start of an episode of the mail site: its tables, and how a seed fills them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.web.sites.office import (
    WEEKDAYS,
    Contact,
    draw_companies,
    draw_contacts,
    local_part,
    long_date,
    skewed,
)
from agentgym.tasks.web.sites.site import Build
from agentgym.tasks.web.sites.words import CITIES

INBOX, DRAFTS, SENT, ARCHIVE, SPAM, BIN = range(1, 7)
"""Ids of the folders that every mailbox has; user-made folders follow."""
SYSTEM_FOLDERS = ("Inbox", "Drafts", "Sent", "Archive", "Spam", "Bin")
DOMAINS = ("northwind.test", "brightmail.test", "post.test", "kestrel.test")
_TEXTS = read_data("web/sites/mail", "mail")
_THREADS, _NEWSLETTERS, _UNWANTED = 46, 9, 7
_DAYS_BACK = 60
_STRANGERS = 6
"""Number of correspondents who are not in the address book."""


@dataclass
class _Letter:
    """A message before it has an id; `answers` is the letter that it replies to."""

    thread: int
    sender: Contact
    to: list[Contact]
    subject: str
    body: str
    at: datetime.datetime
    folder: int
    files: tuple[str, ...] = ()
    answers: _Letter | None = None
    cc: list[Contact] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)


def fill_mail(build: Build) -> None:
    """Fill an empty mailbox with the messages that its owner has received and sent so far."""
    rng = build.rng
    me, *others = draw_contacts(build.words, rng, 24, DOMAINS)
    folders, labels = rng.sample(_TEXTS["own_folders"], 3), rng.sample(_TEXTS["labels"], 4)
    build.insert("account", name=me.name, address=me.address)
    for name in (*SYSTEM_FOLDERS, *folders):
        build.insert("folders", name=name)
    for name in labels:
        build.insert("labels", name=name)
    letters = _Post(build, me, others).letters(own_folders=range(BIN + 1, BIN + 1 + len(folders)))
    for letter in letters:
        if letter.folder not in (SENT, DRAFTS, SPAM) and rng.random() < 0.25:
            letter.labels = sorted(rng.sample(range(1, len(labels) + 1), rng.choice((1, 1, 1, 2))))
    _write_letters(build, letters, me)
    _fill_contacts(build, others[: len(others) - _STRANGERS])
    build.insert("rules", part="subject", text="unsubscribe", action="move", folder=BIN)
    build.insert(
        "vacation", enabled=0, first_day="", last_day="", subject="Away", body="I am away. Back soon!", contacts_only=0
    )


class _Post:
    """Writes the letters of one mailbox."""

    def __init__(self, build: Build, me: Contact, others: list[Contact]):
        self._rng, self._now, self._me, self._others = build.rng, build.now, me, others
        self._cities = build.words.part(CITIES)
        self._companies = draw_companies(build.words, build.rng, 5)
        self._threads = 0

    def letters(self, own_folders: Iterable[int]) -> list[_Letter]:
        """Write all letters, in the order of their dates."""
        letters: list[_Letter] = []
        for _ in range(_THREADS):
            letters += self._thread(tuple(own_folders))
        for _ in range(_NEWSLETTERS):
            company = self._rng.choice(self._companies)
            folder = self._rng.choices((INBOX, BIN), (4, 1))[0]
            letters.append(self._bulk(_TEXTS["newsletter"], company, "news.test", folder, {"company": company}))
        for number in range(_UNWANTED):
            name = self._rng.choice(("Prize desk", "Security team", "Dr. Money"))
            topic = _TEXTS["unwanted"][number % len(_TEXTS["unwanted"])]
            letters.append(self._bulk(topic, name, "promo.test", SPAM, {}))
        for topic in self._rng.sample(_TEXTS["topics"], 3):
            letter = self._first(topic, self._me, self._rng.choice(self._others), {})
            letter.folder, letter.files = DRAFTS, ()
            letters.append(letter)
        # No two messages have the same date, so that every order is strict.
        letters.sort(key=lambda letter: letter.at)
        for before, after in pairwise(letters):
            after.at = max(after.at, before.at + datetime.timedelta(minutes=1))
        return letters

    def _thread(self, own_folders: tuple[int, ...]) -> list[_Letter]:
        sender = skewed(self._rng, self._others, 1)[0]
        first = self._first(self._rng.choice(_TEXTS["topics"]), sender, self._me, {})
        first.folder = self._rng.choice((*[INBOX] * 12, *[ARCHIVE] * 4, BIN, *own_folders))
        if self._rng.random() < 0.35:
            strangers = [other for other in self._others if other is not sender]
            first.cc = self._rng.sample(strangers, self._rng.choice((1, 1, 2)))
        letters = [first]
        for turn in range(self._rng.choices((0, 1, 2, 3), (6, 2, 2, 1))[0]):
            at = letters[-1].at + datetime.timedelta(minutes=self._rng.randrange(20, 900))
            if at > self._now - datetime.timedelta(hours=1):
                break
            letters.append(self._answer(letters[-1], first, at, mine=turn % 2 == 0))
        return letters

    def _answer(self, last: _Letter, first: _Letter, at: datetime.datetime, mine: bool) -> _Letter:
        writer, reader = (self._me, first.sender) if mine else (first.sender, self._me)
        text = _TEXTS["asking"] if mine else self._rng.choice(_TEXTS[self._rng.choice(("agreeing", "refusing"))])
        folder = SENT if mine else first.folder
        body = _signed(text, writer, reader)
        return _Letter(first.thread, writer, [reader], f"Re: {first.subject}", body, at, folder, answers=last)

    def _bulk(self, topic: Mapping[str, Any], name: str, domain: str, folder: int, slots: dict[str, str]) -> _Letter:
        letter = self._first(topic, Contact(name, f"{local_part(name)}@{domain}", ""), self._me, slots)
        letter.folder = folder
        return letter

    def _first(self, topic: Mapping[str, Any], sender: Contact, reader: Contact, slots: dict[str, str]) -> _Letter:
        self._threads += 1
        slots = self._slots() | slots
        body = _signed(topic["body"].format_map(slots), sender, reader)
        files = tuple(name.format_map(slots) for name in topic.get("files", ()))
        subject = topic["subject"].format_map(slots)
        return _Letter(self._threads, sender, [reader], subject, body, self._moment(), INBOX, files)

    def _moment(self) -> datetime.datetime:
        day = self._now - datetime.timedelta(days=1 + int(_DAYS_BACK * self._rng.random() ** 1.5))
        return day.replace(hour=self._rng.randrange(7, 20), minute=self._rng.randrange(60))

    def _slots(self) -> dict[str, str]:
        rng = self._rng
        project, city = rng.choice(_TEXTS["projects"]), rng.choice(self._cities)
        euros = rng.choice((rng.randrange(20, 100) * 10, rng.randrange(1000, 99_999)))
        return {
            "amount": f"{euros}.{rng.choice(('00', '00', '50', '95'))}",
            "city": city,
            "city_file": local_part(city),
            "code": str(rng.randrange(1000, 10_000)),
            "colleague": rng.choice(self._others).name,
            "date": long_date(self._now.date() + datetime.timedelta(days=rng.randrange(2, 40))),
            "hours": str(rng.randrange(2, 30)),
            "number": f"{self._now.year}-{rng.randrange(1000, 10_000)}",
            "place": rng.choice(_TEXTS["places"]),
            "project": project,
            "project_file": local_part(project).replace(".", "-"),
            "reference": f"{''.join(rng.choices('ABCDEFGHJKLMNPRSTUVWXYZ', k=3))}-{rng.randrange(10_000, 100_000)}",
            "thing": rng.choice(_TEXTS["things"]),
            "time": f"{rng.randrange(8, 18)}:{rng.choice(('00', '15', '30', '45'))}",
            "weekday": rng.choice(WEEKDAYS[:5]),
        }


def _signed(text: str, writer: Contact, reader: Contact) -> str:
    phone = f"\nPhone {writer.phone}" if writer.phone else ""
    return f"Hello {reader.given},\n\n{text}\n\nBest wishes\n{writer.name}{phone}"


def _write_letters(build: Build, letters: list[_Letter], me: Contact) -> None:
    rng = build.rng
    ids: dict[int, int] = {}
    for letter in letters:
        incoming = letter.sender is not me
        ids[id(letter)] = number = build.insert(
            "messages",
            thread=letter.thread,
            folder=letter.folder,
            sender_name=letter.sender.name,
            sender=letter.sender.address,
            recipients=join_addresses(person.address for person in letter.to),
            cc=join_addresses(person.address for person in letter.cc),
            subject=letter.subject,
            body=letter.body,
            sent_at=f"{letter.at:%Y-%m-%d %H:%M}",
            unread=int(incoming and letter.folder in (INBOX, SPAM) and rng.random() < 0.35),
            starred=int(incoming and letter.folder != SPAM and rng.random() < 0.12),
            replies_to=ids[id(letter.answers)] if letter.answers else None,
        )
        for name in letter.files:
            size = rng.choice((rng.randrange(8, 400), rng.randrange(400, 9000)))
            build.insert("attachments", message=number, name=name, kilobytes=size)
        for label in letter.labels:
            build.insert("message_labels", message=number, label=label)


def _fill_contacts(build: Build, people: list[Contact]) -> None:
    rng = build.rng
    companies = draw_companies(build.words, rng, 8)
    for person in sorted(people, key=lambda someone: someone.name):
        build.insert(
            "contacts",
            name=person.name,
            address=person.address,
            phone=person.phone if rng.random() < 0.6 else "",
            company=rng.choice(companies) if rng.random() < 0.7 else "",
            note=rng.choice(("", "", "", 'known as "the boss"', "prefers mail to phone", "met at the trade fair")),
        )


def join_addresses(addresses: Iterable[str]) -> str:
    """Return addresses as the mailbox stores them: in lower case, each once, in alphabetical order."""
    return ", ".join(sorted({address.lower() for address in addresses}))
