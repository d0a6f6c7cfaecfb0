"""Restricts a model to addresses of the public internet: never this machine, its network or its cloud's metadata."""

from __future__ import annotations

import ipaddress
import socket

from agentgym.base.errors import InfrastructureError, ToolError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(ToolError):
    """The model requested a page that is not on the public internet."""


class NoSuchHost(ToolError):
    """The model requested a page of a host that does not exist."""


def public_address(host: str, port: int, *, allow_private: bool = False) -> str:
    """Resolve a host to a checked address. Connect to this address, not to the name, which may resolve differently.

    Raises:
        AddressRefused: At least one of the host's addresses is not public.
        NoSuchHost: The host has no address.
        InfrastructureError: The name servers do not answer.
    """
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
            raise InfrastructureError(f"cannot resolve {host!r:.200}: {error.strerror}") from error
        raise NoSuchHost(f"the host {host!r:.200} does not exist; open a page that a search has returned") from None
    addresses = [str(entry[4][0]).partition("%")[0] for entry in entries]
    if not allow_private and not all(is_public(address) for address in addresses):
        raise AddressRefused(f"{host!r:.200} is not on the public internet; open a page that a search has returned")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address, and any address embedded in it, belongs to the public internet."""
    return all(ip.is_global and not ip.is_multicast for ip in _with_embedded(ipaddress.ip_address(address)))


def _with_embedded(address: _Address) -> list[_Address]:
    """Return an address and the addresses embedded in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *([address.sixtofour] if address.sixtofour else []), *(address.teredo or ())]
