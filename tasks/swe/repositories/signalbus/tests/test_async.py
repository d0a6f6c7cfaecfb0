import asyncio

import pytest
from signalbus import AsyncBus, HandlerError


def test_plain_and_async_handlers():
    async def main():
        bus = AsyncBus()

        async def later(event):
            await asyncio.sleep(0)
            return event["n"] + 1

        bus.subscribe("x", later)
        bus.subscribe("x", lambda event: event["n"])
        return (await bus.emit("x", n=1)).results

    assert asyncio.run(main()) == [2, 1]


def test_priorities_run_one_after_the_other():
    async def main():
        bus, calls = AsyncBus(), []

        async def slow(event):
            await asyncio.sleep(0.01)
            calls.append("slow")

        bus.subscribe("x", slow, priority=2)
        bus.subscribe("x", lambda event: calls.append("fast"), priority=1)
        await bus.emit("x")
        return calls

    assert asyncio.run(main()) == ["slow", "fast"]


def test_stop_keeps_lower_priorities_out():
    async def main():
        bus, calls = AsyncBus(), []
        bus.subscribe("x", lambda event: event.stop(), priority=1)
        bus.subscribe("x", calls.append)
        await bus.emit("x")
        return calls

    assert asyncio.run(main()) == []


def test_failures_are_collected():
    async def main():
        bus = AsyncBus()

        async def fail(event):
            raise ValueError("no")

        bus.subscribe("x", fail)
        bus.subscribe("x", lambda event: 1 / 0)
        await bus.emit("x")

    with pytest.raises(HandlerError, match="2 handlers failed"):
        asyncio.run(main())


def test_timeout_is_a_failure():
    async def main():
        bus = AsyncBus(timeout=0.01)
        bus.subscribe("x", lambda event: asyncio.sleep(5))
        await bus.emit("x")

    with pytest.raises(HandlerError) as caught:
        asyncio.run(main())
    assert isinstance(caught.value.failures[0][1], TimeoutError)


def test_once_is_over_after_one_event():
    async def main():
        bus, calls = AsyncBus(), []
        bus.once("x", calls.append)
        await bus.emit("x")
        await bus.emit("x")
        return len(calls), len(bus)

    assert asyncio.run(main()) == (1, 0)


def test_wait_for():
    async def main():
        bus = AsyncBus()
        waiting = asyncio.create_task(bus.wait_for("a.*", where=lambda event: event["n"] == 2))
        await asyncio.sleep(0)
        await bus.emit("a.x", n=1)
        await bus.emit("a.y", n=2)
        return (await waiting).topic, len(bus)

    assert asyncio.run(main()) == ("a.y", 0)


def test_wait_for_gives_up():
    async def main():
        bus = AsyncBus()
        with pytest.raises(TimeoutError):
            await bus.wait_for("a", timeout=0.01)
        return len(bus)

    assert asyncio.run(main()) == 0
