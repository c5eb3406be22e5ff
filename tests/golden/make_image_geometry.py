"""Writes tests/golden/image_geometry.json: what geometry ops make of noise, by which later versions are told: PYTHONPATH=tests python tests/golden/make_image_geometry.py.

Saved runs go on with the same pixels only as long as these stay; the file is written anew only on purpose.
"""

import json
from pathlib import Path

from support.image_hashes import geometry_hashes

Path(__file__).with_name("image_geometry.json").write_text(json.dumps(geometry_hashes(), indent=1) + "\n")
