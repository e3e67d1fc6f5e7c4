/* The frame of a chart: its title and unit, a line that says in words what it shows, and its numbers as a table. */
(function (ice) {
  'use strict';

  const ROWS = 200; // rows of a table that are drawn; its file has all

  ice.chart_panel = function (chart) {
    const { options } = chart;
    const title = ice.el('span', { class: 'title', text: options.title || '' });
    const unit = ice.el('span', { class: 'unit', text: options.unit || options.y.unit || '' });
    const button = ice.el('button', { type: 'button', class: 'small', 'aria-expanded': 'false',
      'aria-label': 'Data of ' + (options.title || 'this chart') + ' as a table', text: 'data', on: { click: () => toggle() } });
    const summary = ice.el('p', { class: 'summary' });
    const table = ice.el('div', { class: 'twin', hidden: true, tabindex: '0', role: 'region', 'aria-label': 'Data of ' + (options.title || 'the chart') });
    const caption = ice.el('figcaption', {}, title, ' ', unit, ice.el('span', { class: 'gap' }), options.tools || null, button);
    const figure = ice.el('figure', { class: 'chart' }, caption, chart.plot, summary, table);

    function toggle() {
      table.hidden = !table.hidden;
      button.setAttribute('aria-expanded', String(!table.hidden));
      if (!table.hidden) show_table();
    }

    function show_table() {
      const { head, rows } = (chart.options.table || (() => table_of(chart)))();
      ice.fill(table,
        ice.el('p', {}, rows.length > ROWS ? 'The first ' + ROWS + ' of ' + ice.count(rows.length) + ' rows. ' : '',
          ice.el('button', { type: 'button', class: 'small', text: 'save as CSV',
            on: { click: () => ice.download((chart.options.name || 'chart') + '.csv', 'text/csv', ice.csv([head, ...rows])) } })),
        ice.table(head, rows.slice(0, ROWS)));
    }

    /* Called after each drawing. */
    chart.told = () => {
      const said = chart.options.summary;
      const text = typeof said === 'function' ? said() : said || '';
      ice.text(summary, text);
      ice.text(title, chart.options.title || '');
      ice.text(unit, chart.options.unit || chart.options.y.unit || '');
      chart.canvas.setAttribute('aria-label', (chart.options.title || 'chart') + '. ' + text);
      chart.place_handles();
    };
    return figure;
  };

  /* A plain table. head: texts; rows: lists of texts, numbers or nodes. */
  ice.table = function (head, rows) {
    return ice.el('table', {},
      ice.el('thead', {}, ice.el('tr', {}, head.map((text) => ice.el('th', { scope: 'col', text })))),
      ice.el('tbody', {}, rows.map((row) => ice.el('tr', {}, row.map((cell) =>
        (cell instanceof Node ? ice.el('td', {}, cell)
          : ice.el('td', { class: typeof cell === 'number' ? 'number' : null,
            text: typeof cell === 'number' ? ice.number(cell, 5) : cell })))))));
  };

  /* The values of all series that share their x, side by side; else one below the other. */
  function table_of(chart) {
    const { x, y, series } = chart.options;
    const first = series[0];
    if (!first) return { head: ['x', 'y'], rows: [] };
    const name_x = (x.label || 'x') + (x.unit ? ' (' + x.unit + ')' : '');
    const name_y = (s) => (s.name || y.label || 'y') + (y.unit ? ' (' + y.unit + ')' : '');
    const text_x = (v) => (x.time ? new Date(v * 1000).toISOString() : v);
    const rows = [];
    if (series.every((s) => s.x === first.x)) {
      const count = first.x.length;
      for (let i = 0; i < count; i++) rows.push([text_x(first.x[i]), ...series.map((s) => s.y[i] * (s.factor || 1))]);
      return { head: [name_x, ...series.map(name_y)], rows };
    }
    for (const s of series) {
      const count = s.x.length;
      for (let i = 0; i < count; i++) rows.push([s.name || '', text_x(s.x[i]), s.y[i] * (s.factor || 1)]);
    }
    return { head: ['series', name_x, (y.label || 'y') + (y.unit ? ' (' + y.unit + ')' : '')], rows };
  }

  /* One line about values: median, where 90 % lie, how many. */
  ice.say_values = function (values, unit) {
    const sorted = ice.sorted(values);
    if (!sorted.length) return 'no values yet';
    const q = (at) => ice.quantity(ice.quantile(sorted, at), unit);
    const of = unit ? ' ' + unit : '';
    if (sorted.length === 1) return 'one value, ' + q(0.5) + of;
    return 'median ' + q(0.5) + of + ', 90 % from ' + q(0.05) + ' to ' + q(0.95) + of + ', ' + ice.count(sorted.length) + ' values';
  };
})(window.ice);
