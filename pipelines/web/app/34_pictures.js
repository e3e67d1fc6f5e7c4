/* Pictures of exposures and the picks over them. */
(function (ice) {
  'use strict';

  const { store } = ice;
  /* What a picture that was not there waits for: the row must change before it is asked for again. */
  const missing = new Map();

  /* The address of a picture. kind: "thumb", "micrograph", "spectrum". */
  ice.picture_url = function (number, kind) {
    const stage = store.session.stages[0];
    return 'pic/' + encodeURIComponent(stage.name) + '/' + number + '/' + kind + (kind === 'spectrum' ? '.png' : '.jpg');
  };

  /* Shows a picture in an img, or its placeholder where there is none yet. Leaving a picture before it has come stops its
   * transfer. */
  ice.show_picture = function (img, number, kind) {
    const key = kind + number;
    const box = img.parentNode;
    if (img.dataset.key === key && img.dataset.state !== 'missing') return;
    if (img.dataset.key === key && missing.has(key)) return;
    img.dataset.key = key;
    img.dataset.state = missing.has(key) ? 'missing' : 'coming';
    box.classList.toggle('no-picture', missing.has(key));
    if (missing.has(key)) img.removeAttribute('src');
    else img.src = ice.picture_url(number, kind);
  };

  /* An img for show_picture. Its alt text is what stands in its place. */
  ice.picture = function (attributes) {
    const img = ice.el('img', Object.assign({ decoding: 'async', draggable: 'false', alt: '' }, attributes));
    img.addEventListener('load', () => { img.dataset.state = 'there'; });
    img.addEventListener('error', () => {
      if (!img.hasAttribute('src')) return;
      missing.set(img.dataset.key, true);
      img.dataset.state = 'missing';
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

  /* Picks of exposures, a few hundred kept: number → {nx, ny, diameter, x, y, score} or null where there are none. */
  const KEPT = 200;
  const kept = new Map();
  ice.picks = function (number) {
    if (!kept.has(number)) {
      if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
      kept.set(number, ice.api('api/picks/' + number).catch(() => null));
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
