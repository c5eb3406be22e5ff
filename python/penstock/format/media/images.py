"""Image folders: a kind of media folder, with columns image (bytes), label and path."""

from __future__ import annotations

from penstock.format.media.folder import Kind, folder_format

_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF87a", b"GIF89a")


def _matches(head: bytes) -> bool:
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


FORMAT = folder_format(
    Kind(
        format="image_folder",
        column="image",
        suffixes=(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"),
        matches=_matches,
        detects="what its decoder sees; PNG any flipped bit, JPEG often nothing",
    )
)
