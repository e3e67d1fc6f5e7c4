"""Makes broken image files, each with one defect that a facility meets or an attacker would craft.

images() returns a dict of name → Image. `reads` is the status from the reader in C ("OK": it reads). `says` must be
part of its message, besides the file's name. `ends` is how the item ends in a session: "failed" (with the same text, or
the text in `session`), "done", or "unseen" for a name that is not a file. All bytes are made here, from constants and
seeds."""

import struct
import zlib
from typing import NamedTuple, Optional

import numpy as np

SIDE = 96


class Image(NamedTuple):
    content: bytes  # or the result of `special`
    reads: str
    says: str
    ends: str = 'failed'
    session: Optional[str] = None
    special: str = ''


# ---- MRC ----


def noise(nx=SIDE, ny=SIDE, seed=1):
    return (100 + 10 * np.random.default_rng(seed).standard_normal((ny, nx))).astype('<f4')


def mrc(pixels=None, cut=None, words=None, extended=b'', order='<', shape=None, mode=2, cell=None, pad=b''):
    """Returns an MRC file. words: {byte offset: int32 or bytes}, written over the header. cut: the number of bytes that
    are kept."""
    pixels = noise() if pixels is None else pixels
    ny, nx = pixels.shape[-2:]
    nz = pixels.shape[0] if pixels.ndim == 3 else 1
    header = bytearray(1024)
    nx, ny, nz = shape or (nx, ny, nz)
    struct.pack_into(order + '10i', header, 0, nx, ny, nz, mode, 0, 0, 0, nx, ny, nz)
    cell = (2.5 * nx, 2.5 * ny, 2.5 * nz) if cell is None else cell
    struct.pack_into(order + '6f3i', header, 40, *cell, 90, 90, 90, 1, 2, 3)
    struct.pack_into(order + 'ii', header, 88, 0, len(extended))
    header[208:216] = b'MAP ' + (b'\x44\x44\0\0' if order == '<' else b'\x11\x11\0\0')
    for offset, word in (words or {}).items():
        header[offset : offset + 4] = word if isinstance(word, bytes) else struct.pack(order + 'i', word)
    data = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    content = bytes(header) + extended + data + pad
    return content[:cut]


def spoilt(value, part=None):
    pixels = noise()
    pixels[part or slice(None)] = value
    return mrc(pixels)


