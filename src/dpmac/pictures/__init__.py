"""Pictures: drawings that show nobody, an encoder that saw only drawings, and wavelets. All of it is public."""

from dpmac.nets.feature_maps import FEATURE_MAPS
from dpmac.pictures.drawing import STYLES, Canvas, pictures
from dpmac.pictures.feature_maps import DrawnEncoder, Scattering
from dpmac.pictures.folders import read_folder, read_pictures

FEATURE_MAPS[Scattering.kind] = Scattering
FEATURE_MAPS[DrawnEncoder.kind] = DrawnEncoder

__all__ = ["STYLES", "Canvas", "DrawnEncoder", "Scattering", "pictures", "read_folder", "read_pictures"]
