# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from typing import Any

def register(*sources: Any, namespace: str, override: bool = False, **options: Any) -> list[str]: ...
