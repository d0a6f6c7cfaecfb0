"""Small web sites with separate state for each episode, served over real HTTP.

`SiteServer.shared().open("shop", seed=3)` begins an episode; a browser sends its `token` with every request.
"""

from agentgym.tasks.web.sites.episode import EPISODE_HEADER, SiteEpisode, SiteState, digest_after
from agentgym.tasks.web.sites.server import SiteServer
from agentgym.tasks.web.sites.site import SITE_MODULES, Site, clock_of, find_site

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
