"""Makes data/fashion-mnist from the original files: the first images of every class, in their original order.

    scripts/make_fashion_subset.py FOLDER_OF_THE_ORIGINALS

The same input gives the same images; the compressed bytes may differ between versions of zlib.
"""

import gzip
import struct
import sys
from pathlib import Path

CLASSES = 10
PER_CLASS = {"train": 535, "t10k": 130}
TARGET = Path(__file__).resolve().parent.parent / "data" / "fashion-mnist"


def read(path: Path, dimensions: int) -> tuple[tuple[int, ...], bytes]:
    with gzip.open(path) as file:
        header = struct.unpack(f">{1 + dimensions}I", file.read(4 + 4 * dimensions))
        if header[0] != 0x0800 + dimensions:
            sys.exit(f"{path} is not an IDX file of bytes with {dimensions} dimensions")
        return header[1:], file.read()


def write(path: Path, dimensions: tuple[int, ...], values: bytes) -> None:
    header = struct.pack(f">{1 + len(dimensions)}I", 0x0800 + len(dimensions), *dimensions)
    path.write_bytes(gzip.compress(header + values, compresslevel=9, mtime=0))


def main(source: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for part, per_class in PER_CLASS.items():
        images_name, labels_name = f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
        (_, rows, columns), pixels = read(source / images_name, 3)
        _, labels = read(source / labels_name, 1)
        size, seen, chosen = rows * columns, [0] * CLASSES, []
        for index, label in enumerate(labels):
            if seen[label] < per_class:
                seen[label] += 1
                chosen.append(index)
        images = b"".join(pixels[index * size : (index + 1) * size] for index in chosen)
        write(TARGET / images_name, (len(chosen), rows, columns), images)
        write(TARGET / labels_name, (len(chosen),), bytes(labels[index] for index in chosen))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