def mrc_images():
    whole = 1024 + 4 * SIDE * SIDE
    most, least = 2**31 - 1, -(2**31)
    return {
        'empty.mrc': Image(b'', 'TRUNCATED', 'the file is empty'),
        'one_byte.mrc': Image(b'\x40', 'TRUNCATED', 'ends at byte 1, which is too short for an image (MRC, TIFF'),
        'header_cut.mrc': Image(mrc(cut=512), 'TRUNCATED', 'ends at byte 512, which is too short'),
        'header_only.mrc': Image(
            mrc(cut=1024),
            'TRUNCATED',
            f'ends at byte 1024; its header (96 × 96 × 1, mode 2, ' f'extended header of 0 bytes) says {whole}',
        ),
        'data_cut.mrc': Image(mrc(cut=20000), 'TRUNCATED', 'ends at byte 20000; its header'),
        'last_byte_missing.mrc': Image(mrc(cut=whole - 1), 'TRUNCATED', f'ends at byte {whole - 1}'),
        'extended_header_cut.mrc': Image(
            mrc(extended=bytes(4096), cut=3000), 'TRUNCATED', 'extended header of 4096 bytes) says'
        ),
        'extended_header_negative.mrc': Image(
            mrc(words={92: -1}), 'BAD_FORMAT', 'the extended header would have -1 bytes (byte 92)'
        ),
        'extended_header_huge.mrc': Image(mrc(words={92: most}), 'TRUNCATED', f'extended header of {most} bytes'),
        'header_zeros.mrc': Image(bytes(whole), 'TRUNCATED', 'zeros: it is not written yet'),
        'no_columns.mrc': Image(mrc(words={0: 0}), 'BAD_FORMAT', 'gives 0 × 96 × 1 (bytes 0 to 11)'),
        'negative_rows.mrc': Image(mrc(words={4: -96}), 'BAD_FORMAT', 'gives 96 × -96 × 1'),
        'least_slices.mrc': Image(mrc(words={8: least}), 'BAD_FORMAT', '96 × 96 × -2147483648'),
        'most_columns.mrc': Image(mrc(words={0: most}), 'BAD_FORMAT', f'{most} × 96 × 1'),
        'product_overflows.mrc': Image(
            mrc(words={0: 1 << 24, 4: 1 << 24, 8: 1 << 24}), 'BAD_FORMAT', 'no file is that large'
        ),
        'petabyte.mrc': Image(mrc(words={0: 65536, 4: 65536, 8: 65536}), 'TRUNCATED', 'says 1125899906843648'),
        'mode_unknown.mrc': Image(mrc(words={12: 5}), 'BAD_FORMAT', 'mode 5 (byte 12) is not one of MRC: 0, 1, 2, 6'),
        'mode_negative.mrc': Image(mrc(words={12: -1}), 'BAD_FORMAT', 'mode -1 (byte 12)'),
        'complex_integers.mrc': Image(mrc(words={12: 3}), 'UNSUPPORTED', 'mode 3 (complex int16; byte 12)'),
        'complex_floats.mrc': Image(mrc(words={12: 4}), 'UNSUPPORTED', 'mode 4 (complex float32; byte 12)'),
        'colours.mrc': Image(mrc(words={12: 16}), 'UNSUPPORTED', 'mode 16 (RGB bytes; byte 12)'),
        'four_bits.mrc': Image(mrc(words={8: 99, 12: 101}), 'TRUNCATED', 'mode 101'),
        'orders_mixed.mrc': Image(mrc(words={12: struct.pack('>i', 2)}), 'BAD_FORMAT', 'mode 33554432 (byte 12)'),
        'stamp_lies.mrc': Image(mrc(words={212: b'\x11\x11\0\0'}), 'OK', '', 'done'),
        'order_swapped.mrc': Image(mrc(order='>'), 'OK', '', 'done'),
        'longer_than_said.mrc': Image(mrc(pad=b'more' * 100), 'OK', '', 'done'),
        'all_nan.mrc': Image(spoilt(np.nan), 'OK', '', session='none of its pixels is a finite number'),
        'some_nan.mrc': Image(spoilt(np.nan, (slice(20, 24), slice(30, 36))), 'OK', '', 'done'),
        'all_infinite.mrc': Image(spoilt(np.inf), 'OK', '', session='none of its pixels is a finite number'),
        'constant.mrc': Image(spoilt(7), 'OK', '', session='all of its pixels are 7: there is no image in it'),
        'extremes.mrc': Image(
            mrc(np.where(noise() > 100, 3e38, -3e38).astype('<f4')),
            'OK',
            '',
            session='beyond ±1e+15, which no camera counts',
        ),
        'cell_zero.mrc': Image(mrc(cell=(0, 0, 0)), 'OK', '', 'done'),
        'cell_nan.mrc': Image(mrc(cell=(np.nan, np.nan, np.nan)), 'OK', '', 'done'),
        'cell_negative.mrc': Image(mrc(cell=(-240, -240, -240)), 'OK', '', 'done'),
        'cell_differs.mrc': Image(mrc(cell=(960, 960, 10)), 'OK', '', 'done'),
        'several_slices.mrc': Image(
            mrc(np.stack([noise(seed=s) for s in range(3)])),
            'OK',
            '',
            session='holds 3 images; expected one micrograph',
        ),
        'one_pixel.mrc': Image(mrc(noise(1, 1)), 'OK', '', session='a micrograph of 1 × 1 px'),
        'one_row.mrc': Image(mrc(noise(4000, 1)), 'OK', '', session='a micrograph of 4000 × 1 px'),
        'rubbish.mrc': Image(np.random.default_rng(2).bytes(5000), 'BAD_FORMAT', 'its content is none of these'),
        'unmarked_rubbish.mrc': Image(
            mrc(words={0: most, 12: 77, 208: b'????'}), 'BAD_FORMAT', 'an image (MRC, TIFF, PNG or JPEG) is expected'
        ),
        'text.mrc': Image(b'<html><body>502 Bad Gateway</body></html>\n' * 40, 'BAD_FORMAT', 'it holds text'),
        'gzip.mrc': Image(
            b'\x1f\x8b\x08\0' + np.random.default_rng(3).bytes(3000),
            'BAD_FORMAT',
            'it is a gzip-compressed file: unpack it first',
        ),
        'hdf5.mrc': Image(b'\x89HDF\r\n\x1a\n' + bytes([0xC3]) * 3000, 'BAD_FORMAT', 'it is an HDF5 file'),
        'folder.mrc': Image(b'', 'BAD_FORMAT', 'is a folder, a file is expected', 'unseen', special='folder'),
        'pipe.mrc': Image(b'', 'BAD_FORMAT', 'is neither file nor folder', 'unseen', special='fifo'),
        'link_to_pipe.mrc': Image(b'pipe.mrc', 'BAD_FORMAT', 'is neither file nor folder', 'unseen', special='link'),
        'dangling.mrc': Image(b'nothing', 'NOT_FOUND', 'there is no such file', 'unseen', special='link'),
        'link_to_itself.mrc': Image(b'link_to_itself.mrc', 'IO', 'cannot be opened', 'unseen', special='link'),
        'device.mrc': Image(b'/dev/zero', 'BAD_FORMAT', 'is neither file nor folder', 'unseen', special='link'),
    }


