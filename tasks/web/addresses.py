"""Addresses of sites that tasks name by placeholders, such as `__SHOPPING__/cart`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from agentgym.base.errors import UsageError
from agentgym.core.task_files import Unusable, Why

_PLACEHOLDER = re.compile(r"__([A-Z_]+?)__")


class SiteAddresses:
    """Addresses of sites by name.

    Args:
        urls: Addresses such as `http://host:port`, also with a path.
        argument: Name of the argument that passes them, for messages.
    """

    def __init__(self, urls: Mapping[str, str] | None, argument: str):
        self._urls = {name: _checked(name, url) for name, url in (urls or {}).items()}
        self._argument = argument

    def of(self, site: str) -> str:
        """Return the address of a site. Raises `Unusable` if it is not known."""
        if site not in self._urls:
            raise Unusable(
                f"no address for the site {site!r}; pass {self._argument}={{{site!r}: 'http://...'}}",
                Why.UNSUPPORTED,
            )
        return self._urls[site]

    def known(self, sites: Iterable[str]) -> dict[str, str]:
        """Return the addresses of some sites, without those that have none."""
        return {site: self._urls[site] for site in sites if site in self._urls}

    def filled(self, url: str) -> str:
        """Return an address with placeholders replaced. Raises `Unusable` unless the result is a web address."""
        address = _PLACEHOLDER.sub(lambda match: self.of(match[1].lower()), url.strip())
        if not _is_web(address):
            raise Unusable(f"{url[:80]!r} is not a web address")
        return address


def origins(addresses: Iterable[str]) -> list[str]:
    """Return the origins of addresses, each once, sorted."""
    parts = map(urlsplit, addresses)
    return sorted({f"{part.scheme}://{part.netloc}".lower() for part in parts})


def _checked(name: str, url: str) -> str:
    if not _is_web(url):
        raise UsageError(f"the address of site {name!r} must be like http://host:port, not {url!r}")
    return url.rstrip("/")


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
