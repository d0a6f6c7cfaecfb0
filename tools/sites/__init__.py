"""Small web sites with a state of their own per episode, served over real HTTP.

`SiteServer.shared().open("shop", seed=3)` begins an episode; its `token` is what a browser sends along.
"""

from agentgym.tools.sites.episode import EPISODE_HEADER, SiteEpisode, SiteState, digest_after
from agentgym.tools.sites.server import SiteServer
from agentgym.tools.sites.site import SITE_MODULES, Site, clock_of, find_site

__all__ = [
    "EPISODE_HEADER",
    "SITE_MODULES",
    "Site",
    "SiteEpisode",
    "SiteServer",
    "SiteState",
    "clock_of",
    "digest_after",
    "find_site",
]
