/* Starts the page, when all sections have registered. */
(function (ice) {
  'use strict';

  ice.start_frame();
  ice.store.start();
})(window.ice);
