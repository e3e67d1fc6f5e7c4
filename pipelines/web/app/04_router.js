/* The state of the page in the hash of its address: #view/argument?key=value. A link or a reload shows the same. */
(function (ice) {
  'use strict';

  ice.route = { view: 'overview', argument: '', query: new URLSearchParams() };

  function read() {
    const text = location.hash.replace(/^#/, '') || 'overview';
    const cut = text.indexOf('?');
    const path = cut < 0 ? text : text.slice(0, cut);
    const slash = path.indexOf('/');
    ice.route = {
      view: slash < 0 ? path : path.slice(0, slash),
      argument: slash < 0 ? '' : decode(path.slice(slash + 1)),
      query: new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1)),
    };
  }

  function decode(text) {
    try {
      return decodeURIComponent(text);
    } catch (error) {
      return text;
    }
  }

  /* Opens a view: ice.go('exposure/12'), ice.go('ledger?f=rejected'). */
  ice.go = function (hash) {
    location.hash = hash;
    moved(); // at once: the event comes later, and a second key may come before it
  };

  function compose() {
    const { view, argument, query } = ice.route;
    const rest = query.toString();
    return '#' + view + (argument ? '/' + encodeURIComponent(argument) : '') + (rest ? '?' + rest : '');
  }

  /* Reads a value of the query, or sets it in place, without a step of the history. null or '': leaves it out. */
  ice.query = function (key, value) {
    if (arguments.length === 1) return ice.route.query.get(key) || '';
    if (value === null || value === '') ice.route.query.delete(key);
    else ice.route.query.set(key, value);
    history.replaceState(null, '', compose());
    seen = location.hash;
    return value;
  };

  ice.on_route = [];
  let seen = location.hash;
  function moved() {
    if (location.hash === seen) return;
    seen = location.hash;
    read();
    for (const act of ice.on_route) act();
  }
  window.addEventListener('hashchange', moved);
  read();
})(window.ice);
