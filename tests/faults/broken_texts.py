"""Makes broken STAR, YAML and JSON files, each with one defect.

texts() returns a dict of name → Text. `reader` names a command of bad_texts.py, which runs the program that reads the
file. The program must print `says`, and the file's name too if `named` is True."""

import json
from typing import NamedTuple, Union


class Text(NamedTuple):
    content: bytes
    reader: str
    exit: int
    says: Union[str, tuple]
    named: bool = True


def text(content, reader, code, says, named=True):
    return Text(content if isinstance(content, bytes) else content.encode(), reader, code, says, named)


# ---- STAR ----


def star(columns, *rows, table='micrographs', before=''):
    labels = ''.join(f'_{column} #{i + 1}\n' for i, column in enumerate(columns))
    return f'{before}\ndata_{table}\n\nloop_\n{labels}' + ''.join(f'{row}\n' for row in rows) + '\n'


def optics(**values):
    names = {
        'rlnOpticsGroup': 1,
        'rlnOpticsGroupName': 'opticsGroup1',
        'rlnMicrographPixelSize': 2.5,
        'rlnImagePixelSize': 2.5,
        'rlnImageSize': 96,
        'rlnVoltage': 300,
        'rlnSphericalAberration': 2.7,
        'rlnAmplitudeContrast': 0.1,
        **values,
    }
    return star(names, ' '.join(map(str, names.values())), table='optics')


