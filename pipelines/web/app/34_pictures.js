/* Pictures of exposures and the picks over them. */
(function (ice) {
  'use strict';

  const { store } = ice;
  /* Bits of rows.shows: what an exposure has. The page asks for nothing else: a browser writes each answer "not found" to
   * its console. */
  ice.SHOWS = { thumb: 1, spectrum: 2, ctf: 4, motion: 8, picks: 16, micrograph: 32 };
  ice.has = function (number, what) {
    const i = store.rows.at.get(number);
    return i !== undefined && (store.rows.shows[i] & ice.SHOWS[what]) !== 0;
  };

  /* Pictures that are named and were not there: their row must change before they are asked for again. */
  const missing = new Set();

  /* The address of a picture. kind: "thumb", "micrograph", "spectrum". A thumbnail is kept by the browser. */
  ice.picture_url = function (number, kind) {
    const { rows, session } = store;
    const i = rows.at.get(number);
    const kept = kind === 'thumb' && i !== undefined ? '&h=' + Math.round(rows.t[i] * 1000).toString(36) + '.' + rows.revision[i] : '';
    return 'pic/' + encodeURIComponent(session.stages[0].name) + '/' + number + '/' + kind + (kind === 'spectrum' ? '.png' : '.jpg') + '?quiet=1' + kept;
  };

  /* Shows a picture in an img, or its placeholder where there is none yet. Leaving a picture before it has come stops its
   * transfer. */
  ice.show_picture = function (img, number, kind) {
    const key = kind + number;
    const none = missing.has(key) || !ice.has(number, kind);
    const state = none ? 'missing' : 'there';
    if (img.key === key && (img.wanted === state)) return;
    img.key = key;
    img.wanted = state;
    img.dataset.state = none ? 'missing' : 'coming';
    img.parentNode.classList.toggle('no-picture', none);
    if (none) img.removeAttribute('src');
    else img.src = ice.picture_url(number, kind);
  };

  /* Shows nothing in an img, and stops the transfer of what it was to show. */
  ice.leave_picture = function (img) {
    if (img.wanted === 'nothing') return;
    img.key = '';
    img.wanted = 'nothing';
    img.dataset.state = 'coming';
    img.removeAttribute('src');
  };

  /* An img for show_picture. Its alt text is what stands in its place. */
  ice.picture = function (attributes) {
    const img = ice.el('img', Object.assign({ decoding: 'async', draggable: 'false', alt: '' }, attributes));
    img.addEventListener('load', () => { img.dataset.state = 'there'; });
    img.addEventListener('error', () => {
      if (!img.hasAttribute('src')) return;
      missing.add(img.key);
      img.wanted = img.dataset.state = 'missing';
      img.removeAttribute('src');
      img.parentNode.classList.add('no-picture');
    });
    return img;
  };

  store.subscribe('rows', (details) => {
    if (!missing.size) return;
    for (const { full, changed } of details) {
      if (full) missing.clear();
      for (const i of changed) for (const kind of ['thumb', 'micrograph', 'spectrum']) missing.delete(kind + store.rows.n[i]);
    }
  });

  /* Data of an exposure: "picks", "ctf", "motion"; null where it has none. Picks of a few hundred are kept. */
  const KEPT = 200;
  const kept = new Map();
  ice.data_of = (number, what) => (ice.has(number, what) ? ice.api('api/' + what + '/' + number + '?quiet=1').catch(() => null) : Promise.resolve(null));
  ice.picks = function (number) {
    if (!ice.has(number, 'picks')) return Promise.resolve(null);
    if (!kept.has(number)) {
      if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
      kept.set(number, ice.data_of(number, 'picks'));
    }
    return kept.get(number);
  };
  store.subscribe('rows', (details) => {
    for (const { full, changed } of details) {
      if (full) kept.clear();
      for (const i of changed) kept.delete(store.rows.n[i]);
    }
  });

  /* Draws circles on a canvas that lies over the picture. options: {diameter: px of the micrograph, least: score}.
   * Returns how many are drawn. */
  ice.draw_picks = function (canvas, picks, options) {
    const box = canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const context = canvas.getContext('2d');
    if (!picks || !picks.nx) return 0;
    const scale = canvas.width / picks.nx;
    const scale_y = canvas.height / picks.ny;
    const radius = Math.max(2 * ratio, ((options.diameter || picks.diameter || picks.nx / 40) / 2) * scale);
    let count = 0;
    context.beginPath();
    for (let k = 0; k < picks.x.length; k++) {
      if (picks.score && ice.is_number(picks.score[k]) && picks.score[k] < options.least) continue;
      const x = picks.x[k] * scale;
      const y = picks.y[k] * scale_y;
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 7);
      count++;
    }
    // A dark line below the bright one: it shows on bright and on dark ground.
    context.lineWidth = (radius > 5 * ratio ? 3 : 2) * ratio;
    context.strokeStyle = 'rgb(0 0 0 / 55%)';
    context.stroke();
    context.lineWidth = (radius > 5 * ratio ? 1.5 : 1) * ratio;
    context.strokeStyle = ice.colour('--picks');
    context.stroke();
    return count;
  };
})(window.ice);
