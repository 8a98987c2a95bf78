"""Pictures of the knowledge graph, as text: Mermaid for a page, SVG for an eye.

Both show at most `MOST_NODES` nodes, those with the most edges or the nearest to what was asked
for, and say how many are left out.
"""

from passdown.briefing.pictures.choosing import MOST_EDGES, MOST_NODES
from passdown.briefing.pictures.mermaid import mermaid
from passdown.briefing.pictures.svg import svg

__all__ = ["MOST_EDGES", "MOST_NODES", "mermaid", "svg"]
