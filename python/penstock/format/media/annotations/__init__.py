"""Annotations of a folder of images: where objects are in them, as COCO and Pascal VOC write it.

`opening` finds the files and joins what they say to the images, `coco` and `voc` read them, `outlines` makes pixels of outlines.
"""
