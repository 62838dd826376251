# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What was probably meant, for messages about names that are not there."""


def did_you_mean(word, words):
    """"; did you mean 'count'?", or "" where nothing is near. Only errors come here, so that an import costs nothing else."""
    import difflib
    same = [one for one in words if one.lower() == str(word).lower()]
    near = same or difflib.get_close_matches(str(word), words, 1)
    return "; did you mean '%s'?" % near[0] if near else ""
