"""Which addresses a model may reach: those of the public internet, never this machine, its network or its cloud."""

from __future__ import annotations

import ipaddress
import socket

from agentgym.errors import InfrastructureError, ToolError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(ToolError):
    """The model asked for a page that is not on the public internet."""


class NoSuchHost(ToolError):
    """The model asked for a page of a host that does not exist."""


def public_address(host: str, port: int, *, allow_private: bool = False) -> str:
    """Return an address of a host to connect to. Whoever connects to it, not to the name, gets what was checked.

    Raises:
        AddressRefused: One of the host's addresses is not public.
        NoSuchHost: The host has no address.
        InfrastructureError: Nobody can tell, as the name servers are away.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
            raise InfrastructureError(f"no name server answers for {host!r:.200}: {error.strerror}") from error
        raise NoSuchHost(f"there is no host {host!r:.200}; open a page that a search has returned") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if not allow_private and not all(is_public(address) for address in addresses):
        raise AddressRefused(f"{host!r:.200} is not on the public internet; open a page that a search has returned")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, also where one address stands for another."""
    return all(each.is_global and not each.is_multicast for each in _meant(ipaddress.ip_address(address)))


def _meant(address: _Address) -> list[_Address]:
    """Return an address and those that are reached through it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *([address.sixtofour] if address.sixtofour else []), *(address.teredo or ())]
