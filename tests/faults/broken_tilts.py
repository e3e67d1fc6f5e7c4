"""Makes broken files of a tilt series, each with one defect: angles (.tlt, .rawtlt), transforms (.xf), SerialEM's
.mdoc. They go with a stack of IMAGES images. Files with exit code 0 are only odd. An unreadable .mdoc is a wrong
setting and fails the start (exit 1). Angles that do not fit make the stack fail (3).

tilts() returns a dict of name → Text, like broken_texts.texts()."""

from broken_texts import text

IMAGES = 5
ANGLES = ['-40', '-20', '0', '20', '40']
ANGLE = 'stands where an angle in degrees is expected'


def lines(*values):
    return ''.join(f'{value}\n' for value in values)


def last(value):
    """Returns good lines, except for the last."""
    return lines(*ANGLES[:-1], value)


def angles():
    return {
        'empty.tlt': text('', 'tilts', 3, 'there is no angle in it: one a line is expected'),
        'blank.rawtlt': text('\n  \n\t\n', 'tilts', 3, 'there is no angle in it'),
        'few.tlt': text(
            lines(*ANGLES[:-1]), 'tilts', 3, ('holds 4 angles', 'holds 5 images: one angle for each image')
        ),
        'many.rawtlt': text(lines(*ANGLES, 50), 'tilts', 3, ('holds 6 angles', 'holds 5 images')),
        'one_line.tlt': text(' '.join(ANGLES), 'tilts', 3, 'holds 1 angle'),
        'same.tlt': text(
            lines(*['12'] * IMAGES), 'tilts', 3, 'all 5 tilts are at 12.00°: angles that differ are needed', False
        ),
        'nan.tlt': text(last('nan'), 'tilts', 3, "line 5: the value 'nan' is not a finite number: an angle in degrees"),
        'infinite.rawtlt': text(last('-inf'), 'tilts', 3, "line 5: the value '-inf' is not a finite number"),
        'overflow.tlt': text(last('1e999'), 'tilts', 3, "line 5: the value '1e999' is not a finite number"),
        'beyond.tlt': text(last('90.01'), 'tilts', 3, 'line 5: a tilt of 90.01° lies beyond ±90°'),
        'word.tlt': text(last('forty'), 'tilts', 3, f"line 5: 'forty' {ANGLE}"),
        'unit.tlt': text(last('40°'), 'tilts', 3, f"line 5: '40??' {ANGLE}"),
        'hexadecimal.tlt': text(last('0x28'), 'tilts', 3, f"line 5: '0x28' {ANGLE}"),
        'decimal_comma.tlt': text(
            last('39,7'), 'tilts', 3, "line 5: '39,7': a point, not a comma, is expected in a number"
        ),
        'two_signs.tlt': text(last('--40'), 'tilts', 3, f"line 5: '--40' {ANGLE}"),
        'header.tlt': text(lines('# angles', *ANGLES), 'tilts', 3, f"line 1: '#' {ANGLE}"),
        'numbers.tlt': text(last(' '.join(['40'] * 17)), 'tilts', 3, 'line 5: more than 16 numbers'),
        'long_word.tlt': text(last('1' * 100000), 'tilts', 3, f"line 5: '{'1' * 40}' {ANGLE}"),
        'long.tlt': text('0\n' * 10001, 'tilts', 3, 'more than 10000 lines: this is not the file of a tilt series'),
        'zero_byte.tlt': text(last('4\0'), 'tilts', 3, f"line 5: '4?' {ANGLE}"),
        'binary.rawtlt': text(bytes(range(256)), 'tilts', 3, 'line 1: '),
        'picture.tlt': text(b'\x89PNG\r\n\x1a\n' + bytes(100), 'tilts', 3, f"line 1: '?PNG' {ANGLE}"),
        'utf16.tlt': text(lines(*ANGLES).encode('utf-16'), 'tilts', 3, 'line 1: '),
        'is_mdoc.tlt': text(mdoc(), 'tilts', 3, f"line 1: 'PixelSpacing' {ANGLE}"),
        'crlf.tlt': text('\r\n'.join(ANGLES) + '\r\n', 'tilts', 0, '1 done', False),
        'byte_order.tlt': text('\ufeff' + lines(*ANGLES), 'tilts', 0, '1 done', False),
        'more_columns.rawtlt': text(lines(*(f'{angle}, 1.5, 3' for angle in ANGLES)), 'tilts', 0, '1 done', False),
    }


