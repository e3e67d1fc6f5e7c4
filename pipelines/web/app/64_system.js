/* The machine: GPUs, disks with the hours that are left, processes of the stages, the log's tail, graph and versions. */
(function (ice) {
  'use strict';

  const LEVELS = ['all', 'WARN', 'ERROR'];
  const RANK = { DEBUG: 0, INFO: 0, WARN: 1, ERROR: 2, FATAL: 2 };
  const LINES = 400;
  let parts;
  let timer = null;
  let log = { instance: '', lines: [], after: '' };

  function draw(root) {
    parts = {
      gpus: ice.el('div', { class: 'meters', id: 'system-gpus' }),
      disks: ice.el('div', { class: 'meters', id: 'system-disks' }),
      host: ice.el('div', { class: 'meters', id: 'system-host' }),
      rows: ice.el('tbody', {}),
      instance: ice.el('select', { 'aria-label': 'Process whose log is shown', on: { change: () => {
        ice.query('log', parts.instance.value === 'icestream' ? '' : parts.instance.value);
        log = { instance: parts.instance.value, lines: [], after: '' };
        load_log();
      } } }),
      level: ice.el('select', { 'aria-label': 'Least level', on: { change: paint_log } },
        LEVELS.map((level) => ice.el('option', { value: level, text: level === 'all' ? 'all levels' : level === 'WARN' ? 'warnings and errors' : 'errors' }))),
      find: ice.el('input', { type: 'search', placeholder: 'find', 'aria-label': 'Text to find in the log', on: { input: paint_log } }),
      log: ice.el('ol', { class: 'log', tabindex: '0', 'aria-label': 'Log' }),
      facts: ice.el('dl', { class: 'pairs' }),
      graph: ice.el('pre', { class: 'graph', tabindex: '0', 'aria-label': 'Graph' }),
    };
    root.append(
      ice.el('div', { class: 'system-top' },
        ice.el('div', {}, ice.el('h2', { text: 'GPUs' }), parts.gpus),
        ice.el('div', {}, ice.el('h2', { text: 'Disks' }), parts.disks, parts.host)),
      ice.el('h2', { text: 'Processes' }),
      ice.el('div', { class: 'scroll' }, ice.el('table', { class: 'instances' },
        ice.el('thead', {}, ice.el('tr', {}, ['process', 'state', 'done', 'silent', 'restarts', 'memory', 'slowest part', 'busy', 'note']
          .map((text, k) => ice.el('th', { scope: 'col', class: [2, 3, 4, 5, 7].includes(k) ? 'number' : null, text })))),
        parts.rows)),
      ice.el('div', { class: 'heading log-heading' }, ice.el('h2', { text: 'Log' }),
        ice.el('div', { class: 'beside' }, parts.instance, parts.level, parts.find)),
      parts.log,
      ice.el('h2', { text: 'Session' }), parts.facts,
      ice.el('details', {}, ice.el('summary', { text: 'Graph and parameters' }), parts.graph));
  }

  /* A bar with its words. part: 0 to 1; worse: from where it warns. */
  function meter(name, part, text, warns) {
    const known = ice.is_number(part);
    return ice.el('div', { class: 'meter' + (warns ? ' warns' : ''), role: 'meter', 'aria-label': name, 'aria-valuemin': 0, 'aria-valuemax': 100,
      'aria-valuenow': known ? Math.round(100 * part) : 0, 'aria-valuetext': text + (warns ? ', look at this' : '') },
    ice.el('span', { class: 'meter-name', text: name }),
    ice.el('span', { class: 'track' }, ice.el('span', { style: { width: (known ? Math.min(100, Math.max(0, 100 * part)) : 0) + '%' } })),
    ice.el('span', { class: 'meter-text', text: (warns ? '▲ ' : '') + text }));
  }

  const ratio = (part, whole) => (ice.is_number(part) && whole > 0 ? part / whole : NaN);

  function gpu_card(gpu) {
    const hot = gpu.temperature > 87;
    return ice.el('div', { class: 'gpu' },
      ice.el('h3', { text: 'GPU ' + gpu.index + ' · ' + (gpu.name || '') }),
      meter('work', gpu.util, ice.is_number(gpu.util) ? Math.round(100 * gpu.util) + ' %' : ice.NONE),
      meter('memory', ratio(gpu.memory_used, gpu.memory_total), ice.bytes(gpu.memory_used) + ' of ' + ice.bytes(gpu.memory_total),
        ratio(gpu.memory_used, gpu.memory_total) > 0.97),
      ice.el('p', { class: hot ? 'hot' : 'quiet', text: (hot ? '▲ ' : '') + (ice.is_number(gpu.temperature) ? Math.round(gpu.temperature) + ' °C' : '') +
        (ice.is_number(gpu.power) ? ' · ' + Math.round(gpu.power) + ' W' : '') }));
  }

  /* rate: bytes a second that the disk fills; what is left follows, of a session that runs: another one fills nothing. */
  function disk_meter(disk) {
    const used = ratio(disk.total - disk.free, disk.total);
    const hours = disk.rate > 0 && ice.is_running() ? disk.free / disk.rate / 3600 : NaN;
    const left = ice.is_number(hours) ? (hours > 240 ? '> 10 days left' : ice.span(3600 * hours) + ' left') + ' at ' + ice.bytes(disk.rate) + '/s' : '';
    return meter((disk.place ? disk.place + ' · ' : '') + (disk.path || ''), used, ice.bytes(disk.free) + ' free of ' + ice.bytes(disk.total) + (left ? ' · ' + left : ''),
      disk.free < 0.1 * disk.total || hours < 12);
  }

  function show_status() {
    const status = ice.store.status || {};
    const gpus = status.gpus || [];
    ice.fill(parts.gpus, gpus.length ? gpus.map(gpu_card) : ice.el('p', { class: 'quiet', text: 'None seen; the stages run on the CPU.' }));
    ice.fill(parts.disks, (status.disk || []).map(disk_meter));
    const host = status.host || {};
    ice.fill(parts.host,
      ice.is_number(host.memory_total) && meter('memory', ratio(host.memory_used, host.memory_total),
        ice.bytes(host.memory_used) + ' of ' + ice.bytes(host.memory_total), ratio(host.memory_used, host.memory_total) > 0.95),
      ice.is_number(host.cores) && ice.is_number(host.load) && meter('processor', host.load / host.cores,
        'load ' + ice.number(host.load, 2) + ' on ' + ice.plural(host.cores, 'core')));
    show_instances(status);
  }

  const listed = (status) => Object.entries(status.stages || {}).flatMap(([stage, it]) =>
    (it.instances || []).map((instance) => Object.assign({ stage }, instance)));

  function show_instances(status) {
    const now = Date.now() / 1000;
    const running = ice.is_running();
    const all = listed(status);
    ice.fill(parts.rows, all.map((it) => {
      const silent = ice.is_number(it.silent) ? it.silent : running && ice.is_number(it.time) ? Math.max(0, now - it.time) : NaN;
      const slow = it.parts && it.parts.slowest;
      const busy = slow && it.parts[slow] ? it.parts[slow].busy / (it.parts.wall * (it.parts[slow].threads || 1) || 1) : NaN;
      const warns = running && silent > 30;
      const number = (text, bad) => ice.el('td', { class: 'number' + (bad ? ' bad' : ''), text: (bad ? '▲ ' : '') + text });
      return ice.el('tr', {}, ice.el('th', { scope: 'row', text: (it.name || it.instance) + (it.host ? ' on ' + it.host : '') }),
        ice.el('td', { text: running ? it.state || '' : 'ended' }),
        number(ice.count(it.out)),
        number(ice.is_number(silent) ? ice.span(silent) : ice.NONE, warns),
        number(ice.is_number(it.restarts) ? ice.count(it.restarts) : ice.NONE, it.restarts > 2),
        number(ice.is_number(it.resident) ? ice.bytes(it.resident) : ice.NONE),
        ice.el('td', { text: slow || '' }),
        number(ice.is_number(busy) ? Math.round(100 * busy) + ' %' : ''),
        ice.el('td', { class: 'note-cell', text: it.trouble || it.note || '' }));
    }));
    const names = ['icestream', ...all.map((it) => it.name || it.instance)];
    if (names.join() !== [...parts.instance.options].map((option) => option.value).join()) {
      ice.fill(parts.instance, names.map((name) => ice.el('option', { value: name, text: name })));
      const wanted = ice.query('log') || 'icestream';
      parts.instance.value = names.includes(wanted) ? wanted : 'icestream';
      if (parts.instance.value !== log.instance) {
        log = { instance: parts.instance.value, lines: [], after: '' };
        load_log();
      }
    }
  }

  async function load_log() {
    const now = log;
    if (!now.instance || now.busy) return;
    now.busy = true;
    try {
      const answer = await ice.api('api/log?instance=' + encodeURIComponent(now.instance) + (now.after === '' ? '' : '&after=' + now.after));
      const more = answer.lines || [];
      if (now.after === '' || !answer.goes_on) now.lines = [];
      now.lines = now.lines.concat(more.filter(Boolean)).slice(-LINES);
      if (ice.is_number(answer.next)) now.after = String(answer.next);
      if (now === log && (more.length || !parts.log.firstChild)) paint_log();
    } catch (error) {
      if (now === log) ice.fill(parts.log, ice.el('li', { class: 'quiet', text: error.message }));
    } finally {
      now.busy = false;
    }
  }

  /* TIME INSTANCE LEVEL ID MESSAGE */
  function parse(line) {
    const match = /^(\S+) (\S+) (DEBUG|INFO|WARN|ERROR|FATAL) (\S+) ?(.*)$/.exec(line);
    return match ? { time: match[1].replace('T', ' ').slice(0, 19), level: match[3], id: match[4], text: match[5] } : { level: 'INFO', text: line };
  }

  function paint_log() {
    const least = parts.level.value === 'all' ? 0 : RANK[parts.level.value];
    const find = parts.find.value.toLowerCase();
    const at_end = parts.log.scrollTop + parts.log.clientHeight >= parts.log.scrollHeight - 30;
    const lines = log.lines.filter((line) => !find || line.toLowerCase().includes(find)).map(parse).filter((it) => RANK[it.level] >= least);
    ice.fill(parts.log, lines.length ? lines.map((it) => ice.el('li', { class: 'level-' + it.level.toLowerCase() },
      it.time && ice.el('span', { class: 'quiet', text: it.time + ' ' }),
      RANK[it.level] > 0 && ice.el('strong', { text: (RANK[it.level] > 1 ? '▲ ' : '△ ') + it.level + ' ' }),
      it.id && ice.el('span', { class: 'log-id', text: it.id + ' ' }), it.text)) : ice.el('li', { class: 'quiet', text: 'No lines.' }));
    if (at_end) parts.log.scrollTop = parts.log.scrollHeight;
  }

  function show_session() {
    const session = ice.store.session || {};
    const pairs = [['folder', session.folder || session.session], ['run', session.run], ['started', ice.clock(session.started)],
      ['icestream', session.version], ['host', ((ice.store.status || {}).host || {}).name]].filter((pair) => pair[1] !== undefined && pair[1] !== null && pair[1] !== '');
    ice.fill(parts.facts, pairs.map(([name, text]) => [ice.el('dt', { text: name }), ice.el('dd', { text: String(text) })]));
    parts.graph.textContent = typeof session.graph === 'string' ? session.graph : JSON.stringify(session.graph || {}, null, 2);
  }

  function tick() {
    if (!document.hidden) load_log();
  }

  function update(kind) {
    if (kind === 'shown') {
      show_session();
      show_status();
      parts.log.scrollTop = parts.log.scrollHeight;
      load_log();
      clearInterval(timer);
      timer = setInterval(tick, 2000);
    } else if (kind === 'hidden') {
      clearInterval(timer);
    } else if (kind === 'status') {
      show_status();
    } else if (kind === 'session') {
      show_session();
    }
  }

  ice.section({ id: 'system', title: 'System', order: 80, draw, update });
})(window.ice);
