"""Train picture encoders on drawings, from a seed: ``python -m dpmac.pictures.train --out FOLDER``.

Nobody's picture is read. For each number of channels it writes encoder-C.safetensors (weights in half precision) and
encoder-C.json (recipe, seed, figures, machine, checksum). With --minutes the number of steps follows from the speed of
the first ones, and stands in the JSON; --steps with that number trains the same encoder again, on a machine of the same
kind. A run that was interrupted goes on from its last checkpoint when the same command is given again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import dpmac
from dpmac.checks import ArgumentError
from dpmac.files import whole_file
from dpmac.pictures.contrastive import Recipe, Training
from dpmac.pictures.encoder import WIDTHS, save_encoder

_TIMED = (40, 160)  # steps between which the speed is measured
_SAVED = 60.0  # seconds between checkpoints
_SAID = 5.0  # seconds between lines


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dpmac.pictures.train", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the encoders; made if it is not there")
    parser.add_argument("--channels", type=int, nargs="+", default=[1, 3], choices=[1, 3], help="1: grey, 3: colour")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="in all, shared by the encoders")
    length.add_argument("--steps", type=int, help=f"of each encoder (default {Recipe.steps:,})")
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    parser.add_argument("--style", default=Recipe.style, help="of the drawings: shapes, textures, strokes or mixed")
    parser.add_argument("--batch", type=int, default=Recipe.batch, help="drawings a step")
    parser.add_argument("--side", type=int, help="of the drawings in pixels (default 28, in colour 32)")
    parser.add_argument("--widths", type=int, nargs=5, default=list(WIDTHS), help="channels of stem and stages")
    parser.add_argument("--compile", action="store_true", help="compile the network by torch.compile, for a long run")
    return parser.parse_args(given)


def recipe_of(given: argparse.Namespace, channels: int) -> Recipe:
    side = given.side or {1: 28, 3: 32}[channels]
    wanted = Recipe(channels, side, given.style, tuple(given.widths), given.seed, batch=given.batch)
    if given.steps is not None:
        wanted = replace(wanted, steps=given.steps)
    return wanted


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments(given)
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    began = time.monotonic()
    for place, channels in enumerate(chosen.channels):
        seconds = None
        if chosen.minutes is not None:
            left = 60.0 * chosen.minutes - (time.monotonic() - began)
            seconds = left / (len(chosen.channels) - place)
        training = Training(recipe_of(chosen, channels), chosen.device, chosen.compile)
        _Run(training, chosen.out, seconds).finish()


class _Run:
    """One encoder, from its checkpoint or from the start."""

    def __init__(self, training: Training, out: Path, seconds: float | None) -> None:
        self.training, self.out, self.seconds = training, out, seconds
        self.name = f"encoder-{self.recipe.channels}"
        self.checkpoint = out / f"{self.name}.checkpoint"
        self.began, self.before, self.curve = time.monotonic(), 0.0, list[list[float]]()
        if self.checkpoint.is_file():
            self._go_on(self.recipe)

    @property
    def recipe(self) -> Recipe:
        return self.training.recipe

    @property
    def spent(self) -> float:
        """Seconds of training, those before an interruption included."""
        return self.before + time.monotonic() - self.began

    @property
    def _late(self) -> bool:
        """Far beyond the time that was given, because the machine has become slower: the end comes early."""
        return self.seconds is not None and self.spent > 1.1 * self.seconds

    def finish(self) -> None:
        """Train to the end and write the files; nothing if they are there."""
        if (self.out / f"{self.name}.json").exists():
            print(f"{self.name}: it is there already", flush=True)
            return
        saved = said = time.monotonic()
        first, sizing = 0.0, self.seconds is not None and self.training.done == 0
        while self.training.done < self.recipe.steps and not self._late:
            loss = self.training.step()
            if sizing and self.training.done == _TIMED[0]:
                first = self._now(loss)
            if sizing and self.training.done == _TIMED[1]:
                self._size((self._now(loss) - first) / (_TIMED[1] - _TIMED[0]))
            if time.monotonic() - said > _SAID or self.training.done == self.recipe.steps:
                said = time.monotonic()
                self._say(float(loss))
            if time.monotonic() - saved > _SAVED:
                saved = time.monotonic()
                self._save()
        self._write()

    def _now(self, loss: torch.Tensor) -> float:
        float(loss)  # waits for the device
        return time.monotonic()

    def _size(self, each: float) -> None:
        """As many steps as fit into the time, rounded down to hundreds."""
        assert self.seconds is not None
        steps = self.training.done + int((0.96 * self.seconds - self.spent) / each)
        steps = max(self.training.done + 1, steps // 100 * 100)
        self.training.recipe = replace(self.recipe, steps=steps)
        print(f"{self.name}: {1000 * each:.1f} ms a step, {steps:,} steps", flush=True)

    def _say(self, loss: float) -> None:
        done, steps = self.training.done, self.recipe.steps
        self.curve.append([done, round(loss, 4), round(self.spent, 1)])
        print(f"{self.name}: step {done:,} of {steps:,}, loss {loss:.4f}, {self.spent:.0f} s", flush=True)

    def _save(self) -> None:
        """A checkpoint, all of it or the one before."""
        kept = {**self.training.state(), "recipe": json.dumps(self.recipe.to_dict()), "spent": self.spent}
        with whole_file(self.checkpoint, "wb") as handle:
            torch.save({**kept, "curve": self.curve}, handle)

    def _go_on(self, recipe: Recipe) -> None:
        kept = torch.load(self.checkpoint, map_location=self.training.device, weights_only=True)
        known = json.loads(kept["recipe"])
        wanted = json.loads(json.dumps(recipe.to_dict()))
        if self.seconds is not None:
            wanted["steps"] = known["steps"]
        if known != wanted:
            fix = f"{self.checkpoint} is of another recipe: give its arguments again, or another folder"
            raise ArgumentError("out", str(self.out), fix)
        self.training.recipe = replace(recipe, steps=int(known["steps"]))
        self.training.restore(kept)
        self.before, self.curve = float(kept["spent"]), kept["curve"]
        print(f"{self.name}: going on from step {self.training.done:,}", flush=True)

    def _write(self) -> None:
        spent, about = self.spent, self._about()
        path = self.out / f"{self.name}.safetensors"
        save_encoder(self.training.learner.encoder, path, about)
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        figures = {
            "held out": self.training.tested(),
            "steps done": self.training.done,
            "seconds": round(spent, 1),
            "curve (step, loss, seconds)": self.curve,
        }
        whole = {**about, **figures, "bytes": path.stat().st_size, "sha256": checksum}
        with whole_file(self.out / f"{self.name}.json", "w") as handle:
            handle.write(json.dumps(whole, indent=1) + "\n")
        self.checkpoint.unlink(missing_ok=True)
        print(f"{self.name}: {figures['held out']}, {spent:.0f} s, {path}", flush=True)

    def _about(self) -> dict[str, Any]:
        device = self.training.device
        machine = "CPU"
        if device.type == "cuda":
            machine = torch.cuda.get_device_name(device)
        made = {"program": "dpmac.pictures.train", "dpmac": dpmac.__version__, "torch": str(torch.__version__)}
        return {**made, "recipe": self.recipe.to_dict(), "device": machine, "trained on": "drawings only"}


if __name__ == "__main__":
    main()
