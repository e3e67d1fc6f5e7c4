#!/usr/bin/env python3
"""make_broken.py DIR: writes the corpus of broken files (broken_images.py, broken_texts.py, broken_tilts.py) into DIR,
which is emptied first. Also writes DIR/table.tsv: the reader of each file, the status it must give ("-": any), and text
that the message must hold. The bytes are the same each time."""

import shutil
import sys
from pathlib import Path

import broken_images
import broken_texts
import broken_tilts


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    images, texts = broken_images.images(), {**broken_texts.texts(), **broken_tilts.tilts()}
    assert not set(images) & set(texts)
    with open(folder / 'table.tsv', 'w') as table:
        for name, image in images.items():
            broken_images.make(folder, name, image)
            print('image', name, image.reads, image.says, sep='\t', file=table)
        for name, text in texts.items():
            (folder / name).write_bytes(text.content)
            readers = {
                '.star': 'star',
                '.yaml': 'graph',
                '.tlt': 'tilts',
                '.rawtlt': 'tilts',
                '.xf': 'tilts',
                '.mdoc': 'tilts',
            }
            reader = readers.get(Path(name).suffix, 'json')
            print(reader, name, '-', '', sep='\t', file=table)
    print(f'{len(images)} broken images and {len(texts)} broken texts in {folder}')


if __name__ == '__main__':
    main()
