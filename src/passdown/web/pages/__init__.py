"""The dashboard: pages of HTML over the operations, and the files they load.

`markup` escapes everything that isn't made by it. Pages only read; what changes something is sent
by their scripts to the API, with the rights of whoever signed in.
"""

from __future__ import annotations
