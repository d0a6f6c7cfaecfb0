"""A small customer service without faults, and sound variants that come close to a fault."""

from __future__ import annotations

import copy
import random
import time

from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool

_STREETS = ("Hill Street", "Mill Lane", "Lake Road", "Park Row", "Rose Alley")
_ITEMS = ("lamp", "kettle", "globe", "clock", "basket", "mirror")
SIZES = {"train": 80, "test": 40}


def orders_task(split: str, index: int, number: int | None = None) -> Task:
    """Return a task: refund one order and send another to a new address."""
    rng = random.Random(f"orders {split} {index}" if number is None else f"orders {number}")
    ids = [str(number) for number in rng.sample(range(1000, 10_000), 4)]
    orders = {
        order_id: {
            "item": rng.choice(_ITEMS),
            "address": f"{rng.choice(_STREETS)} {rng.randrange(1, 100)}",
            "bought": f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
            "status": "paid",
        }
        for order_id in ids
    }
    refunded, redirected = rng.sample(ids, 2)
    address = f"{rng.choice(_STREETS)} {rng.randrange(100, 1000)}"
    after = copy.deepcopy(orders)
    after[refunded]["status"] = "refunded"
    after[redirected]["address"] = address
    return Task(
        id=f"orders/{split}/{index}",
        split=split,
        prompt=f"Please refund order {refunded}, and send order {redirected} to {address} instead.",
        difficulty=1 + index % 2,
        data={"orders": orders, "request": {"refund": refunded, "move": redirected, "to": address}},
        gold={
            "refund": refunded,
            "move": redirected,
            "to": address,
            "after": after,
            "audit": rng.randrange(10_000, 100_000),
        },
    )


class OrdersEnv(Env):
    """Serve a customer: refund one order, change the address of another. The state of the orders decides."""

    channels = {
        OUTCOME: Channel("1 if the orders are as the customer wants them"),
        "progress": Channel("share of the changes that were made"),
    }
    scheme = Scheme(weights={OUTCOME: 1.0})
    max_turns = 10

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("orders", orders_task, SIZES)

    def start(self, task: Task) -> str:
        self.orders = copy.deepcopy(task.data["orders"])
        self.progress = 0.0
        return f"{task.prompt} Orders: {', '.join(self.orders)}."

    @tool
    def find(self, order: str) -> str:
        """Look an order up.

        Args:
            order: The order's number.
        """
        return self.shown(self.known(order))

    @tool
    def refund(self, order: str) -> str:
        """Refund an order.

        Args:
            order: The order's number.
        """
        return self.pay_back(order, self.known(order))

    @tool
    def move(self, order: str, address: str) -> str:
        """Send an order to another address.

        Args:
            order: The order's number.
            address: Street and number.
        """
        return self.redirect(order, self.known(order), address)

    @tool
    def close_case(self) -> str:
        """Say that all is done. This ends the episode."""
        self.finish(Reason.ANSWERED)
        return "Thank you."

    def known(self, order: str) -> dict[str, str]:
        if order not in self.orders:
            raise ToolError(f"There is no order {order[:20]!r}; there are: {', '.join(self.orders)}.")
        return self.orders[order]

    def shown(self, record: dict[str, str]) -> str:
        return f"{record['item']}, bought on {record['bought']}, {record['status']}, goes to {record['address']}"

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        if record["status"] == "refunded":
            raise ToolError(f"Order {order} was refunded before.")
        record["status"] = "refunded"
        self.advance()
        return f"Order {order} is refunded."

    def redirect(self, order: str, record: dict[str, str], address: str) -> str:
        if record["address"] != address:
            record["address"] = address
            self.advance()
        return f"Order {order} goes to {record['address'][:100]}."

    def advance(self) -> None:
        self.progress = min(1.0, self.progress + 0.5)

    def solved(self) -> bool:
        return self.reason is Reason.ANSWERED and self.orders == self.task.gold["after"]

    def grade(self) -> dict[str, float]:
        return {OUTCOME: float(self.solved()), "progress": self.progress}

    def solution(self, task: Task) -> Solution:
        request = task.data["request"]
        yield ToolCall("find", {"order": request["refund"]})
        yield ToolCall("refund", {"order": request["refund"]})
        yield ToolCall("move", {"order": request["move"], "address": request["to"]})
        yield ToolCall("close_case")


# Sound environments that come close to a fault.


class TalkingOrdersEnv(OrdersEnv):
    """The same service as a conversation: the customer says goodbye once all is done."""

    def respond(self, text: str) -> str:
        if "done" not in text.casefold():
            return "Is it done?"
        self.finish(Reason.ANSWERED)
        return "Goodbye."

    def solution(self, task: Task) -> Solution:
        request = task.data["request"]
        yield ToolCall("refund", {"order": request["refund"]})
        yield ToolCall("move", {"order": request["move"], "address": request["to"]})
        yield "It is done."


class CachingEnv(OrdersEnv):
    """Caches recomputable data on the class, which has no visible effect."""

    seen: dict[str, str] = {}

    def shown(self, record: dict[str, str]) -> str:
        key = repr(sorted(record.items()))
        return self.seen.setdefault(key, super().shown(record))


class CountingEnv(OrdersEnv):
    """Numbers its refunds, draws from its own generator, and has dates in its tasks."""

    def start(self, task: Task) -> str:
        self.refunds = 0
        return f"{super().start(task)} It is {task.data['orders'][min(self.orders)]['bought']}."

    def pay_back(self, order: str, record: dict[str, str]) -> str:
        text = super().pay_back(order, record)
        self.refunds += 1
        return f"{text} Receipt {self.refunds}-{self.np_random.integers(1000)}."


class NotingEnv(OrdersEnv):
    """Has a tool for lookups that the solution does not need, and one that waits briefly."""

    def shown(self, record: dict[str, str]) -> str:
        time.sleep(0.002)
        return super().shown(record)


SOUND = (OrdersEnv, TalkingOrdersEnv, CachingEnv, CountingEnv, NotingEnv)
