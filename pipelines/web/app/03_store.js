/* The page's copy of the session: fetched once, then kept up by server-sent events, or by asking every two seconds
 * where events do not come through. */
(function (ice) {
  'use strict';

  const POLL = 2000;
  const SILENT = 8000; // a server that lives sends its status every 5 s
  const store = {
    session: null,
    status: null,
    rows: ice.make_rows(),
    epoch: null,
    rev: null,
    alarms: [],
    /* The last whole answer of /api/alarms: alarms, rules, notify. */
    alarm_answer: null,
    /* "connecting", "live" (events), "polling", "lost" */
    connection: 'connecting',
    heard: 0,
    refused: null,
  };
  ice.store = store;

  const listeners = new Map();
  /* fn(detail) is called after each change of this kind, at most once a frame. kind: "session", "status", "rows",
   * "product", "alarm", "connection", "thresholds"; "*": fn(kind, detail). */
  store.subscribe = function (kind, fn) {
    if (!listeners.has(kind)) listeners.set(kind, new Set());
    listeners.get(kind).add(fn);
    return () => listeners.get(kind).delete(fn);
  };

  const waiting = new Map();
  let asked = false;
  /* Frames do not come to a hidden page: it is told when it is seen again. */
  store.tell = function (kind, detail) {
    const list = waiting.get(kind) || [];
    if (detail !== undefined) list.push(detail);
    waiting.set(kind, list);
    if (!asked) {
      asked = true;
      requestAnimationFrame(tell_all);
    }
  };

  function tell_all() {
    asked = false;
    const all = [...waiting];
    waiting.clear();
    for (const [kind, details] of all) {
      for (const fn of listeners.get(kind) || []) guarded(() => fn(details));
      for (const fn of listeners.get('*') || []) guarded(() => fn(kind, details));
    }
  }

  /* One section that fails must not keep the others from their news. */
  function guarded(act) {
    try {
      act();
    } catch (error) {
      console.error(error);
    }
  }

  store.stage_name = (index) => (store.session && store.session.stages[index] ? store.session.stages[index].name : '');
  /* The stages of this session that run one of these programs. */
  store.stages_of = function (programs) {
    if (!store.session) return [];
    return store.session.stages.filter((s) => programs.includes(s.program || s.name));
  };
  /* A stage that gathers items takes each in at once and works on all of them later: the time that it takes one in says
   * nothing of its work. A source does no more than that. */
  store.gathers = (stage) => !!stage.cumulative && [].concat(stage.from || []).length > 0;
  const THINGS = { superposer: 'structure', 'crystal-scorer': 'drop', 'tilt-reconstructor': 'tilt image' };
  /* Returns the word for an item of this session's source. */
  store.thing = function () {
    const program = Object.keys(THINGS).find((name) => store.stages_of([name]).length);
    return program ? THINGS[program] : 'exposure';
  };
  store.may = (what) => !!(store.session && (store.session.may || []).includes(what));

  /* A column by its key or by RELION's name: {key, label, unit, factor, good, values}, or null where no exposure has it.
   * The page shows value × factor, in `unit`. */
  store.column = function (key) {
    const about = ((store.session && store.session.columns) || []).find((c) => c.key === key || c.column === key);
    const values = store.rows.columns[about ? about.key : key];
    if (!values) return null;
    return Object.assign({ key, label: key, unit: '', good: null }, about,
      { values, factor: about && ice.is_number(about.factor) ? about.factor : 1 });
  };

  /* Columns of which at least one exposure has a value. One that says the same as another is left out, unless a rule
   * of the graph names it and counts in another unit. */
  store.columns = function () {
    const { rows } = store;
    const known = ((store.session && store.session.columns) || []).map((c) => c.key);
    const keys = known.concat(Object.keys(rows.columns).filter((key) => !known.includes(key)));
    const all = keys.map(store.column).filter((it) => it && has_values(it.values, rows.length));
    const rules = (store.session && store.session.rules) || [];
    return all.filter((it) => {
      const other = it.same && all.find((c) => c.key === it.same);
      return !other || (other.unit !== it.unit && rules.some((rule) => rule.column === it.column));
    });
  };

  /* The names that a rule of the graph may call a column by; the first is the one to write. */
  store.names_of = function (column) {
    const twins = ((store.session && store.session.columns) || []).filter((c) => c.same === column.key && c.unit === column.unit);
    return [column.column, column.key === 'defocus' && 'rlnDefocusU', ...twins.map((c) => c.column), column.key].filter(Boolean);
  };

  function has_values(values, count) {
    for (let i = 0; i < count; i++) if (isFinite(values[i])) return true;
    return false;
  }

  function take_session(answer) {
    store.session = answer;
    document.title = (answer.name || answer.session || 'session') + ' · icestream';
    store.tell('session');
  }

  /* Rules, parameters and what may be done stand in the session: they change with the run and with each change. */
  let known = null;
  function take_status(answer) {
    const now = [answer.state, answer.run, (answer.changes || []).length].join();
    store.status = answer;
    store.tell('status');
    const changed = known !== null && known !== now;
    known = now;
    if (changed) ice.api('api/session').then(take_session).catch(() => { known = ''; }); // the next status asks again
  }

  function take_rows(answer) {
    if (!answer || !answer.n) return;
    if (!answer.full && answer.epoch !== undefined && answer.epoch !== store.epoch) {
      resync();
      return;
    }
    if (answer.full) store.epoch = answer.epoch;
    else if (store.rev !== null && answer.rev < store.rev) return; // an event from before the last fetch
    store.rev = answer.rev;
    const changed = ice.apply_rows(store.rows, answer);
    if (changed.length || answer.full || (answer.gone && answer.gone.length)) {
      store.tell('rows', { full: !!answer.full, changed });
    }
  }

  const since = () => (store.rev === null ? 'api/items' : 'api/items?since=' + store.rev + '&epoch=' + store.epoch);

  let syncing = null;
  /* Fetches what was missed. Calls that come meanwhile wait for the same answer. */
  function resync(everything) {
    if (syncing) return syncing;
    syncing = (async () => {
      if (everything || !store.session) take_session(await ice.api('api/session'));
      const [status, items] = await Promise.all([ice.api('api/status'), ice.api(since())]);
      heard();
      if (items.full || items.epoch === store.epoch) take_rows(items);
      else take_rows(await ice.api('api/items'));
      take_status(status);
    })().finally(() => { syncing = null; });
    return syncing;
  }
  store.resync = resync;

  let alarms_asked = 0;
  /* Fetches the alarms once for all that show them. */
  store.load_alarms = async function () {
    const ask = ++alarms_asked;
    try {
      const answer = await ice.api('api/alarms');
      if (ask !== alarms_asked) return; // a newer answer is on its way
      store.alarm_answer = answer;
      store.alarms = answer.alarms;
      store.tell('alarm');
    } catch (error) {
      if (error.status === 401) refuse(error);
    }
  };

  function heard() {
    store.heard = Date.now();
  }

  function connection(state) {
    if (store.connection === state) return;
    store.connection = state;
    store.tell('connection');
  }

  function refuse(error) {
    store.refused = error.message;
    connection('refused');
    stop();
  }

  let source = null;
  let failures = 0;
  let timer = null;

  function listen() {
    if (source || store.refused) return;
    source = new EventSource('api/events');
    const on = (event, act) => source.addEventListener(event, (message) => {
      heard();
      let data = null;
      try {
        data = JSON.parse(message.data);
      } catch (error) {
        resync().catch(lost);
        return;
      }
      act(data);
    });
    source.onopen = () => {
      const again = failures > 0 || store.connection === 'polling';
      failures = 0;
      heard();
      stop_polling();
      connection('live');
      // Rows may have come between the first fetch and this stream; after a break, anything may have.
      resync(again).catch(lost);
      store.load_alarms();
    };
    source.onerror = () => {
      failures++;
      if (failures === 1) resync().catch(lost); // says at once where there is nobody
      const dead = source && source.readyState === EventSource.CLOSED;
      if (dead) close();
      if (failures >= 2 || dead) {
        poll();
        if (dead) setTimeout(listen_if_seen, 5000);
      }
    };
    on('status', (data) => take_status(Object.assign({}, store.status, data)));
    on('session', take_session);
    on('rows', take_rows);
    on('product', (data) => store.tell('product', data));
    on('alarm', () => store.load_alarms());
    on('resync', () => resync(true).catch(lost));
    on('hb', () => {});
  }

  /* A connection through a tunnel may end without a word. */
  setInterval(() => {
    if (store.connection !== 'live' || document.hidden || Date.now() - store.heard < SILENT) return;
    close();
    failures++;
    poll();
    setTimeout(listen_if_seen, SILENT);
  }, 1000);

  const listen_if_seen = () => document.hidden || listen();

  function close() {
    if (source) source.close();
    source = null;
  }

  function stop() {
    close();
    stop_polling();
  }

  function stop_polling() {
    clearInterval(timer);
    timer = null;
  }

  function poll() {
    if (timer || document.hidden) return;
    if (store.connection !== 'lost') connection('polling');
    timer = setInterval(() => resync(store.connection === 'lost').then(() => {
      if (timer) connection('polling');
    }).catch(lost), POLL);
  }

  function lost(error) {
    if (error.status === 401 || error.status === 403) refuse(error);
    else if (error.message !== 'aborted') connection('lost');
  }

  /* A browser has six connections to a host in all its tabs together: a hidden tab gives its own back. */
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop();
    else listen();
  });

  /* Fetches the session; rejects where the server cannot give it. */
  store.start = async function () {
    try {
      await resync(true);
    } catch (error) {
      if (error.status === 404 && await ice.show_facility()) return; // a server of many sessions has none of its own
      lost(error);
      if (!store.refused) setTimeout(store.start, POLL);
      return;
    }
    listen_if_seen();
    store.load_alarms();
  };
})(window.ice);
