/* Crystallisation drops: pictures in the order in which they are worth a look. */
(function (ice) {
  'use strict';

  const PAGE = 60;
  let parts;
  let answer = null;
  let shown = PAGE;

  function draw(root) {
    parts = {
      outcome: ice.el('select', { 'aria-label': 'Outcome', on: { change: () => {
        ice.query('outcome', parts.outcome.value);
        shown = PAGE;
        paint();
      } } }),
      line: ice.el('p', { class: 'class-line-top' }),
      sheet: ice.el('ol', { class: 'drops', 'aria-label': 'Drops, most likely crystals first' }),
      more: ice.el('button', { type: 'button', text: 'More', on: { click: () => {
        shown += PAGE;
        paint();
      } } }),
    };
    root.append(ice.heading('Drops by likelihood of crystals', parts.outcome), parts.line, parts.sheet, parts.more);
  }

  function paint() {
    if (!answer) return;
    const { outcomes } = answer;
    const wanted = ice.query('outcome');
    parts.outcome.value = wanted;
    const order = answer.n.map((n, i) => i).filter((i) => !wanted || outcomes[answer.outcome[i]] === wanted)
      .sort((a, b) => (answer.score[b] === null ? -1 : answer.score[b]) - (answer.score[a] === null ? -1 : answer.score[a]) || answer.n[a] - answer.n[b]);
    const counts = outcomes.map((name, k) => [name, answer.outcome.filter((it) => it === k).length]).filter((it) => it[1]);
    parts.line.textContent = ice.plural(answer.n.length, 'photograph') + ': ' + counts.map(([name, count]) => ice.count(count) + ' ' + name).join(', ');
    ice.fill(parts.sheet, order.slice(0, shown).map((i, rank) => drop(i, rank)));
    parts.more.hidden = order.length <= shown;
  }

  function drop(i, rank) {
    const score = answer.score[i];
    const outcome = answer.outcomes[answer.outcome[i]] || 'not judged';
    return ice.el('li', {}, ice.el('a', { class: 'drop', href: '#exposure/' + answer.n[i], 'aria-label': 'Rank ' + (rank + 1) + ', ' + answer.name[i] + ', ' + outcome },
      ice.el('img', { src: ice.has(answer.n[i], 'thumb') ? ice.picture_url(answer.n[i], 'thumb') : null, class: ice.has(answer.n[i], 'thumb') ? null : 'lacks', alt: '', loading: 'lazy', decoding: 'async',
        on: { error: (event) => event.target.classList.add('lacks') } }),
      ice.el('span', { class: 'class-line' }, ice.el('strong', { text: outcome }), ice.el('span', { text: ice.is_number(score) ? Math.round(100 * score) + ' %' : ice.NONE })),
      ice.el('span', { class: 'share' }, ice.el('span', { style: { width: 100 * (score || 0) + '%' } })),
      ice.el('span', { class: 'quiet drop-name', text: answer.name[i] })));
  }

  async function load() {
    try {
      answer = await ice.api('api/drops');
    } catch (error) {
      parts.line.textContent = error.message;
      return;
    }
    ice.fill(parts.outcome, ice.el('option', { value: '', text: 'all outcomes' }), answer.outcomes.map((name) => ice.el('option', { value: name, text: name })));
    paint();
  }

  let asked = 0;
  function update(kind) {
    if (kind === 'shown' || (kind === 'rows' && Date.now() - asked > 3000)) {
      asked = Date.now();
      load();
    } else if (kind === 'route') {
      paint();
    }
  }

  ice.section({ id: 'drops', title: 'Drops', order: 63, stages: ['crystal-scorer'], draw, update });
})(window.ice);
