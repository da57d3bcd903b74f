"""The classifier of pictures: public features that saw drawings only, and a private linear layer behind them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.estimators.arguments import estimator
from dpmac.estimators.budget import alone_with_ledger
from dpmac.estimators.classifier import DPMACClassifier
from dpmac.estimators.given import Given
from dpmac.estimators.ids import warn_of_ids
from dpmac.estimators.picture_tables import Columns, PictureTable
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.folding import folded
from dpmac.pictures.arrays import MOST, WHITE, Array, Size, array_of, rows_of
from dpmac.pictures.folders import check_wanted, is_path, read_flat, read_folder, read_pictures
from dpmac.pictures.resizing import SIDES
from dpmac.planning.plan import Plan
from dpmac.priors import PicturePrior, Prior, WhiteningOptions, picture_features, whitened
from dpmac.priors.whitened_pictures import maps_of
from dpmac.training.defaults import Defaults, Schedule
from dpmac.training.pictures import LENGTH, picture_defaults, picture_directions, picture_schedule

FEWEST = 2
AT_ONCE = 1_024  # rows of a batch
PRIORS = ("an encoder of pictures", "the rows whose moments whiten")  # how notes of public features begin


class OfPictures:
    """What is known of pictures after a fit."""

    image_shape_: Size
    table_columns_: Columns | None = None  # where it was fitted on a table: of the paths, and of the labels


@estimator
class DPMACImageClassifier(OfPictures, DPMACClassifier):
    """A differentially private classifier of pictures: of arrays (n, height, width) or (n, height, width, channels).

    Pictures are bytes from 0 to 255 or floating-point numbers from 0 to 1, with 1 channel or 3, all of one size from 4
    pixels a side on; or PNG or JPEG files: in a folder with one folder for each class, or with their paths in a table.
    They pass public feature maps (wavelet scattering, and an encoder that saw only drawings), whitened by drawn
    pictures (:func:`dpmac.priors.picture_features`), once a fit, and a linear layer behind these is trained privately.
    No picture of anybody has shaped the features, and the statement names what has. After ``fit`` the model is
    (epsilon, delta)-differentially private for one picture, there or blank; with ``groups`` for one person with all
    theirs.

    Parameters
    ----------
    features : "both" feature maps, "scattering" or the "encoder" alone.
    directions : how many whitened directions are kept; None keeps 1,000 of few pictures, and up to 4,000 of many or at
        a large epsilon.
    size, channels : what pictures in files are brought to when they are read, by ``fit`` and by ``predict``: (height,
        width), and 1 (grey) or 3 (colour). None takes them as they are: all alike.
    others : those of :class:`DPMACClassifier`, but ``schema``, ``feature_range``, ``additive`` and
        ``monotone``, which pictures have no use for.
        ``feature_map`` takes the place of the public features: rows are then a picture's pixels from 0 to 255, flat,
        as an array (height, width, channels) has them. ``prior="auto"`` whitens it by drawn pictures of that size.
        ``hidden_layer_sizes="auto"`` is a linear model.

    Attributes
    ----------
    image_shape_ (height, width, channels), and those of :class:`DPMACClassifier`. Once trained, the whitening is folded
    into the first layer of ``network_`` where that is smaller: its inputs are then the features themselves.
    """

    features: Literal["both", "scattering", "encoder"] = "both"
    directions: int | None = None
    size: tuple[int, int] | None = None
    channels: int | None = None

    @alone_with_ledger
    def fit(
        self,
        X: Any,
        y: Any = None,
        public_validation: tuple[Any, Any] | None = None,
        groups: Any = None,
        *,
        target: str | None = None,
        images: str | None = None,
        sample_weight: Any = None,  # noqa: ARG002 - alone_with_ledger refuses it
    ) -> DPMACImageClassifier:
        """Train on pictures ``X`` and labels ``y``; a folder has both, ``fit("images/")``.

        ``X`` may be a table (pandas, polars, pyarrow, a mapping of columns; or the path of a CSV or Parquet file) whose
        column ``images`` has paths, relative to the file's folder (of a table in memory to the working directory), and
        whose column ``target`` has labels; ``groups`` may be the name of a column, too. Without ``images`` it is the
        only other column. ``predict`` then takes such tables.
        ``groups`` says whose each picture is; ``public_validation`` is as of :class:`DPMACClassifier`. Everything is
        checked before any privacy is spent.
        """
        self._check_arguments()
        columns, X, y, groups = self._with_labels(X, y, groups, target, images, self.channels)
        pictures, self.image_shape_ = array_of(X)
        super().fit(self._rows(pictures), y, public_validation, groups)
        self.table_columns_ = columns
        self._fold()
        return self

    def _with_labels(
        self, X: Any, y: Any, groups: Any, target: str | None, images: str | None, channels: int | None
    ) -> tuple[Columns | None, Any, Any, Any]:
        """The columns' names, if there are any; pictures, their labels, and whose they are."""
        table, columns = PictureTable.of(X), None
        if table is not None:
            columns, X, y, groups = self._of_table(table, y, groups, target, images, channels)
        elif target is not None or images is not None:
            raise ArgumentError(
                "target, images", (target, images), "these name columns, and X is no table: leave them out"
            )
        elif is_path(X):
            if y is not None:
                raise ArgumentError("y", type(y).__name__, "the folders' names are the labels: leave y out")
            X, y = read_folder(X, self.size, channels)
        if y is None:
            raise ArgumentError("y", None, "give a label for each picture (of a table: target='column')")
        return columns, X, y, groups

    def _to_score(self, X: Any, y: Any, groups: Any) -> tuple[Array, Any, Any]:
        """Flat rows of labelled pictures, given as ``fit`` takes them, for a fitted model."""
        images, target = None, None
        if PictureTable.of(X) is not None:
            images, target = self.table_columns_ or (None, None)
            if y is not None:
                target = None
        _, X, y, groups = self._with_labels(X, y, groups, target, images, self.image_shape_[2])
        return self._rows(self._alike(X)), y, groups

    def _of_table(
        self,
        table: PictureTable,
        y: Any,
        groups: Any,
        target: str | None,
        images: str | None,
        channels: int | None,
    ) -> tuple[Columns, Array, Any, Any]:
        """The columns' names, and pictures, labels and whose they are, from a table."""
        by_name = isinstance(groups, str)
        columns = table.columns(images, target, groups if by_name else None)
        if target is not None:
            if y is not None:
                raise ArgumentError("y", type(y).__name__, f"the labels are in the column {target!r}: leave y out")
            y = table.labels(target)
        if by_name:
            groups = table.cells(groups)
        elif groups is None and math.isfinite(self.epsilon) and self._world.leads:
            warn_of_ids(table.table)
        return columns, read_pictures(table.files(columns[0]), self.size, channels), y, groups

    def _fold(self) -> None:
        """Keep the model without the whitening, which holds a hundred times as many numbers, where that can be."""
        found = folded(self.network_, self.feature_map_)
        if found is not None:
            self.network_, self.feature_map_ = found
            self.run_ = replace(self.run_, model=self.network_, feature_map=self.feature_map_)

    def _check_arguments(self) -> None:
        """Raise for arguments that pictures have no use for, before anything is read."""
        for name in ("schema", "feature_range"):
            if getattr(self, name) is not None:
                raise ArgumentError(name, getattr(self, name), "it is for tables: pictures have none, leave it out")
        if self._is_additive() or self.monotone:
            raise ArgumentError("additive, monotone", (self.additive, self.monotone), "it is for tables: leave it out")
        if self.directions is not None:
            integer("directions", self.directions, "give how many directions to keep, or None", low=FEWEST)
        if self.features not in ("both", "scattering", "encoder"):
            raise ArgumentError("features", self.features, "choose 'both', 'scattering' or 'encoder'")
        check_wanted(self.size, self.channels)

    def _rows(self, pictures: Array) -> Array:
        """Flat rows; pictures for a feature map of the user's own keep their size."""
        if self.feature_map is not None:
            return rows_of(pictures, None)
        return rows_of(pictures)

    def _raw(self, X: Any) -> Tensor:
        check_is_fitted(self, "image_shape_")
        table = PictureTable.of(X)
        if table is not None:
            column, _ = table.columns(*(self.table_columns_ or (None, None)))
            X = read_pictures(table.files(column), self.size, self.image_shape_[2])
        elif is_path(X):
            X = read_flat(X, self.size, self.image_shape_[2])
        return torch.from_numpy(np.require(self._rows(self._alike(X)), requirements=["C", "W"]))

    def _alike(self, X: Any) -> Array:
        """Pictures of the size that the model takes."""
        pictures, shape = array_of(X)
        if shape != self.image_shape_:
            fix = f"the model was fitted on {_sized(self.image_shape_)}: give such"
            raise ArgumentError("X", _sized(shape), fix)
        return pictures

    # --- what a picture passes ----------------------------------------------------------------------------------------

    @property
    def _size(self) -> Size:
        """A row's height, width and channels."""
        height, width, channels = self.image_shape_
        if self.feature_map is not None:
            return height, width, channels
        return min(height, MOST), min(width, MOST), channels

    def _feature_map(self, width: int, bins: int | None = None) -> FeatureMap:
        found = super()._feature_map(width, bins)
        if found is None:
            return maps_of(self.features, *self._size, WHITE)
        return found

    def _map_of(self, given: Given, defaults: Defaults) -> FeatureMap:  # noqa: ARG002
        inner, prior = self._feature_map(given.x.shape[1]), self._prior()
        if prior is None:
            return inner
        directions = self.directions or picture_directions(given.n, self.epsilon, _width(inner, given.x.shape[1]))
        if self.feature_map is None and self.prior == "auto":
            return self._agreed(picture_features(*self._size, self.features, white=WHITE, directions=directions))
        options = WhiteningOptions(power=0.5, length=LENGTH, directions=directions)
        return self._agreed(whitened(inner, prior, options))

    def _prior(self) -> Prior | None:
        """ "auto" draws pictures."""
        if self.prior == "auto":
            return PicturePrior(*self._drawn_size())
        return super()._prior()

    def _drawn_size(self) -> Size:
        height, width, channels = self._size
        if self.feature_map is not None:
            return height, width, channels
        side = SIDES[channels]
        return side, side, channels

    # --- what is said of it -------------------------------------------------------------------------------------------

    def takes(self) -> str:
        """What a fitted model takes, in words."""
        check_is_fitted(self, "image_shape_")
        return _sized(self.image_shape_)

    def known_beforehand(self) -> tuple[str, ...]:
        """The lines of a fitted model's statement that name what has shaped its features: no private picture has."""
        check_is_fitted(self, "privacy_")
        return tuple(note for note in self.privacy_.notes if note.startswith(PRIORS))

    # --- how it is trained --------------------------------------------------------------------------------------------

    def _schedule(self, n: int) -> Schedule:
        return picture_schedule(n, self.epsilon)

    def _micro_batch(self) -> int | None:
        """Rows of thousands of inputs are quicker in blocks that a processor's caches hold."""
        asked = super()._micro_batch()
        if asked is None and self._machine.available_device() == torch.device("cpu"):
            return AT_ONCE
        return asked

    def _defaults(self, own: Plan) -> Defaults:
        return picture_defaults(own, self._hidden())


def _width(feature_map: FeatureMap, pixels: int) -> int:
    """How many features a row of so many pixels has."""
    return math.prod(feature_map.shape_after((pixels,)))


def _sized(shape: Size) -> str:
    height, width, channels = shape
    return f"pictures of {height} x {width} pixels with {channels} channels".replace("1 channels", "1 channel")
