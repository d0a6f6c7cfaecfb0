"""The customer service of `orders` with one subtle fault at a time.

Each fault is a realistic mistake of an author and leaves the environment playable: its solution solves every task.
`FAULTS` lists the check of `agentgym check` that must report it, and the words of its message.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from tests.orders import SIZES, OrdersEnv, orders_task


class GoldInError(OrdersEnv):
    """An error that the solution never sees contains the auditor's number."""

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        if record["status"] == "refunded":
            raise ToolError(f"Order {order} was refunded before, see audit {self.task.gold['audit']}.")
        return super().pay_back(order, record)


class PaysTwice(OrdersEnv):
    """Every change of address counts as progress, even one that changes nothing."""

    def redirect(self, order: str, record: dict[str, str], address: str) -> str:
        self.advance()
        return super().redirect(order, record, address)

    def advance(self) -> None:
        self.progress += 0.5


class SetsVariable(OrdersEnv):
    """Passes the order to a helper through environment variables of the process."""

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        os.environ["LAST_REFUND"] = order
        return super().pay_back(order, record)


class Prints(OrdersEnv):
    """A forgotten print in the path of an error."""

    def known(self, order: str) -> dict[str, str]:
        if order not in self.orders:
            print("unknown order", order[:20])  # noqa: T201
        return super().known(order)


TODAY = date.today()


class AskedWhenImported(OrdersEnv):
    """Reports the day of its module's import."""

    def start(self, task: Task) -> str:
        return f"{super().start(task)} Today is {TODAY:%A}."


class NumbersByTime(OrdersEnv):
    """Receipts are numbered by the current second."""

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        return f"{super().pay_back(order, record)} Receipt {int(time.time())}."


class NotesTheTime(OrdersEnv):
    """Notes when a refund was made, and shows it to nobody."""

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        self.refunded_at = time.time()
        return super().pay_back(order, record)


class NumbersByChance(OrdersEnv):
    """Receipts are numbered by a UUID."""

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        return f"{super().pay_back(order, record)} Receipt {uuid.uuid4()}."


class TasksByTime(OrdersEnv):
    """Task ids contain the date."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("orders", _dated_task, SIZES)


class RemembersCustomers(OrdersEnv):
    """Records on the class who has been served, and is curt with returning customers."""

    served: Counter[str] = Counter()

    def redirect(self, order: str, record: dict[str, str], address: str) -> str:
        self.served[order] += 1
        text = super().redirect(order, record, address)
        return text if self.served[order] == 1 else "Again? " + text


_served: list[str] = []


class TiresOut(OrdersEnv):
    """After a hundred cases in one process, it stops reporting what happened."""

    def start(self, task: Task) -> str:
        _served.append(task.id)
        return super().start(task)

    def shown(self, record: dict[str, str]) -> str:
        return super().shown(record) if len(_served) < 100 else "…"


class RarelyAtRandom(OrdersEnv):
    """Occasionally a clerk adds a word, drawn from the module `random`."""

    def shown(self, record: dict[str, str]) -> str:
        text = super().shown(record)
        return f"{text} ({random.choice(['sic', 'sic!'])})" if self.np_random.random() < 0.03 else text


class SeedsNumpy(OrdersEnv):
    """Seeds the global generator when a case is closed."""

    def grade(self) -> dict[str, float]:
        np.random.seed(7)
        return super().grade()


class Slow(OrdersEnv):
    """Waits for a courier whenever an address changes."""

    def redirect(self, order: str, record: dict[str, str], address: str) -> str:
        time.sleep(WAIT_S)
        return super().redirect(order, record, address)


WAIT_S = 0.6


class LeaksSplits(OrdersEnv):
    """The cases of the test split are those of the training split with other numbers."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("orders", _numbered_task, SIZES)


class PaysWhoeverCloses(OrdersEnv):
    """Trusts the customer: a closed case counts as solved."""

    def solved(self) -> bool:
        return self.reason is Reason.ANSWERED


