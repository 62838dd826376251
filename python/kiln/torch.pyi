# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

TYPES: dict[str, Any]

def library(bundle: str | PathLike[str], namespace: str, output: str | PathLike[str], kernels: Iterable[str] | None = None,
            compiler: str | Sequence[str] = ...) -> None: ...
def register(*sources: Any, namespace: str, kernels: Iterable[str] | None = None, **options: Any) -> Any: ...
