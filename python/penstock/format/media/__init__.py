"""Folders of images, audio and video."""
