/* Shared by all controls: one question before what cannot be taken back, the command line that does the same, and the
 * answer in words. */
(function (ice) {
  'use strict';

  const SAFE = /^[\w@%+=:,./…-]+$/;
  const quote = (word) => (SAFE.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'");

  /* The command line of a control: ice.command('retry', ['--stage', 'refiner']) names the folder of this session. */
  ice.command = function (name, words) {
    const session = ice.store.session || {};
    const folder = session.folder || session.path || 'SESSION';
    return ['icestream', name, '--session', folder, ...(words || [])].map((word) => quote(String(word))).join(' ');
  };

  /* A line of the command with a button that copies it. */
  ice.command_line = function (text) {
    const said = ice.el('span', { class: 'quiet', role: 'status' });
    const copy = ice.el('button', { type: 'button', class: 'small', text: 'copy', 'aria-label': 'Copy the command',
      on: { click: async () => {
        await ice.copy(text);
        said.textContent = 'copied';
        setTimeout(() => { said.textContent = ''; }, 2000);
      } } });
    return ice.el('div', { class: 'command' }, ice.el('code', { text, tabindex: 0 }), copy, said);
  };

  /* Asks once. question: {title, text, action, command}. Resolves with true or false. */
  ice.ask = function (question) {
    return new Promise((resolve) => {
      const box = ice.el('dialog', { class: 'ask', 'aria-labelledby': 'ask-title', 'aria-describedby': 'ask-text' },
        ice.el('h2', { id: 'ask-title', text: question.title }),
        ice.el('p', { id: 'ask-text', text: question.text }),
        question.command && ice.command_line(question.command),
        ice.el('div', { class: 'buttons' },
          ice.el('button', { type: 'button', text: 'Cancel', on: { click: () => box.close('no') } }),
          ice.el('button', { type: 'button', class: 'danger', text: question.action, on: { click: () => box.close('yes') } })));
      box.addEventListener('close', () => {
        const answer = box.returnValue === 'yes';
        box.remove();
        resolve(answer);
      });
      box.addEventListener('keydown', (event) => event.stopPropagation());
      document.body.append(box);
      box.showModal();
      box.querySelector('.buttons button').focus();
    });
  };

  /* A line of words that says how a control went; it speaks to screen readers. */
  ice.answer_line = () => ice.el('p', { class: 'answer', role: 'status' });

  /* Sends a control, after question where there is one, and puts the answer into `line`. Resolves with the answer, or
   * null where the user said no. */
  ice.control = async function (body, line, question) {
    if (question && !(await ice.ask(question))) return null;
    line.className = 'answer';
    line.textContent = 'asked …';
    const answer = await ice.post(body);
    line.className = answer.ok ? 'answer good' : 'answer bad';
    line.textContent = (answer.ok ? '✓ ' : '▲ ') + (answer.message || (answer.ok ? 'done' : 'refused'));
    if (answer.ok) ice.store.resync().catch(() => {}); // a lost connection is said by the head bar
    return answer;
  };

  /* A button that is greyed, with the reason, where this token may only look. */
  ice.control_button = function (what, attributes, act) {
    const may = ice.store.may(what);
    return ice.el('button', Object.assign({ type: 'button', disabled: !may, 'data-may': what,
      title: may ? null : 'this page may only look', on: { click: act } }, attributes));
  };
})(window.ice);
