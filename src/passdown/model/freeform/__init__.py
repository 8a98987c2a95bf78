"""Notes that people and agents wrote freely, read into the parts of a handoff.

Pure: text in, items with their places out. Nothing here asks a model, opens a file or records
anything.
"""

from passdown.model.freeform.asking import prompt_for
from passdown.model.freeform.extracting import SURE, extract
from passdown.model.freeform.handoffs import as_handoff
from passdown.model.freeform.values import Extraction, Found, Header, Span

__all__ = [
    "SURE",
    "Extraction",
    "Found",
    "Header",
    "Span",
    "as_handoff",
    "extract",
    "prompt_for",
]