def stars():
    name, groups = ['rlnMicrographName'], ['rlnMicrographName', 'rlnOpticsGroup']
    picks = ['rlnMicrographName', 'rlnMicrographCoordinates']
    particle = ['rlnImageName', 'rlnOpticsGroup', 'rlnMicrographName']
    one = 'good.mrc 1'
    return {
        'empty.star': text('', 'micrographs', 1, 'holds no data block: it is empty'),
        'blank.star': text('\n\n# nothing\n\n', 'micrographs', 1, 'holds no data block'),
        'prose.star': text('Dear colleague,\nhere is the file.\n', 'micrographs', 1, 'line 1: not a STAR file'),
        'binary.star': text(b'data_\n\0\1\2\3', 'micrographs', 1, 'it is not text (byte 6 is 0)'),
        'picture.star': text(b'\x89PNG\r\n\x1a\n' + bytes(100), 'micrographs', 1, 'it is not text (byte 8 is 0)'),
        'utf16.star': text('data_\n\nloop_\n'.encode('utf-16'), 'micrographs', 1, 'it is not text (byte 3 is 0)'),
        'loop_first.star': text(
            'loop_\n_rlnMicrographName #1\ngood.mrc\n', 'micrographs', 1, 'line 1: loop_ before any data block'
        ),
        'label_first.star': text(
            '_rlnMicrographName good.mrc\n', 'micrographs', 1, 'line 1: a label before any data block'
        ),
        'no_labels.star': text(
            'data_micrographs\n\nloop_\ngood.mrc\n', 'micrographs', 1, 'line 4: a value where a label is expected'
        ),
        'ends_at_loop.star': text(
            'data_micrographs\n\nloop_\n', 'micrographs', 1, 'ends after loop_, before its labels'
        ),
        'no_rows.star': text(star(name), 'micrographs', 1, 'data_micrographs has no rows'),
        'no_name_column.star': text(star(['rlnDefocusU'], '1e4'), 'micrographs', 1, 'no table with micrographs'),
        'row_short.star': text(
            star(groups, one, 'good.mrc'), 'micrographs', 1, 'line 8: 1 values where data_micrographs has 2 columns'
        ),
        'row_long.star': text(
            star(groups, one, 'a b c'), 'micrographs', 1, 'line 8: 3 values where data_micrographs has 2 columns'
        ),
        'row_cut.star': text(star(groups, one, 'good').rstrip('\n'), 'micrographs', 1, 'line 8: 1 values'),
        'quote_open.star': text(star(name, '"good.mrc'), 'micrographs', 1, 'line 6: a quote is not closed'),
        'text_open.star': text(
            star(name, ';good.mrc\nmore'), 'micrographs', 1, 'ends inside the text that begins in line 6'
        ),
        'label_twice.star': text(
            star(['rlnMicrographName', 'rlnMicrographName'], 'a b'),
            'micrographs',
            1,
            'line 6: the label is there twice',
        ),
        'label_empty.star': text('data_\n\nloop_\n_\n', 'micrographs', 1, 'line 4: a label without a name'),
        'two_values.star': text(
            'data_\n_rlnMicrographName good mic.mrc\n',
            'micrographs',
            1,
            'line 2: a label is followed by more than one value',
        ),
        'no_value.star': text(
            'data_\n_rlnMicrographName\n', 'micrographs', 1, 'line 2: _rlnMicrographName has no value'
        ),
        'long_line.star': text(star(name, 'x' * 100000), 'micrographs', 1, 'bytes long; at most'),
        'name_upwards.star': text(star(name, 'a/../../etc/passwd'), 'micrographs', 1, "'..' in its path"),
        'name_latin.star': text(
            star(name, 'gr\xf6\xdfe.mrc').encode('latin-1'), 'micrographs', 1, 'is not valid UTF-8'
        ),
        'name_control.star': text(star(name, '"a\x07b.mrc"'), 'micrographs', 1, 'control character (0x07)'),
        'file_missing.star': text(star(name, 'nowhere.mrc'), 'micrographs', 3, "'nowhere.mrc' is neither in", False),
        'folder_as_file.star': text(star(name, '.'), 'micrographs', 1, ("row 1 of data_micrographs", "'.'")),
        'pixel_size_zero.star': text(
            optics(rlnMicrographPixelSize=0) + star(groups, 'no_cell.mrc 1'),
            'micrographs',
            3,
            'no_cell.mrc: the pixel size is not known',
            False,
        ),
        'pixel_size_negative.star': text(
            optics(rlnMicrographPixelSize=-2.5) + star(groups, one),
            'micrographs',
            3,
            'its pixel_size is -2.5 Å/px; 0.01 to 1000 is expected',
            False,
        ),
        'pixel_size_huge.star': text(
            optics(rlnMicrographPixelSize='1e300') + star(groups, one),
            'micrographs',
            3,
            'its pixel_size is 1e+300 Å/px',
            False,
        ),
        'voltage_zero.star': text(
            optics(rlnVoltage=0) + star(groups, one),
            'micrographs',
            3,
            'its voltage is 0 kV; 1 to 5000 is expected',
            False,
        ),
        'contrast_percent.star': text(
            optics(rlnAmplitudeContrast=10) + star(groups, one),
            'micrographs',
            3,
            'its amplitude_contrast is 10; 0 to 1 is expected',
            False,
        ),
        'picks_not_named.star': text(
            star(['rlnMicrographCoordinates'], 'a.star', table=''), 'picks', 1, 'rlnMicrographName'
        ),
        'picks_missing.star': text(
            star(picks, 'good.mrc nowhere.star', table='coordinate_files'),
            'picks',
            3,
            "'nowhere.star' is neither in",
            False,
        ),
        'picks_without_x.star': text(
            star(picks, 'good.mrc without_x.star', table='coordinate_files'),
            'picks',
            3,
            ('without_x.star', 'rlnCoordinateX'),
            False,
        ),
        'picks_words.star': text(
            star(picks, 'good.mrc words.star', table='coordinate_files'),
            'picks',
            3,
            ('words.star', 'row 2', 'rlnCoordinateY', 'twelve'),
            False,
        ),
        'picks_nan.star': text(
            star(picks, 'good.mrc nan.star', table='coordinate_files'), 'picks', 3, ('nan.star', 'row 1'), False
        ),
        'particles_no_stack.star': text(
            optics() + star(particle, '000001@nowhere.mrcs 1 good.mrc', table='particles'),
            'particles',
            3,
            "'nowhere.mrcs' is neither in",
            False,
        ),
        'particles_no_slice.star': text(
            optics() + star(particle, '000009@good.mrc 1 good.mrc', table='particles'),
            'particles',
            3,
            ('good.mrc', '9'),
            False,
        ),
        'particles_slice_zero.star': text(
            optics() + star(particle, '000000@good.mrc 1 good.mrc', table='particles'),
            'particles',
            3,
            '000000@good.mrc',
            False,
        ),
        'particles_slice_huge.star': text(
            optics() + star(particle, '99999999999999999999@good.mrc 1 good.mrc', table='particles'),
            'particles',
            3,
            ('row 1: image', 'was asked for, but'),
            False,
        ),
        'particles_no_rows.star': text(
            optics() + star(particle, table='particles'), 'particles', 1, 'data_particles has no rows'
        ),
        'refined_no_stack.star': text(
            optics() + star(particle, '000001@nowhere.mrcs 1 good.mrc', table='particles'),
            'refined',
            3,
            "'nowhere.mrcs' is neither in",
            False,
        ),
        'refined_no_slice.star': text(
            optics() + star(particle, '000009@good.mrc 1 good.mrc', table='particles'),
            'refined',
            3,
            'row 1: image 9 was asked for, but good.mrc has 1',
        ),
        'refined_no_number.star': text(
            optics() + star(particle, 'good.mrc 1 good.mrc', table='particles'),
            'refined',
            3,
            'row 1: rlnImageName is "good.mrc"; "NNNNNN@stack.mrcs"',
        ),
        'refined_slice_zero.star': text(
            optics() + star(particle, '000000@good.mrc 1 good.mrc', table='particles'),
            'refined',
            3,
            'row 1: rlnImageName is "000000@good.mrc"',
        ),
        'ctf_no_names.star': text(star(['rlnDefocusU'], '1e4'), 'ctf', 1, 'no table has the column rlnMicrographName'),
        'ctf_cut.star': text(star(groups, one, 'good').rstrip('\n'), 'ctf', 1, 'line 8: 1 values'),
        'ctf_again.star': text(
            star(groups, one, 'late').rstrip('\n'),
            'ctf_again',
            1,
            ('1 micrographs wait for watcher.ctf', 'set session.pixel_size'),
            False,
        ),
        'ctf_strange.star': text(
            (
                optics(rlnVoltage='inf', rlnOpticsGroupName='gr\xfcn')
                + star(groups + ['.', 'rln..a', 'a' * 130, '\xe9', 'rlnDefocusU'], f'{one} 1 2 3 4 nan')
            ).encode('latin-1'),
            'ctf',
            0,
            'watcher                     1        1        0        0',
            False,
        ),
        'ctf_voltage.star': text(
            optics(rlnVoltage=0) + star(groups, one),
            'ctf_picked',
            3,
            'its voltage is 0 kV; 1 to 5000 is expected',
            False,
        ),
        'byte_order_mark.star': text(b'\xef\xbb\xbf' + star(groups, one).encode(), 'micrographs', 0, '1 done', False),
        'carriage_returns.star': text(star(groups, one).replace('\n', '\r\n'), 'micrographs', 0, '1 done', False),
        'strange_columns.star': text(
            star(['rlnMicrographName', 'rln.a', 'rln.a.b', '.', 'x' * 3000, '\xe9'], 'good.mrc 1 2 3 4 5').encode(
                'latin-1'
            ),
            'micrographs',
            0,
            '1 done',
            False,
        ),
        'many_columns.star': text(
            star(name + [f'rlnColumn{i:05}' for i in range(20000)], 'good.mrc ' + '1 ' * 20000),
            'micrographs',
            1,
            'data_micrographs has more than 4096 columns',
        ),
        'thousand_columns.star': text(
            star(name + [f'rlnColumn{i:05}' for i in range(4000)], 'good.mrc ' + '1 ' * 4000),
            'micrographs',
            0,
            '1 done',
            False,
        ),
        'not_numbers.star': text(
            star(groups + ['rlnDefocusU', 'rlnDefocusV', 'rlnDefocusAngle'], f'{one} nan inf abc'),
            'micrographs',
            0,
            '1 done',
            False,
        ),
    }


