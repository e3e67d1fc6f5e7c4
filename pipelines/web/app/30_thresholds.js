/* Thresholds of the display: what would be kept if exposures beyond them were left out. They change nothing. */
(function (ice) {
  'use strict';

  const { store } = ice;
  /* [{key, op: '>' or '<' (what is left out), value: in the unit that is shown}], in the address as t=key>value~key<value */
  let list = [];
  ice.thresholds = () => list;

  function read() {
    list = ice.query('t').split('~').map((text) => /^([\w.]+)([<>])(-?[\d.eE+-]+)$/.exec(text)).filter(Boolean)
      .map((m) => ({ key: m[1], op: m[2], value: Number(m[3]) })).filter((t) => isFinite(t.value));
  }
  ice.on_route.push(read);
  read();

  /* value null takes the threshold back. */
  ice.set_threshold = function (key, op, value) {
    list = list.filter((t) => t.key !== key || t.op !== op);
    if (ice.is_number(value)) list.push({ key, op, value: Number(value.toPrecision(3)) });
    keep_in_address();
    store.tell('thresholds');
  };
  ice.clear_thresholds = function () {
    list = [];
    keep_in_address();
    store.tell('thresholds');
  };
  function keep_in_address() {
    ice.query('t', list.map((t) => t.key + t.op + t.value).join('~'));
  }

  ice.threshold = function (key, op) {
    const it = list.find((t) => t.key === key && t.op === op);
    return it ? it.value : NaN;
  };

  /* Counts exposures that are neither rejected nor failed: {kept, of}. An exposure without a value is kept. */
  ice.count_kept = function () {
    const { rows } = store;
    const tests = list.map((t) => ({ t, it: store.column(t.key) })).filter(({ it }) => it);
    let kept = 0;
    let of = 0;
    for (let i = 0; i < rows.length; i++) {
      if (rows.state[i] === ice.REJECTED || rows.state[i] === ice.FAILED) continue;
      of++;
      if (tests.every(({ t, it }) => !ice.compare(it.values[i] * it.factor, t.op, t.value))) kept++;
    }
    return { kept, of };
  };

  /* The filter of the gallery that shows what these thresholds leave. */
  ice.threshold_filter = () => list.map((t) => t.key + (t.op === '>' ? '<=' : '>=') + t.value).join(' ');

  /* The same as a rule of a graph, in RELION's names and units: "rlnCtfMaxResolution > 4.2, picks.count < 20". */
  ice.threshold_rule = () => list.map((t) => {
    const it = store.column(t.key);
    return (it ? store.names_of(it)[0] : t.key) + ' ' + t.op + ' ' + Number((t.value / (it ? it.factor : 1)).toPrecision(4));
  }).join(', ');
})(window.ice);
