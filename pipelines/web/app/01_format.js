/* Numbers, times and states as text. */
(function (ice) {
  'use strict';

  ice.NONE = '–';
  ice.states = [
    { key: 'in_flight', word: 'in flight', mark: '◌', colour: '--in-flight' },
    { key: 'done', word: 'done', mark: '●', colour: '--done' },
    { key: 'rejected', word: 'rejected', mark: '✕', colour: '--rejected' },
    { key: 'failed', word: 'failed', mark: '▲', colour: '--failed' },
  ];
  ice.IN_FLIGHT = 0;
  ice.DONE = 1;
  ice.REJECTED = 2;
  ice.FAILED = 3;

  /* A state as shape and word, never as colour alone. state: 0 to 3, or a key such as "in_flight". */
  ice.state_mark = function (state, quiet) {
    const it = typeof state === 'string' ? ice.states.find((s) => s.key === state) : ice.states[state];
    if (!it) return ice.el('span', { class: 'state', text: String(state) });
    return ice.el('span', { class: 'state ' + it.key.replace('_', '-') },
      ice.el('span', { class: 'mark', 'aria-hidden': 'true', text: it.mark }),
      ice.el('span', { class: quiet ? 'unseen' : null, text: it.word }));
  };

  ice.is_number = (value) => typeof value === 'number' && isFinite(value);

  const UNRESOLVED = {
    noise: ['noise', 'the images resemble the reference no more than its negative'],
    shared: ['no resolution', 'the halves agree no further than they share'],
    start: ['no resolution', 'from its blurred reference the map does not come back'],
    nowhere: ['no resolution', 'the halves are believed in no shell'],
  };
  /* Returns {word, text}, in the refiner's words (unresolved.c), if a line of its history has no resolution; else null.
   * The halves agree to no resolution then. */
  ice.unresolved = function (line) {
    const why = line && (line.unresolved || (line.noise === true ? 'noise' : null));
    if (!why) return null;
    const [word, text] = UNRESOLVED[why] || UNRESOLVED.nowhere;
    return { word, text: (word === 'noise' ? 'no resolution: ' : '') + text };
  };

  /* A count with thin spaces: 12 345. */
  ice.count = function (value) {
    if (!ice.is_number(value)) return ice.NONE;
    return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  };

  /* A number with `digits` significant digits and no exponent between 0.001 and a million. */
  ice.number = function (value, digits) {
    if (!ice.is_number(value)) return ice.NONE;
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential((digits || 3) - 1).replace('-', '−');
    const after = size ? Math.max(0, (digits || 3) - 1 - Math.floor(Math.log10(size))) : 0;
    return value.toFixed(Math.min(after, 6)).replace('-', '−');
  };

  /* Digits that fit a unit: defocus in µm with two decimals, as the field writes it. */
  const DECIMALS = { 'µm': 2, 'um': 2, 'Å': 1, 'A': 1, 'nm': 0, 's': 1, 'ms': 0 };
  ice.decimals = (unit) => (unit in DECIMALS ? DECIMALS[unit] : null);
  ice.quantity = function (value, unit) {
    if (!ice.is_number(value)) return ice.NONE;
    const decimals = ice.decimals(unit);
    if (decimals !== null) return value.toFixed(decimals).replace('-', '−');
    return Number.isInteger(value) ? ice.count(value) : ice.number(value, 3);
  };

  /* A time span in seconds: 0.4 s, 12 s, 3 min 20 s, 2 h 05 min, 3 d 4 h. */
  ice.span = function (seconds) {
    if (!ice.is_number(seconds)) return ice.NONE;
    const s = Math.max(0, seconds);
    if (s < 0.01) return '< 0.01 s';
    if (s < 10) return ice.number(s, 2) + ' s';
    if (s < 120) return Math.round(s) + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min ' + String(Math.floor(s % 60)).padStart(2, '0') + ' s';
    if (s < 172800) return Math.floor(s / 3600) + ' h ' + String(Math.floor((s % 3600) / 60)).padStart(2, '0') + ' min';
    return Math.floor(s / 86400) + ' d ' + Math.floor((s % 86400) / 3600) + ' h';
  };

  ice.bytes = function (value) {
    if (!ice.is_number(value)) return ice.NONE;
    const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
    let at = 0;
    let size = value;
    while (size >= 1000 && at < units.length - 1) {
      size /= 1000;
      at++;
    }
    return (at ? ice.number(size, 3) : String(size)) + ' ' + units[at];
  };

  const two = (n) => String(n).padStart(2, '0');
  /* Local clock time of a Unix time; with the day where it is another one than today. */
  ice.clock = function (time, seconds) {
    if (!ice.is_number(time) || time <= 0) return ice.NONE;
    const date = new Date(time * 1000);
    const text = two(date.getHours()) + ':' + two(date.getMinutes()) + (seconds ? ':' + two(date.getSeconds()) : '');
    if (date.toDateString() === new Date().toDateString()) return text;
    return date.getFullYear() + '-' + two(date.getMonth() + 1) + '-' + two(date.getDate()) + ' ' + text;
  };

  /* "1 exposure", "2 exposures" */
  ice.plural = (count, word, more) => ice.count(count) + ' ' + (count === 1 ? word : more || word + 's');

  /* One field of a CSV file (RFC 4180). A spreadsheet runs text that begins with = + - @ as a formula: it gets a
   * leading apostrophe. */
  ice.csv_field = function (value) {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return isFinite(value) ? String(value) : '';
    let text = String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  ice.csv = (lines) => lines.map((line) => line.map(ice.csv_field).join(',')).join('\r\n') + '\r\n';
})(window.ice);
