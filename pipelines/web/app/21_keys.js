/* Keys of the page, and the sheet that explains them. */
(function (ice) {
  'use strict';

  /* Keys that a section wants while its tab is open: section.keys = {key: function(event)}. */
  const typing = (node) => node && (node.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName));

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector('dialog[open]')) return;
    if (typing(event.target)) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (event.key === '?') {
      ice.show_help();
      event.preventDefault();
      return;
    }
    const digit = /^[1-9]$/.test(event.key) ? document.querySelectorAll('#tabs a')[Number(event.key) - 1] : null;
    if (digit) {
      digit.click();
      event.preventDefault();
      return;
    }
    for (const section of ice.open_sections()) {
      const act = section.keys && section.keys[event.key];
      if (act && act(event) !== false) {
        event.preventDefault();
        return;
      }
    }
  });

  const KEYS = [
    ['1 to 9', 'open a tab'],
    ['/', 'write a filter'],
    ['← → ↑ ↓, Home, End, Page Up, Page Down', 'move in the gallery, the ledger and charts'],
    ['Enter', 'open what is marked'],
    ['Esc', 'back'],
    ['j, k', 'next and previous exposure'],
    ['p', 'picks on and off'],
    ['x', 'mark the exposure as rejected, or take the mark back'],
    ['0', 'show all of a chart'],
    ['?', 'this help'],
  ];

  let dialog = null;
  ice.show_help = function () {
    if (!dialog) {
      dialog = ice.el('dialog', { 'aria-labelledby': 'help-title' },
        ice.el('h2', { id: 'help-title', text: 'Keys' }),
        ice.el('dl', { class: 'keys' }, KEYS.map(([key, what]) => [ice.el('dt', { text: key }), ice.el('dd', { text: what })])),
        ice.el('h2', { text: 'Signs' }),
        ice.el('p', {}, ice.states.map((s) => [ice.state_mark(s.key), ' '])),
        ice.el('h2', { text: 'Charts' }),
        ice.el('p', { text: 'Click a point to open its exposure. Drag to zoom, double click to show all. The handles at the right ' +
          'edge are thresholds: they count what would be kept and change nothing. Each chart has its data as a table.' }),
        ice.el('form', { method: 'dialog' }, ice.el('button', { text: 'Close' })));
      document.body.append(dialog);
    }
    if (!dialog.open) dialog.showModal();
  };
})(window.ice);
