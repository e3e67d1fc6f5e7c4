/* The frame: head bar, tabs, the sections of the open tab, theme. */
(function (ice) {
  'use strict';

  const head = document.getElementById('head');
  const tabs = document.getElementById('tabs');
  const main = document.getElementById('main');
  const { store } = ice;
  const OVERVIEW = 'overview';

  /* The head bar */

  const parts = {};
  const fact = (key, label, title) => ice.el('div', { class: 'fact', id: 'fact-' + key, title: title || null },
    ice.el('span', { class: 'label', text: label }), parts[key] = ice.el('span', { class: 'value', text: ice.NONE }));

  function draw_head() {
    parts.name = ice.el('span', { class: 'name', text: 'connecting' });
    parts.state = ice.el('span', { class: 'pill', id: 'session-state' });
    parts.run = ice.el('span', { class: 'run' });
    parts.alarms = ice.el('a', { class: 'badge', id: 'alarm-badge', href: '#alarms', text: 'no alarms' });
    parts.dot = ice.el('span', { class: 'dot', 'aria-hidden': 'true' });
    parts.line = ice.el('span', { id: 'connection', text: 'connecting' });
    parts.theme = ice.el('button', { type: 'button', class: 'icon', id: 'theme', on: { click: next_theme } });
    const help = ice.el('button', { type: 'button', class: 'icon', id: 'help-button', 'aria-label': 'Keys and help', text: '?',
      on: { click: () => ice.show_help() } });
    ice.fill(head,
      ice.el('div', { class: 'who' }, ice.el('h1', {}, parts.name), parts.state, parts.run),
      ice.el('div', { class: 'facts' },
        fact('seen', 'exposures'), fact('done', 'done'), fact('rejected', 'rejected'), fact('failed', 'failed'),
        fact('last', 'last exposure'), fact('rate', 'per hour'),
        fact('map', 'newest map')),
      ice.el('div', { class: 'right' }, parts.alarms,
        ice.el('span', { class: 'connection' }, parts.dot, parts.line), parts.theme, help));
    show_theme();
  }

  const basename = (path) => String(path || '').replace(/\/+$/, '').split('/').pop();

  const STATES = { running: '▶', draining: '◔', stopped: '■', finished: '✓', lost: '▲' };

  function show_session() {
    const { session, status } = store;
    if (!session) return;
    const name = session.name || basename(session.session) || 'session';
    ice.text(parts.name, name);
    parts.name.title = session.session || '';
    const state = (status && status.state) || session.state || 'unknown';
    ice.text(parts.state, (STATES[state] || '') + ' ' + state);
    parts.state.className = 'pill ' + state;
    const run = status && ice.is_number(status.run) ? status.run : session.run;
    ice.text(parts.run, ice.is_number(run) ? 'run ' + run : '');
    ice.text(parts.seen.previousSibling, store.thing() + 's');
    ice.text(parts.last.previousSibling, 'last ' + store.thing());
  }

  /* Counts exposures by state, and notes the times of the first and the last. */
  function count_rows() {
    const { rows } = store;
    const counts = [0, 0, 0, 0];
    let first = NaN;
    let last = NaN;
    for (let i = 0; i < rows.length; i++) {
      counts[rows.state[i]]++;
      if (!(rows.t[i] <= last)) last = rows.t[i];
      if (!(rows.t[i] >= first)) first = rows.t[i];
    }
    let recent = 0;
    for (let i = 0; i < rows.length; i++) if (rows.t[i] > last - 1800) recent++;
    return { counts, first, last, recent };
  }

  let counted = { counts: [0, 0, 0, 0], first: NaN, last: NaN, recent: 0 };
  function show_counts() {
    counted = count_rows();
    const set = (key, value, mark) => ice.text(parts[key], (value && mark ? mark + ' ' : '') + ice.count(value));
    set('seen', store.rows.length);
    set('done', counted.counts[ice.DONE], ice.states[ice.DONE].mark);
    set('rejected', counted.counts[ice.REJECTED], ice.states[ice.REJECTED].mark);
    set('failed', counted.counts[ice.FAILED], ice.states[ice.FAILED].mark);
    parts.failed.parentNode.classList.toggle('bad', counted.counts[ice.FAILED] > 0);
    show_clock();
  }

  const is_running = () => {
    const state = (store.status && store.status.state) || (store.session && store.session.state);
    return state === 'running' || state === 'draining';
  };
  ice.is_running = is_running;

  function show_clock() {
    const ago = Date.now() / 1000 - counted.last;
    if (!ice.is_number(counted.last)) ice.text(parts.last, ice.NONE);
    else ice.text(parts.last, is_running() ? ice.span(ago) + ' ago' : ice.clock(counted.last));
    ice.text(parts.rate, ice.count(rate_now()));
    parts.rate.parentNode.title = is_running() ? 'Found in the last 30 minutes, times two' : 'Mean from the first to the last one';
    show_map();
  }

  /* Returns exposures per hour: in the last half hour of a running session, the mean of an ended one. */
  function rate_now() {
    const span = counted.last - counted.first;
    if (!is_running()) return span > 1 ? 3600 * (store.rows.length - 1) / span : NaN;
    const rate = store.status && store.status.exposures_per_hour;
    return ice.is_number(rate) ? rate : counted.recent * 2;
  }

  function show_map() {
    const refiners = store.stages_of(['refiner']);
    parts.map.parentNode.hidden = !refiners.length;
    if (!refiners.length || !store.status || !store.status.stages) return;
    const stage = store.status.stages[refiners[0].name] || {};
    const beat = (stage.instances || []).find((it) => ice.is_number(it.resolution));
    const line = stage.newest;
    const angstroms = beat ? beat.resolution : line && line.resolution;
    const lag = is_running() && line && ice.is_number(line.time) ? ', ' + ice.span(Date.now() / 1000 - line.time) + ' ago' : '';
    const none = ice.unresolved(line);
    if (none) ice.text(parts.map, none.word + lag);
    else ice.text(parts.map, ice.is_number(angstroms) ? ice.number(angstroms, 3) + ' Å' + lag : ice.NONE);
  }

  const WORDS = { connecting: 'connecting', live: 'live', polling: 'asking every 2 s', lost: 'no connection', refused: 'not allowed' };
  function show_connection() {
    document.documentElement.dataset.connection = store.connection;
    ice.text(parts.line, WORDS[store.connection]);
    if (store.connection === 'refused') {
      ice.fill(main, ice.el('section', { class: 'panel' }, ice.el('h2', { text: 'This address has no valid token' }),
        ice.el('p', { text: 'Open the address that icestream serve printed. It also stands in the session folder, in web/token.' }),
        ice.el('p', { class: 'quiet', text: store.refused })));
    }
  }

  let spoken = '';
  function show_alarms() {
    const firing = store.alarms.filter((a) => a.state === 'firing' || (a.firing === true && !a.state));
    const worst = firing.some((a) => a.severity === 'critical') ? 'critical' : firing.some((a) => a.severity === 'warning') ? 'warning' : 'info';
    parts.alarms.className = 'badge' + (firing.length ? ' ' + worst : '');
    ice.text(parts.alarms, firing.length ? '▲ ' + ice.plural(firing.length, 'alarm') : 'no alarms');
    const names = firing.map((a) => a.text || a.message || a.summary || a.alarm || a.name).join('. ');
    if (names !== spoken && names) ice.speak('Alarm: ' + names);
    spoken = names;
  }

  /* Theme: of the system until somebody chooses */

  const THEMES = { '': ['◐', 'system'], light: ['☀', 'light'], dark: ['☾', 'dark'] };
  function stored_theme() {
    try {
      return localStorage.getItem('icestream-theme') || '';
    } catch (error) {
      return '';
    }
  }
  function show_theme() {
    const theme = stored_theme() in THEMES ? stored_theme() : '';
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    parts.theme.textContent = THEMES[theme][0];
    parts.theme.setAttribute('aria-label', 'Theme: ' + THEMES[theme][1]);
    parts.theme.title = 'Theme: ' + THEMES[theme][1];
    repaint();
  }
  function next_theme() {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(stored_theme()) + 1) % names.length];
    try {
      localStorage.setItem('icestream-theme', next);
    } catch (error) {
      document.documentElement.dataset.theme = next;
    }
    show_theme();
  }
  function repaint() {
    ice.forget_colours();
    ice.redraw_charts();
    send('theme');
  }
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
    matchMedia(query).addEventListener('change', repaint);
  }

  /* Tabs and sections */

  function belongs(section) {
    if (!store.session) return false;
    if (section.stages && section.stages.length && !store.stages_of(section.stages).length) return false;
    return !section.when || section.when(store.session);
  }

  const shown = () => ice.sections.filter(belongs).sort((a, b) => (a.order || 100) - (b.order || 100));

  let open_view = null;
  ice.open_sections = () => shown().filter((s) => s.view === open_view);

  function draw_tabs(view) {
    const views = [];
    for (const section of shown()) {
      if (section.tab === false || views.some((v) => v.view === section.view)) continue;
      views.push({ view: section.view, title: section.view === OVERVIEW ? 'Overview' : section.title });
    }
    const lit = (ice.sections.find((s) => s.view === view) || {}).parent || view;
    if (tabs.children.length === views.length && views.every((v, k) => tabs.children[k].hash === '#' + v.view)) {
      views.forEach((v, k) => mark_tab(tabs.children[k], v.view === lit));
      return;
    }
    ice.fill(tabs, views.map((v) => mark_tab(ice.el('a', { href: '#' + v.view, text: v.title }), v.view === lit)));
  }

  function mark_tab(link, here) {
    if (here) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
    return link;
  }

  function send(kind, detail) {
    for (const section of ice.open_sections()) tell(section, kind, detail);
  }

  function tell(section, kind, detail) {
    if (!section.drawn || !section.update) return;
    try {
      section.update(kind, detail);
    } catch (error) {
      console.error(error);
    }
  }

  function draw_section(section) {
    section.root = ice.el('section', { class: 'panel', id: 'section-' + section.id, 'aria-label': section.title });
    section.drawn = true;
    try {
      section.draw(section.root, section);
    } catch (error) {
      console.error(error);
      section.root.append(ice.el('p', { class: 'quiet', text: 'This part could not be drawn: ' + error.message }));
    }
  }

  /* Shows the tab of the route. Sections keep their nodes while their tab is closed. */
  function show_view() {
    if (!store.session || store.refused) return;
    const all = shown();
    const view = all.some((s) => s.view === ice.route.view) ? ice.route.view : OVERVIEW;
    draw_tabs(view);
    if (view === open_view && all.filter((s) => s.view === view).every((s) => s.drawn && s.root.isConnected)) {
      send('route');
      return;
    }
    for (const section of ice.sections) if (section.drawn && section.root.isConnected && section.view !== view) tell(section, 'hidden');
    const moved = open_view !== null && open_view !== view;
    open_view = view;
    main.className = 'view-' + view;
    const here = all.filter((s) => s.view === view);
    for (const section of here) if (!section.drawn) draw_section(section);
    ice.fill(main, here.map((section) => section.root));
    if (moved) {
      window.scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    for (const section of here) tell(section, 'shown');
  }

  /* The heading of a section, with what stands beside it at the right. */
  ice.heading = (text, ...beside) => ice.el('div', { class: 'heading' }, ice.el('h2', { text }),
    ice.el('div', { class: 'beside' }, beside));

  let known = '';
  ice.start_frame = function () {
    draw_head();
    ice.on_route.push(show_view);
    store.subscribe('session', () => {
      show_session();
      show_view();
    });
    store.subscribe('status', () => {
      show_session();
      show_clock();
    });
    store.subscribe('rows', () => {
      show_counts();
      const now = shown().map((s) => s.id).join(); // the first exposure with a square brings the tab of squares
      if (now !== known) show_view();
      known = now;
    });
    store.subscribe('alarm', show_alarms);
    store.subscribe('connection', show_connection);
    store.subscribe('*', (kind, detail) => send(kind, detail));
    setInterval(show_clock, 1000);
    let sized = null;
    window.addEventListener('resize', () => {
      clearTimeout(sized);
      sized = setTimeout(() => send('size'), 100);
    });
    show_connection();
  };
})(window.ice);
