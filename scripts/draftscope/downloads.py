"""One message for every file of the model hub that cannot be fetched: what to set."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from draftscope.errors import UserError

# What git allows in no name of a branch, tag or commit.
_NOT_A_REVISION = re.compile(r"[\s~^:?*\[\\\x00-\x1f\x7f]|\.\.|//|@\{|^[/-]|[/.]$|^$")


def check_address(what: str, repository: object, revision: object) -> None:
    """Check the forms of a repository id and a revision, before the hub is asked.

    Args:
        what: the model or domain, for the message.

    Raises:
        UserError: names the id or revision and the right form.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise UserError(
            f"{what}: {repository!r} is not a repository of the model hub; its form is "
            "owner/name, both of letters, digits, '-', '_' and '.'"
        ) from None
    if not isinstance(revision, str) or _NOT_A_REVISION.search(revision):
        raise UserError(
            f"{what}: {revision!r} is not a revision of {repository}; give a commit (40 "
            "hexadecimal digits, in quotes), a tag or a branch such as 'main'"
        )


@contextlib.contextmanager
def fetching(what: str) -> Iterator[None]:
    """Turn the failures of a download from the hub into one line that says what to do.

    Args:
        what: what is fetched, with repository and revision.

    Raises:
        UserError: no such repository, revision or file; no access; hub unreachable.
    """
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise UserError(f"{what}: access must be granted to you first; set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(f"{what}: the hub has no such repository, or it is private") from error
    except errors.RevisionNotFoundError as error:
        raise UserError(f"{what}: the hub has no such revision") from error
    except errors.RemoteEntryNotFoundError as error:
        raise UserError(f"{what}: the hub has no such file at this revision") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, OSError) as error:
        reason = (str(error).splitlines() or [""])[0][:120]
        raise UserError(
            f"{what}: the model hub cannot be reached and the cache lacks it; set HF_ENDPOINT to "
            "a mirror, or HF_HOME to a filled cache (with HF_HUB_OFFLINE=1), or use a local "
            f"folder ({type(error).__name__}: {reason})"
        ) from error
