"""Features from one private release: DP-PCA, and autoencoders that start from it."""

from dpmac.features.linear_path import follow_linear_path, linear_autoencoder
from dpmac.features.pca import DPPCA, ReleasedPCA

__all__ = ["DPPCA", "ReleasedPCA", "follow_linear_path", "linear_autoencoder"]