class PaysForTrying(OrdersEnv):
    """Counts attempts, whatever their outcome."""

    def start(self, task: Task) -> str:
        self.called: set[str] = set()
        return super().start(task)

    @tool
    def refund(self, order: str) -> str:
        """Refund an order.

        Args:
            order: The order's number.
        """
        self.called.add("refund")
        return super().refund(order)

    @tool
    def move(self, order: str, address: str) -> str:
        """Send an order to another address.

        Args:
            order: The order's number.
            address: Street and number.
        """
        self.called.add("move")
        return super().move(order, address)

    def solved(self) -> bool:
        return self.reason is Reason.ANSWERED and self.called == {"refund", "move"}


class ForgetsAddresses(OrdersEnv):
    """Grades the refunds, but not where orders go."""

    def solved(self) -> bool:
        expected = {order_id: order["status"] for order_id, order in self.task.gold["after"].items()}
        return self.reason is Reason.ANSWERED and expected == {
            order_id: order["status"] for order_id, order in self.orders.items()
        }


class ChangesItsTask(OrdersEnv):
    """Modifies the task's own data."""

    def start(self, task: Task) -> str:
        opening = super().start(task)
        self.orders = task.data["orders"]
        return opening


class ListsASet(OrdersEnv):
    """Lists orders in the iteration order of a set."""

    def known(self, order: str) -> dict[str, str]:
        if order not in self.orders:
            raise ToolError(f"There is no such order; there are: {', '.join(set(self.orders))}.")
        return self.orders[order]


class KeepsLastCase(OrdersEnv):
    """Does not clear the previous customer's answers."""

    previous: str = ""

    def shown(self, record: dict[str, str]) -> str:
        before, self.previous = self.previous, super().shown(record)
        return f"{self.previous}{' (not ' + before + ')' if before else ''}"


def _dated_task(split: str, index: int) -> Task:
    task = orders_task(split, index)
    return replace(task, id=f"orders-{date.today():%Y%m%d}/{split}/{index}")


def _numbered_task(split: str, index: int) -> Task:
    task = orders_task(split, index, number=index)
    return replace(
        task, data={**task.data, "case": f"{split}-{index}"}, prompt=f"Case {split[0]}{index}. {task.prompt}"
    )


@dataclass(frozen=True)
class Fault:
    """An environment with a fault, and the check of `agentgym check` that must report it."""

    env: type[OrdersEnv]
    check: str
    says: str
    """Words in the message that name the cause."""


FAULTS = (
    Fault(GoldInError, "gold-hidden-in-play", "part of the gold is shown: ‹"),
    Fault(PaysTwice, "reward-channels", "channel 'progress'"),
    Fault(SetsVariable, "process-untouched", "changed os.environ (LAST_REFUND)"),
    Fault(Prints, "stdout-unused", "‹unknown order"),
    Fault(AskedWhenImported, "clock-unused", "depends on the clock"),
    Fault(NumbersByTime, "clock-unused", "calls time()"),
    Fault(NotesTheTime, "clock-unused", "it reads the clock (order_faults.py:"),
    Fault(NumbersByChance, "deterministic", "calls uuid4()"),
    Fault(TasksByTime, "clock-unused", "the task source"),
    Fault(RemembersCustomers, "history-unused", "RemembersCustomers.served changed"),
    Fault(TiresOut, "history-unused", "_served changed"),
    Fault(RarelyAtRandom, "global-rng-untouched", "drew from or seeded the module 'random'"),
    Fault(SeedsNumpy, "global-rng-untouched", "the module 'numpy.random'"),
    Fault(Slow, "quick", "the tool 'move' takes"),
    Fault(LeaksSplits, "splits-disjoint", "are the same problem but for"),
    Fault(PaysWhoeverCloses, "ending-alone-fails", "close_case() alone, without any of the work, solved 4 of 4"),
    Fault(PaysForTrying, "other-solution-fails", "the solution of another task solved"),
    Fault(ForgetsAddresses, "omissions-fail", "was left out, which changes what find("),
    Fault(ChangesItsTask, "task-untouched", "changed task.data['orders']"),
    Fault(ListsASet, "deterministic-across-processes", "Iterate over sorted"),
    Fault(KeepsLastCase, "reset-clean", "Set all state of an episode in start()"),
)