# ---- TIFF ----

BYTE, SHORT, LONG, RATIONAL = 1, 3, 4, 5
SUBFILE, WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, OFFSETS, SAMPLES = 254, 256, 257, 258, 259, 262, 273, 277
ROWS, COUNTS, TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_COUNTS, FORMAT, DEPTH = (
    278,
    279,
    322,
    323,
    324,
    325,
    339,
    32997,
)


def tiff(
    tags=None, drop=(), data=None, pages=1, nx=SIDE, ny=SIDE, cut=None, first=None, follows=None, big=False, second=None
):
    """Returns a little-endian TIFF of uint8 pages, one strip each. tags: {tag: (type, count, value)}, which replace the
    right tags; `second` does the same for the second page only. follows: offset of the directory after the last, 0 by
    default. first: offset of the first directory."""
    pixels = np.clip(noise(nx, ny), 0, 255).astype('u1').tobytes() if data is None else data
    head = 16 if big else 8
    entry, word, count = ('<HHQQ', '<Q', '<Q') if big else ('<HHII', '<I', '<H')
    content = bytearray(head)
    directories = []
    for page in range(pages):
        at = len(content)
        content += pixels + bytes(len(pixels) % 2)
        fields = {
            WIDTH: (LONG, 1, nx),
            LENGTH: (LONG, 1, ny),
            BITS: (SHORT, 1, 8),
            COMPRESSION: (SHORT, 1, 1),
            PHOTOMETRIC: (SHORT, 1, 1),
            OFFSETS: (LONG, 1, at),
            SAMPLES: (SHORT, 1, 1),
            ROWS: (LONG, 1, ny),
            COUNTS: (LONG, 1, len(pixels)),
        }
        fields.update(tags or {})
        if page == 1:
            fields.update(second or {})
        fields = {tag: field for tag, field in sorted(fields.items()) if tag not in drop}
        directories.append(len(content))
        content += struct.pack(count, len(fields))
        for tag, (kind, number, value) in fields.items():
            content += struct.pack(entry, tag, kind, number, value)
        content += struct.pack(word, 0)
    for here, after in zip(directories, directories[1:] + [follows(directories) if follows else 0]):
        entries = struct.unpack_from(count, content, here)[0]
        struct.pack_into(word, content, here + struct.calcsize(count) + entries * struct.calcsize(entry), after)
    begin = directories[0] if first is None else first
    content[:head] = struct.pack('<2sHHHQ', b'II', 43, 8, 0, begin) if big else struct.pack('<2sHI', b'II', 42, begin)
    return bytes(content[:cut])


def compressed(method, data):
    return tiff({COMPRESSION: (SHORT, 1, method)}, data=data)