# ---- YAML ----

GRAPH = 'session: {pixel_size: 2.5}\nstages:\n  watcher: {directory: .}\n'


def bomb():
    lines = ['a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]']
    for i in range(1, 12):
        lines.append(f'a{i}: &a{i} [' + ', '.join([f'*a{i - 1}'] * 9) + ']')
    return '\n'.join(lines) + '\n' + GRAPH


def yamls():
    return {
        'empty.yaml': text('', 'check', 2, ':1: error: a graph is a mapping with the keys'),
        'comment.yaml': text('# to be written\n', 'check', 2, ':1: error: a graph is a mapping'),
        'zero.yaml': text(b'session: {pixel_size: 2.5\0}\n', 'check', 2, ':1: error'),
        'control.yaml': text(b'session: {pixel_size: \x07 2.5}\n', 'check', 2, ': error'),
        'latin.yaml': text('stages: {w\xe4chter: {}}\n'.encode('latin-1'), 'check', 2, 'UTF-8'),
        'tab.yaml': text('stages:\n\twatcher: {directory: .}\n', 'check', 2, ':2: error'),
        'open_brace.yaml': text('stages:\n  watcher: {directory: .\n', 'check', 2, ': error'),
        'open_quote.yaml': text('stages:\n  watcher: {directory: "a\n', 'check', 2, ': error'),
        'indent.yaml': text('stages:\n  watcher:\n    directory: .\n   pattern: "*"\n', 'check', 2, ':4: error'),
        'anchor_unknown.yaml': text('stages:\n  watcher: *nobody\n', 'check', 2, (':2: error', 'alias')),
        'anchor_bomb.yaml': text(bomb(), 'check', 2, ': error'),
        'anchor_bomb_inside.yaml': text(
            'stages:\n  watcher: {directory: ., a: &a [x, x, x, x, x, x, x, x, x, x], '
            'b: &b [*a, *a, *a, *a, *a, *a], c: [*b, *b, *b, *b, *b, *b]}\n',
            'check',
            2,
            ':2: error',
        ),
        'anchor_itself.yaml': text('stages: &s\n  watcher: *s\n', 'check', 2, ': error'),
        'deep.yaml': text('stages: ' + '[' * 20000 + ']' * 20000 + '\n', 'check', 2, ':1: error: more than 32 lists'),
        'deep_unended.yaml': text('stages: ' + '{a: ' * 50000, 'check', 2, ':1: error: more than 32 lists'),
        'list.yaml': text('- stages\n- session\n', 'check', 2, ':1: error'),
        'word.yaml': text('stages\n', 'check', 2, ':1: error'),
        'two_documents.yaml': text(GRAPH + '---\n' + GRAPH, 'check', 2, ':4: error: a second document'),
        'stage_twice.yaml': text(GRAPH + '  watcher: {directory: /}\n', 'check', 2, (':4: error', 'watcher')),
        'key_twice.yaml': text(
            'stages:\n  watcher:\n    directory: .\n    directory: /\n', 'check', 2, (':4: error', 'directory')
        ),
        'stages_twice.yaml': text(GRAPH + 'stages: {}\n', 'check', 2, (':4: error', 'stages')),
        'stages_list.yaml': text('stages: [watcher]\n', 'check', 2, ':1: error'),
        'stages_null.yaml': text('stages:\n', 'check', 2, ':1: error'),
        'stage_number.yaml': text('stages: {watcher: 7}\n', 'check', 2, ':1: error'),
        'key_is_list.yaml': text('stages:\n  watcher: {[a, b]: 1, directory: .}\n', 'check', 2, ':2: error'),
        'value_is_mapping.yaml': text('stages:\n  watcher: {directory: {a: b}}\n', 'check', 2, ':2: error'),
        'number_word.yaml': text(
            'session: {pixel_size: small}\n' + GRAPH.split('\n', 1)[1], 'check', 2, (':1: error', 'pixel_size', 'small')
        ),
        'number_nan.yaml': text(
            'session: {pixel_size: .nan}\n' + GRAPH.split('\n', 1)[1], 'check', 2, (':1: error', '.nan')
        ),
        'number_negative.yaml': text(
            'session: {pixel_size: -1}\n' + GRAPH.split('\n', 1)[1], 'check', 2, (':1: error', '-1')
        ),
        'name_upwards.yaml': text('stages: {../../tmp/x: {directory: .}}\n', 'check', 2, ':1: error'),
        'name_long.yaml': text('stages: {' + 'w' * 5000 + ': {directory: .}}\n', 'check', 2, ':1: error'),
        'word_long.yaml': text(
            'stages: {watcher: {directory: ., pattern: "' + 'x' * 100000 + '"}}\n',
            'check',
            2,
            'a word of 100000 bytes; at most 4095',
        ),
        'shell.yaml': text('stages: {watcher: {program: "/bin/sh -c id", directory: .}}\n', 'check', 2, 'program'),
        'large.yaml': text(GRAPH + '#' * (1 << 21), 'check', 2, 'bytes; at most 1048576'),
        'recorded.yaml': text(b'II*\0' + bytes(range(256)), 'check', 2, 'recorded.yaml'),
    }


