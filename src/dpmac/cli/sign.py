"""``dpmac key``, ``sign`` and ``verify``: a model's folder that is handed over can be checked against a signature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmac.checks import one_line
from dpmac.cli.ending import Failed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def key(
    file: Annotated[Path, typer.Argument(help="Where the private key goes; FILE.pub is the public one.")],
    passphrase: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase that locks it.")] = False,
) -> None:
    """Make a key to sign with: FILE, which stays with its owner, and FILE.pub, which goes to whoever verifies.

    [bold]Example[/bold]

      dpmac key officer.key
    """
    from dpmac.saving.keys import fingerprint, new_key, public_key

    words = None
    if passphrase:
        words = str(typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)).encode()
    public = new_key(file, words)
    typer.echo(f"private key, for nobody else: {file}")
    typer.echo(f"public key, to hand out:      {public}")
    typer.echo(f"fingerprint: {fingerprint(public_key(public))}")


def sign(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    key: Annotated[Path, typer.Option(help="The private key: see dpmac key.", metavar="FILE")],
    by: Annotated[str, typer.Option(help="Who signs, in words; it is signed too.", metavar="TEXT")],
    force: Annotated[bool, typer.Option("--force", help="Replace a signature that is there.")] = False,
) -> None:
    """Sign a model's folder as it is now: every file in it, reports and scores included, with a key (Ed25519).

    Every file is checked against the manifest first. Sign last: what is added or written anew afterwards (a report,
    scores) is not covered, and [bold]dpmac verify[/bold] then says so and fails.

    Somebody must have answered whether hyper-parameters were searched: in [bold]dpmac train --searched[/bold], or in
    the file that [bold]dpmac statement init[/bold] writes.

    [bold]Example[/bold]

      dpmac sign runs/first --key officer.key --by "A. Mills, privacy officer"
    """
    from dpmac.saving import signing

    signing.check_answered(run)
    done = signing.sign(run, _unlocked(key), by, again=force)
    typer.echo(f"{run / signing.NAME}: {_counted(len(done.files))} signed by {done.by}")
    typer.echo(f"fingerprint of the key: {done.fingerprint}")


def verify(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    by: Annotated[
        Path | None,
        typer.Option("--by", "--key", help="The public key that must have signed it (FILE.pub).", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Check that a model's folder is what was signed: no file changed, added or missing since. Else code 1 says which.

    The signature says that the holder of a key signed these bytes; not that what they state is true. Whose the key is,
    a folder cannot say: give the key that you know with [bold]--by[/bold], or compare the fingerprint.

    [bold]Examples[/bold]

      dpmac verify runs/first --by officer.key.pub

      dpmac verify runs/first
    """
    from dpmac.saving import signing
    from dpmac.saving.keys import public_key

    known = None
    if by is not None:
        known = public_key(by)
    try:
        found = signing.verify(run, known)
    except signing.NotAsSignedError as error:
        if as_json:
            typer.echo(json.dumps({"as_signed": False, "findings": error.findings}))
        raise Failed(str(error)) from None
    if as_json:
        names = sorted(found.files)
        said = {"by": found.by, "date": found.date, "fingerprint": found.fingerprint, "known_key": by is not None}
        typer.echo(json.dumps({"as_signed": True, **said, "files": names}))
        return
    typer.echo(
        f"{run} is as it was signed on {one_line(found.date)}: {_counted(len(found.files))}, "
        "none changed, added or missing"
    )
    typer.echo(f"signed as: {one_line(found.by)}")
    typer.echo(f"fingerprint of the key: {found.fingerprint}")
    if by is None:
        typer.echo(
            "this key came with the folder: anybody could have made it. Give the one that you know with --by, or "
            "compare its fingerprint with one that reached you another way"
        )
    typer.echo("covered: " + ", ".join(map(one_line, sorted(found.files))))


def _unlocked(path: Path) -> Ed25519PrivateKey:
    from dpmac.saving.keys import EncryptedKeyError, private_key, readable_by_others

    try:
        found = private_key(path)
    except EncryptedKeyError:
        found = private_key(path, str(typer.prompt("passphrase", hide_input=True, err=True)).encode())
    if readable_by_others(path):
        typer.echo(f"dpmac: {path} can be read by others on this machine: chmod 600 {path}", err=True)
    return found


def _counted(files: int) -> str:
    if files == 1:
        return "1 file"
    return f"{files} files"