def tiff_images():
    raw = np.clip(noise(), 0, 255).astype('u1').tobytes()
    flat = zlib.compress(raw)
    rubbish = np.random.default_rng(4).bytes(2000)
    size = SIDE * SIDE
    return {
        'tiff_header_cut.tif': Image(b'II*\0', 'TRUNCATED', 'ends at byte 4, inside the TIFF header'),
        'no_directory.tif': Image(tiff(first=0), 'TRUNCATED', 'its first directory is not written yet (bytes 4 to 7'),
        'directory_outside.tif': Image(tiff(first=1 << 30), 'TRUNCATED', 'a directory should lie at byte 1073741824'),
        'directory_ring.tif': Image(tiff(follows=lambda d: d[0]), 'BAD_FORMAT', 'form a ring: directory 1 is followed'),
        'two_in_a_ring.tif': Image(
            tiff(pages=2, follows=lambda d: d[0]), 'BAD_FORMAT', 'directories form a ring: directory 3 is followed'
        ),
        'directory_empty.tif': Image(tiff(drop=range(65536)), 'BAD_FORMAT', 'the directory at byte 9224 is empty'),
        'directory_cut.tif': Image(tiff(cut=8 + size + 40), 'TRUNCATED', 'directory'),
        'no_width.tif': Image(tiff(drop=[WIDTH]), 'BAD_FORMAT', 'gives no width (tag 256)'),
        'no_length.tif': Image(tiff(drop=[LENGTH]), 'BAD_FORMAT', 'gives no length (tag 257)'),
        'no_strips.tif': Image(tiff(drop=[OFFSETS, COUNTS]), 'BAD_FORMAT', 'missing required "StripOffsets" field'),
        'width_zero.tif': Image(tiff({WIDTH: (LONG, 1, 0)}), 'BAD_FORMAT', 'gives no width (tag 256), or one of 0'),
        'width_huge.tif': Image(tiff({WIDTH: (LONG, 1, 0x7FFFFFFF)}), 'BAD_FORMAT', '2147483647 × 96'),
        'length_negative.tif': Image(
            tiff({LENGTH: (LONG, 1, 0xFFFFFFFF)}), 'BAD_FORMAT', 'not a TIFF file that can be read'
        ),
        'strip_outside.tif': Image(tiff({OFFSETS: (LONG, 1, 1 << 24)}), 'TRUNCATED', 'from byte 16777216 on'),
        'strip_at_zero.tif': Image(
            tiff({OFFSETS: (LONG, 1, 0)}), 'TRUNCATED', 'strip or tile 1 of 2 is not written yet'
        ),
        'strip_too_long.tif': Image(
            tiff({COMPRESSION: (SHORT, 1, 5), COUNTS: (LONG, 1, 1 << 24)}), 'TRUNCATED', 'has 16777216 bytes of pixels'
        ),
        'strips_countless.tif': Image(
            tiff({COUNTS: (LONG, 0xFFFFFFFF, 8)}), 'TRUNCATED', "a tag's value should lie at byte 8"
        ),
        'rows_zero.tif': Image(tiff({ROWS: (LONG, 1, 0)}), 'BAD_FORMAT', 'Bad value 0 for "RowsPerStrip" tag'),
        'one_strip_for_many.tif': Image(
            tiff({ROWS: (LONG, 1, 1)}), 'TRUNCATED', 'strip or tile 2 of 96 is not written yet'
        ),
        'pages_cut.tif': Image(
            tiff(pages=2, cut=8 + size + 114 + 500), 'TRUNCATED', 'a directory should lie at byte 18554'
        ),
        'pages_differ.tif': Image(
            tiff(pages=2, second={WIDTH: (LONG, 1, SIDE // 2), LENGTH: (LONG, 1, 2 * SIDE), ROWS: (LONG, 1, 2 * SIDE)}),
            'UNSUPPORTED',
            'pages of one shape are expected',
        ),
        'compression_unknown.tif': Image(compressed(12345, raw), 'UNSUPPORTED', 'cannot read compression 12345'),
        'jpeg2000.tif': Image(compressed(34712, rubbish), 'UNSUPPORTED', 'cannot read compression 34712'),
        'eer_movie.tif': Image(compressed(65001, rubbish), 'UNSUPPORTED', 'an EER movie'),
        'lzw_rubbish.tif': Image(compressed(5, rubbish), 'BAD_FORMAT', 'strip 1 cannot be decoded'),
        'lzw_short.tif': Image(
            compressed(5, b'\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01'), 'BAD_FORMAT', 'strip 1 cannot be decoded'
        ),
        'deflate_rubbish.tif': Image(compressed(8, rubbish), 'BAD_FORMAT', 'strip 1 cannot be decoded'),
        'deflate_cut.tif': Image(compressed(8, flat[: len(flat) // 2]), 'BAD_FORMAT', 'strip 1 cannot be decoded'),
        'deflate_checksum.tif': Image(
            compressed(8, flat[:-4] + b'\0\0\0\0'), 'BAD_FORMAT', 'strip 1 cannot be decoded'
        ),
        'packbits_cut.tif': Image(compressed(32773, b'\x81\x00' * 10), 'BAD_FORMAT', 'strip 1 cannot be decoded'),
        'jpeg_rubbish.tif': Image(compressed(7, rubbish), 'BAD_FORMAT', 'strip 1 cannot be decoded'),
        'bomb.tif': Image(
            tiff(
                {
                    WIDTH: (LONG, 1, 1 << 23),
                    LENGTH: (LONG, 1, 1 << 23),
                    ROWS: (LONG, 1, 1 << 23),
                    COMPRESSION: (SHORT, 1, 8),
                },
                data=flat,
            ),
            'BAD_FORMAT',
            'cannot hold the 8388608 × 8388608',
        ),
        'complex_samples.tif': Image(
            tiff({FORMAT: (SHORT, 1, 6), BITS: (SHORT, 1, 64)}, data=bytes(8 * size)),
            'UNSUPPORTED',
            '(complex numbers)',
        ),
        'bits_absurd.tif': Image(tiff({BITS: (SHORT, 1, 65535)}), 'UNSUPPORTED', 'samples of 65535 bits'),
        'bits_of_float.tif': Image(tiff({FORMAT: (SHORT, 1, 3)}), 'UNSUPPORTED', 'samples of 8 bits in format 3'),
        'more_bits_than_data.tif': Image(
            tiff({BITS: (SHORT, 1, 32)}), 'TRUNCATED', 'ends at byte 9338; directory 1 has'
        ),
        'samples_many.tif': Image(
            tiff({SAMPLES: (SHORT, 1, 60000)}), 'UNSUPPORTED', '60000 samples a pixel are not supported: 1 to 16'
        ),
        'inks.tif': Image(
            tiff({PHOTOMETRIC: (SHORT, 1, 5), SAMPLES: (SHORT, 1, 1)}), 'UNSUPPORTED', 'convert it to grey'
        ),
        'colour_in_one_sample.tif': Image(tiff({PHOTOMETRIC: (SHORT, 1, 2)}), 'UNSUPPORTED', 'with 1 samples a pixel'),
        'preview_only.tif': Image(tiff({SUBFILE: (LONG, 1, 1)}), 'BAD_FORMAT', 'holds previews or masks, but no image'),
        'volume.tif': Image(tiff({DEPTH: (LONG, 1, 5)}), 'UNSUPPORTED', 'holds a volume of depth 5'),
        'tiles_without_size.tif': Image(
            tiff(
                {
                    TILE_WIDTH: (LONG, 1, 0),
                    TILE_LENGTH: (LONG, 1, 0),
                    TILE_OFFSETS: (LONG, 1, 8),
                    TILE_COUNTS: (LONG, 1, size),
                },
                drop=[OFFSETS, COUNTS, ROWS],
            ),
            'BAD_FORMAT',
            'zero number of tiles',
        ),
        'big_header_cut.tif': Image(tiff(big=True, cut=12), 'TRUNCATED', 'ends at byte 12, inside the BigTIFF header'),
        'big_directory_cut.tif': Image(
            tiff(big=True, cut=16 + size + 50), 'TRUNCATED', 'it cuts the directory at byte 9232'
        ),
        'big_directory_outside.tif': Image(tiff(big=True, first=1 << 62), 'TRUNCATED', 'a directory should lie'),
        'big_data_cut.tif': Image(
            tiff({OFFSETS: (LONG, 1, 9000)}, big=True), 'TRUNCATED', 'bytes of pixels from byte 9000 on'
        ),
        'as_mrc.mrc': Image(tiff(), 'OK', '', 'done'),
        'as_tiff.tif': Image(mrc(), 'OK', '', 'done'),
    }


# ---- pictures ----


def png(ny=SIDE, broken=False, cut=None):
    rows = b''.join(b'\0' + np.clip(noise(seed=5)[y], 0, 255).astype('u1').tobytes() for y in range(ny))

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    pixels = bytearray(chunk(b'IDAT', zlib.compress(rows)))
    if broken:
        pixels[40] ^= 0x55
    content = b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', SIDE, SIDE, 8, 0, 0, 0, 0)) + bytes(pixels)
    return (content + chunk(b'IEND', b''))[:cut]


def pictures():
    return {
        'end_missing.png': Image(png(cut=-12), 'TRUNCATED', 'ends at byte 6549'),
        'checksum.png': Image(png(broken=True), 'BAD_FORMAT', 'the PNG cannot be read near byte'),
        'rows_missing.png': Image(png(ny=SIDE // 2), 'BAD_FORMAT', 'Not enough image data'),
        'no_end.jpg': Image(
            b'\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0', 'TRUNCATED', "without a JPEG's end marker"
        ),
    }


def images():
    return {**mrc_images(), **tiff_images(), **pictures()}


def make(folder, name, image):
    """Writes one broken image below a folder (a pathlib.Path)."""
    import os

    path = folder / name
    if image.special == 'folder':
        path.mkdir(exist_ok=True)
    elif image.special == 'fifo':
        os.mkfifo(path)
    elif image.special == 'link':
        path.symlink_to(image.content.decode())
    else:
        path.write_bytes(image.content)