def transform(*values):
    """Returns good lines, except for the last."""
    return lines(*['1 0 0 1 2.5 -1'] * (IMAGES - 1), ' '.join(map(str, values)))


def transforms():
    number = 'stands where a number of a transform is expected'
    return {
        'empty.xf': text('', 'transforms', 3, 'there is no transform in it: six numbers a line are expected'),
        'few.xf': text(lines('1 0 0 1 0 0'), 'transforms', 3, ('holds 1 transform', 'holds 5 images: a line for each')),
        'many.xf': text(transform(1, 0, 0, 1, 0, 0) + '1 0 0 1 0 0\n', 'transforms', 3, 'holds 6 transforms'),
        'five_numbers.xf': text(
            transform(1, 0, 0, 1, 0), 'transforms', 3, 'line 5 holds 5 numbers: six are expected, A11 A12 A21 A22 DX DY'
        ),
        'seven_numbers.xf': text(transform(1, 0, 0, 1, 0, 0, 7), 'transforms', 3, 'line 5 holds 7 numbers'),
        'nan.xf': text(
            transform(1, 0, 0, 'nan', 0, 0), 'transforms', 3, "line 5: the value 'nan' is not a finite number"
        ),
        'infinite.xf': text(
            transform(1, 0, 0, 1, 'inf', 0), 'transforms', 3, "line 5: the value 'inf' is not a finite"
        ),
        'word.xf': text(transform('one', 0, 0, 1, 0, 0), 'transforms', 3, f"line 5: 'one' {number}"),
        'decimal_comma.xf': text(
            transform('0,99', 0, 0, 1, 0, 0), 'transforms', 3, "line 5: '0,99': a point, not a comma"
        ),
        'singular.xf': text(
            transform(1, 1, 1, 1, 0, 0), 'transforms', 3, 'line 5: the matrix 1 1 1 1 changes areas 0-fold'
        ),
        'zeros.xf': text(transform(0, 0, 0, 0, 0, 0), 'transforms', 3, 'line 5: the matrix 0 0 0 0'),
        'hundredfold.xf': text(transform(100, 0, 0, 100, 0, 0), 'transforms', 3, 'line 5: the matrix 100 0 0 100'),
        'far.xf': text(
            transform(1, 0, 0, 1, 2e6, 0), 'transforms', 3, 'line 5: a shift of 2e+06, 0 px leads out of any image'
        ),
        'binary.xf': text(bytes(range(256)), 'transforms', 3, 'line 1: '),
        'is_angles.xf': text(lines(*ANGLES), 'transforms', 3, 'line 1 holds 1 number'),
        'mirrored.xf': text(lines(*['1 0 0 -1 0 0'] * IMAGES), 'transforms', 0, '1 done', False),
    }


def mdoc(changes=None, drop=(), more='', head='PixelSpacing = 10\n'):
    """changes: {image: {key: value}}. A key whose value is None is left out."""
    sections = []
    for z in range(IMAGES):
        keys = {'ZValue': z, 'TiltAngle': ANGLES[z], 'ExposureDose': 3, **(changes or {}).get(z, {})}
        body = ''.join(f'{key} = {value}\n' for key, value in keys.items() if key != 'ZValue' and value is not None)
        if z not in drop:
            sections.append(f'[ZValue = {keys["ZValue"]}]\n{body}\n')
    return head + '\n' + ''.join(sections) + more