# ---- JSON ----


def instance(drop=(), **changes):
    whole = {
        'v': 1,
        'name': 'watcher',
        'instance': 0,
        'replicas': 1,
        'run': 1,
        'session': '@/session',
        'session_params': {'pixel_size': 2.5},
        'params': {'directory': '@'},
        'inputs': [],
        'outputs': [],
        'until_idle': 0.1,
        'device': 'cpu',
        'threads': 1,
        'curve': None,
        'ledger': '@/session/ledger/watcher.sqlite',
        'log': '@/session/log/watcher.log',
        'heartbeat': '@/session/log/beat.json',
        'current': '@/session/log/current',
    }
    whole.update(changes)
    return json.dumps({key: value for key, value in whole.items() if key not in drop}, indent=1)


def describe(**changes):
    whole = {'name': 'stranger', 'summary': '', 'version': '1', 'in': 'micrograph', 'out': 'micrograph', 'params': []}
    whole.update(changes)
    return json.dumps(whole)


def jsons():
    edge = {'edge': 'watcher.0>a', 'data': 'ipc:///tmp/a', 'ack': 'ipc:///tmp/b', 'window': 8}
    return {
        'empty.instance': text('', 'instance', 2, 'line'),
        'half.instance': text(instance()[:200], 'instance', 2, 'line'),
        'list.instance': text('[1, 2]', 'instance', 2, "the version 'v' must be 1"),
        'twice.instance': text('{"v": 1, "v": 1}', 'instance', 2, 'duplicate object key'),
        'deep.instance': text('[' * 100000, 'instance', 2, 'line 1'),
        'latin.instance': text(
            instance().replace('watcher', 'w\xe4').encode('latin-1'),
            'instance',
            2,
            'line 3: unable to decode byte 0xe4',
        ),
        'zero.instance': text(instance().replace('watcher', 'wa\\u0000cher'), 'instance', 2, 'line'),
        'version.instance': text(instance(v=2), 'instance', 2, "the version 'v' must be 1"),
        'no_name.instance': text(instance(['name']), 'instance', 2, "'name' is missing"),
        'name_upwards.instance': text(instance(name='..'), 'instance', 2, "'..' cannot be the name of a stage"),
        'name_path.instance': text(instance(name='../../x'), 'instance', 2, 'cannot be the name of a stage'),
        'relative.instance': text(instance(session='here'), 'instance', 2, "'here' must be an absolute path"),
        'number_negative.instance': text(instance(instance=-1), 'instance', 2, "'instance' must be a whole number"),
        'number_huge.instance': text(instance(run=1 << 40), 'instance', 2, "'run' must be a whole number"),
        'edges_object.instance': text(instance(outputs={}), 'instance', 2, "'outputs' must be a list"),
        'edges_many.instance': text(instance(outputs=[edge] * 1000), 'instance', 2, "'outputs' holds 1000 edges"),
        'edge_number.instance': text(instance(outputs=[7]), 'instance', 2, "'edge' is missing"),
        'window_zero.instance': text(
            instance(outputs=[{**edge, 'window': 0}]), 'instance', 2, "'window' must be a whole"
        ),
        'param_unknown.instance': text(instance(params={'directori': '.'}), 'instance', 2, "did you mean 'directory'?"),
        'param_list.instance': text(instance(params={'settle': [[1]]}), 'instance', 2, 'a list inside a list'),
        'param_range.instance': text(instance(params={'settle': -1}), 'instance', 2, 'settle'),
        'no_ledger.instance': text(instance(['ledger']), 'instance', 2, "'ledger' is missing"),
        'half.describe': text(describe()[:30], 'describe', 2, 'line 1'),
        'twice.describe': text('{"name": "a", "name": "b"}', 'describe', 2, 'duplicate object key'),
        'no_name.describe': text('{"in": ""}', 'describe', 2, '"name" is missing'),
        'name_number.describe': text(describe(name=7), 'describe', 2, '"name" is missing or not a text'),
        'in_list.describe': text(
            describe(**{'in': ['micrograph']}), 'describe', 2, '"in", "out" and "version" must be texts'
        ),
        'params_object.describe': text(describe(params={}), 'describe', 2, '"params" must be a list'),
        'param_nameless.describe': text(describe(params=[{}]), 'describe', 2, 'params[0] has no "name"'),
        'param_type.describe': text(
            describe(params=[{'name': 'a', 'type': 'integer'}]),
            'describe',
            2,
            'has the type "integer"; expected one of bool int float',
        ),
        'rubbish.heartbeat': text(b'\0\1{', 'heartbeat', 0, 'watcher', False),
        'list.heartbeat': text('[1, 2, 3]', 'heartbeat', 0, 'watcher', False),
        'half.heartbeat': text('{"time": 17952', 'heartbeat', 0, 'watcher', False),
        'types.heartbeat': text(
            '{"time": "now", "pid": [], "state": 7, "note": {}, "parts": 1}', 'heartbeat', 0, 'watcher', False
        ),
        'half.plan': text('{"v": 1, "stages": [', 'plan', 1, 'plan.json: not the plan of a session', False),
        'stages_object.plan': text('{"stages": {}}', 'plan', 1, 'not the plan of a session', False),
        'stage_number.plan': text('{"stages": [7]}', 'plan', 1, 'plan.json', False),
        'rubbish.ledger': text(
            b'this is no database ' * 300, 'ledger', 1, ('watcher.sqlite', 'icestream repair'), False
        ),
        'cut.ledger': text('', 'cut_ledger', 1, ('watcher.sqlite', 'icestream repair'), False),
    }


def texts():
    return {**stars(), **yamls(), **jsons()}
