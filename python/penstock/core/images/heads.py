"""How files of images begin: those that native code reads, and those that libraries do."""

from __future__ import annotations

#: How a TIFF begins; so do the first bytes of many DICOM files, which are free.
_TIFF = (b"II*\0", b"MM\0*")
#: Others that native code reads, and JPEG 2000.
_HEADS = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"BM",
    b"GIF87a",
    b"GIF89a",
    b"\xff\x0a",
    b"\0\0\0\x0cJXL ",
    b"\0\0\0\x0cjP  ",
    b"\xff\x4f\xff\x51",
)
#: What files that are made of boxes say first, those of images.
_BOXED = (b"ftypavif", b"ftypavis", b"ftyphei", b"ftyphev", b"ftypmif1", b"ftypmsf1")


def is_image(head: bytes) -> bool:
    """Whether a file that begins so is one of an image: is_image(b"BM"). DICOM says it behind 128 bytes."""
    riff = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return riff or head.startswith((*_HEADS, *_TIFF)) or head[4:].startswith(_BOXED) or is_dicom(head)


def is_dicom(head: bytes) -> bool:
    """Whether a file is DICOM, and does not begin as another image than TIFF."""
    return head[128:132] == b"DICM" and not head.startswith(_HEADS)