def mdocs():
    def angle(value):
        return mdoc({2: {'TiltAngle': value}})

    def section(value):
        return mdoc({2: {'ZValue': value}})

    return {
        'empty.mdoc': text('', 'tilts', 3, 'there is no section for image 1 (ZValue 0) of the 5'),
        'prose.mdoc': text('Dear colleague,\nhere is the file.\n', 'tilts', 1, 'line 1 is no'),
        'half.mdoc': text(mdoc()[:150], 'tilts', 3, 'there is no section for image 4 (ZValue 3)'),
        'section_missing.mdoc': text(mdoc(drop=[2]), 'tilts', 3, 'there is no section for image 3 (ZValue 2) of the 5'),
        'section_more.mdoc': text(
            mdoc(more='[ZValue = 5]\nTiltAngle = 50\n'),
            'tilts',
            3,
            ('has a section for image 6 (ZValue 5)', 'holds 5 images'),
        ),
        'angle_missing.mdoc': text(mdoc({2: {'TiltAngle': None}}), 'tilts', 3, 'section ZValue 2 has no TiltAngle'),
        'angle_empty.mdoc': text(angle(''), 'tilts', 1, "TiltAngle = '' is not a number"),
        'angle_word.mdoc': text(angle('none'), 'tilts', 1, "line 12: TiltAngle = 'none' is not a number"),
        'angle_nan.mdoc': text(angle('nan'), 'tilts', 1, "line 12: TiltAngle = 'nan' is not a number"),
        'angle_beyond.mdoc': text(angle('-91'), 'tilts', 1, 'line 12: a tilt of -91° lies beyond ±90°'),
        'angle_comma.mdoc': text(angle('0,5'), 'tilts', 1, "line 12: TiltAngle = '0,5' is not a number"),
        'angle_hexadecimal.mdoc': text(angle('0x10'), 'tilts', 1, "line 12: TiltAngle = '0x10' is not a number"),
        'section_negative.mdoc': text(section(-1), 'tilts', 1, 'ZValue -1 is not the number of an image: 0 to'),
        'section_fraction.mdoc': text(section(1.5), 'tilts', 1, 'line 11: ZValue 1.5 is not the number of an image'),
        'section_huge.mdoc': text(section('1e30'), 'tilts', 1, 'ZValue 1e+30 is not the number of an image'),
        'section_word.mdoc': text(section('two'), 'tilts', 1, "line 11: ZValue = 'two' is not a number"),
        'same.mdoc': text(
            mdoc({z: {'TiltAngle': 3} for z in range(IMAGES)}), 'tilts', 3, 'all 5 tilts are at 3.00°', False
        ),
        'montage.mdoc': text(mdoc(head='Montage = 1\n'), 'tilts', 3, 'this is the .mdoc of a montage'),
        'zero_byte.mdoc': text(angle('4\0'), 'tilts', 1, 'line 12 holds a zero byte'),
        'binary.mdoc': text(bytes(range(256)), 'tilts', 1, 'holds a zero byte: this is not an .mdoc file'),
        'utf16.mdoc': text(mdoc().encode('utf-16'), 'tilts', 1, 'line 1 holds a zero byte'),
        'is_angles.mdoc': text(lines(*ANGLES), 'tilts', 1, 'line 1 is no'),
        'nothing_named.mdoc': text(
            mdoc(), 'mdoc', 3, 'names no files: neither SubFramePath in its sections nor an ImageFile'
        ),
        'stack_missing.mdoc': text(
            mdoc(head='ImageFile = C:\\data\\other.st\n'), 'mdoc', 3, 'other.st, which is not beside it'
        ),
        'image_missing.mdoc': text(
            mdoc({z: {'SubFramePath': f'D:\\{z}.tif'} for z in range(IMAGES)}),
            'mdoc',
            3,
            ('names 0.tif, which is not in', 'put it there, or name the folder with images'),
        ),
        'path_missing.mdoc': text(
            mdoc({z: {'SubFramePath': 'good.mrc' if z < 2 else None} for z in range(IMAGES)}),
            'mdoc',
            3,
            'section ZValue 2 has no SubFramePath, which others have',
        ),
        'crlf.mdoc': text(mdoc().replace('\n', '\r\n'), 'tilts', 0, '1 done', False),
        'byte_order.mdoc': text('\ufeff' + mdoc(), 'tilts', 0, '1 done', False),
        'note.mdoc': text(mdoc(more='a note that somebody made\n'), 'tilts', 0, '1 done', False),
    }


def tilts():
    return {**angles(), **transforms(), **mdocs()}
