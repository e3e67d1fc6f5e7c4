/* The shared object `ice`: elements, requests and sections. Modules are loaded in the order of CMakeLists.txt. */
window.ice = {};
(function (ice) {
  'use strict';

  /* Makes an element. attributes: {class, text, on: {event: function}, style: {name: value}, anything: value}; a value
   * of null or false leaves the attribute out. children: nodes, strings, arrays of these. Strings become text, never
   * markup: names of files and lines of logs come from outside. */
  ice.el = function (tag, attributes, ...children) {
    const node = document.createElement(tag);
    set_attributes(node, attributes || {});
    append(node, children);
    return node;
  };

  const SVG = 'http://www.w3.org/2000/svg';
  ice.svg = function (tag, attributes, ...children) {
    const node = document.createElementNS(SVG, tag);
    set_attributes(node, attributes || {});
    append(node, children);
    return node;
  };

  function set_attributes(node, attributes) {
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === 'on') for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (key === 'style') for (const [name, it] of Object.entries(value)) node.style.setProperty(name, it);
      else if (key === 'text') node.textContent = value;
      else node.setAttribute(key, value === true ? '' : value);
    }
  }

  function append(node, children) {
    for (const child of children) {
      if (child === null || child === undefined || child === false) continue;
      if (Array.isArray(child)) append(node, child);
      else node.append(child);
    }
  }

  /* Puts these children in place of all others. */
  ice.fill = function (node, ...children) {
    node.replaceChildren();
    append(node, children);
    return node;
  };

  /* Sets text only where it differs, so that an idle page changes nothing. */
  ice.text = function (node, text) {
    if (node.textContent !== text) node.textContent = text;
  };

  /* Fetches JSON; null: the server has nothing to say. Rejects with an Error that has `status` (0: no answer) and the server's message. */
  ice.api = async function (path, options) {
    let answer;
    try {
      answer = await fetch(path, options || { cache: 'no-store', signal: AbortSignal.timeout(30000) });
    } catch (error) {
      throw failure(0, error.name === 'AbortError' ? 'aborted' : 'the server does not answer');
    }
    if (answer.status === 204) return null; // there is nothing of it
    let body = null;
    try {
      body = await answer.json();
    } catch (error) {
      if (answer.ok) throw failure(answer.status, path + ': the answer is no JSON');
    }
    if (!answer.ok) throw failure(answer.status, (body && body.message) || path + ': ' + answer.status);
    return body;
  };

  /* Sends a control. Resolves with {ok, changed, message}, also when the server refuses. */
  ice.post = async function (body) {
    try {
      return await ice.api('api/control', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Icestream': '1' },
        body: JSON.stringify(body),
      });
    } catch (error) {
      return { ok: false, changed: 0, message: error.message };
    }
  };

  function failure(status, message) {
    const error = new Error(message);
    error.status = status;
    return error;
  }

  /* Says something to a screen reader. Alarms and answers to what a user did only. */
  ice.speak = function (text) {
    document.getElementById('speak').textContent = text;
  };

  /* Registers a section:
   * {id, title, view: the tab it is in (default: id), order, stages: programs of which the graph needs one (default: any
   * graph), when(session): draw it at all (default: yes), tab: false for a section that is reached by links only,
   * draw(root, section): makes it once, when its tab is first opened,
   * update(kind, detail): 'shown' | 'hidden' | 'session' | 'status' | 'rows' | 'product' | 'alarm' | 'route' | 'theme' |
   * 'size' | 'thresholds'; sent only while its tab is open, and 'shown' each time that it opens}. */
  ice.sections = [];
  ice.section = function (section) {
    section.view = section.view || section.id;
    section.drawn = false;
    ice.sections.push(section);
  };

  /* Text for the clipboard; where the browser refuses (plain http to another host), through a text field. */
  ice.copy = async function (text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch (error) {
      const field = ice.el('textarea', { class: 'unseen' });
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand('copy');
      field.remove();
    }
  };

  /* Offers text as a file. */
  ice.download = function (name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = ice.el('a', { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
})(window.ice);
