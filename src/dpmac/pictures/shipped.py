"""The encoders that come with the package, each with the SHA-256 of its file."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dpmac.checks import ArgumentError

FOLDER = Path(__file__).parent / "weights"
CHECKSUMS = {
    1: "bb7867c8b83164290cfe4b5af2e68329b5dbace8d69a27fc26fcf390c3e2b411",
    3: "1fb4ce764fc3e752deb84635473250ac7aab3c690b8f1793bcc507c9865b3370",
}
"""By channels (1: grey, 3: colour), as encoder-C.json of the training says. Saved models name an encoder by its
checksum alone: one that was released stays in the package."""


def channels_of(checksum: str) -> int:
    """For pictures with how many channels the encoder of this checksum is; ValueError if none here has it."""
    for channels, known in CHECKSUMS.items():
        if known == checksum:
            return channels
    raise ValueError(f"no encoder of SHA-256 {checksum:.80} comes with this version of dpmac: install the one that had")


def shipped_encoder(channels: int) -> Path:
    """The file of the encoder for pictures with so many channels, once its checksum was compared."""
    if channels not in CHECKSUMS:
        fix = "no encoder for that comes with this version: train one, python -m dpmac.pictures.train --out FOLDER"
        raise ArgumentError("channels", channels, fix)
    path = FOLDER / f"encoder-{channels}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: install the package again")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != CHECKSUMS[channels]:
        raise ValueError(f"{path} is not the file that was released (SHA-256 {found}): install the package again")
    return path
