"""Compute the digests of a bundle's records without Passdown: python check_digest.py BUNDLE."""

import hashlib
import json
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as bundle:
    lines = bundle.read("records.jsonl").splitlines()

for line in lines:
    record = json.loads(line)
    names = ("stream", "position", "at", "author", "kind", "key", "previous", "body")
    parts = [b"passdown/record/1", *(str(record[name]).encode() for name in names)]
    sealed = b"".join(str(len(part)).encode() + b":" + part for part in parts)
    digest = "sha256:" + hashlib.sha256(sealed).hexdigest()
    assert digest == record["digest"], record["stream"]
print(f"{len(lines)} records are what was written")
