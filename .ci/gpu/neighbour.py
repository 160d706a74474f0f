"""Takes and gives back memory of a GPU at random, as another process there would.

Until it is ended:

python3 neighbour.py [MOST]      MOST: the most GiB that it holds, default 8
"""

from __future__ import annotations

import random
import sys
import time

import torch

UNIT = 1 << 20


def main() -> None:
    """Goes on until it is ended."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    held: list[torch.Tensor] = []
    while True:
        if held and (sum(block.numel() for block in held) > most << 30 or random.random() < 0.5):
            held.pop(random.randrange(len(held)))
            torch.cuda.empty_cache()
        else:
            held.append(
                torch.empty(random.randrange(1, 1024) * UNIT, dtype=torch.uint8, device="cuda")
            )
        time.sleep(random.random() * 0.02)


if __name__ == "__main__":
    main()
