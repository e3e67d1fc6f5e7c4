/* The surface of a map: a WebGL2 renderer of our own. Drag, wheel and keys turn and magnify; nothing moves by itself. */
(function (ice) {
  'use strict';

  const VERTEX = `#version 300 es
    layout(location = 0) in vec3 place;
    layout(location = 1) in vec3 normal;
    layout(location = 2) in float light;
    uniform mat3 turn;
    uniform vec3 centre;
    uniform vec2 scale;
    out vec3 facing;
    out vec3 where;
    out float open;
    out float radius;
    void main() {
      vec3 p = turn * (place - centre);
      facing = turn * normal;
      where = p;
      open = light;
      radius = length(place - centre);
      float nearer = 1.0 / (1.0 - 0.16 * p.z);
      gl_Position = vec4(p.xy * scale * nearer, -0.5 * p.z, 1.0);
    }`;

  /* Three lights that stay with the eye, the shade of hollows, and a darker rim so that the outline reads. */
  const FRAGMENT = `#version 300 es
    precision highp float;
    in vec3 facing;
    in vec3 where;
    in float open;
    in float radius;
    uniform vec3 near_colour;
    uniform vec3 far_colour;
    uniform vec3 ground;
    uniform vec2 radii;
    out vec4 colour;
    void main() {
      vec3 n = normalize(facing);
      if (!gl_FrontFacing) {
        n = -n;
      }
      vec3 key = normalize(vec3(-0.45, 0.65, 0.75));
      vec3 fill = normalize(vec3(0.8, -0.1, 0.5));
      vec3 halfway = normalize(key + vec3(0.0, 0.0, 1.0));
      float sky = 0.5 + 0.5 * n.y;
      float part = clamp((radius - radii.x) / max(radii.y - radii.x, 1e-3), 0.0, 1.0);
      vec3 base = mix(near_colour, far_colour, part);
      vec3 lit = base * (0.26 + 0.16 * sky + 0.58 * max(dot(n, key), 0.0) + 0.16 * max(dot(n, fill), 0.0));
      lit *= mix(0.34, 1.08, open);
      lit *= mix(0.55, 1.0, smoothstep(0.0, 0.5, n.z));
      lit += 0.14 * pow(max(dot(n, halfway), 0.0), 36.0) * open;
      float depth = clamp(0.5 - 0.62 * where.z, 0.0, 1.0);
      colour = vec4(mix(lit, ground, 0.42 * depth * depth), 1.0);
    }`;

  function multiply(a, b) { // quaternions [x, y, z, w]
    return [
      a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
      a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0],
      a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3],
      a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]];
  }

  function about(x, y, z, angle) {
    const s = Math.sin(angle / 2);
    return [x * s, y * s, z * s, Math.cos(angle / 2)];
  }

  function matrix(q) { // columns, as WebGL takes them
    const [x, y, z, w] = q;
    return new Float32Array([
      1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w),
      2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w),
      2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)]);
  }

  function program(gl) {
    const made = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    return gl.getProgramParameter(made, gl.LINK_STATUS) ? made : null;
  }

  const START = multiply(about(1, 0, 0, 0.42), about(0, 1, 0, -0.5));

  /* True if the processor draws, for want of a graphics card. There antialiasing costs more than all else, so the surface
   * is drawn coarse while it moves, and finer than the screen when it rests. */
  let soft = null;
  function is_soft() {
    if (soft !== null) return soft;
    const gl = document.createElement('canvas').getContext('webgl2');
    const names = gl && gl.getExtension('WEBGL_debug_renderer_info');
    soft = !!gl && /swiftshader|llvmpipe|softpipe|software|basic render/i.test(gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
    const end = gl && gl.getExtension('WEBGL_lose_context');
    if (end) end.loseContext();
    return soft;
  }
  const MOVING = 0.5;
  const RESTING = 1.5;

  /* Draws on `canvas`. Returns null where WebGL2 is off, else {show(mesh, fresh: a new map), colours(set), turn(x, y), zoom(by), home(),
   * picture(), release(), frame()}: the mesh is worker.js's; lost() is told when the browser takes the context away. */
  ice.surface = (canvas, lost) => {
    const gl = canvas.getContext('webgl2', {antialias: !is_soft(), alpha: false, powerPreference: 'low-power'});
    const made = gl && program(gl);
    if (!made) {
      return null;
    }
    const at = {};
    for (const name of ['turn', 'centre', 'scale', 'near_colour', 'far_colour', 'ground', 'radii']) {
      at[name] = gl.getUniformLocation(made, name);
    }
    const array = gl.createVertexArray();
    const vertices = gl.createBuffer();
    const indices = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indices);
    [[0, 3, 0], [1, 3, 12], [2, 1, 24]].forEach(([place, size, offset]) => {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, gl.FLOAT, false, 28, offset);
    });
    gl.enable(gl.DEPTH_TEST);

    let count = 0;
    let asked = 0;
    let gone = false;
    let pose = START;
    let zoom = 1;
    let moving = false;
    let rest = 0;
    let radii = [0, 1];
    let centre = [0, 0, 0];
    let reach = 1;
    let colours = {near: [0.5, 0.6, 0.75], far: [0.5, 0.6, 0.75], ground: [0.06, 0.07, 0.09]};

    function draw() {
      asked = 0;
      if (gone) {
        return;
      }
      const dense = is_soft() ? (moving ? MOVING : RESTING) : Math.min(window.devicePixelRatio || 1, 2);
      const width = Math.max(1, Math.round(canvas.clientWidth * dense));
      const height = Math.max(1, Math.round(canvas.clientHeight * dense));
      if (canvas.width !== width || canvas.height !== height) {
        canvas.width = width;
        canvas.height = height;
      }
      const edge = Math.min(width, height);
      gl.viewport(0, 0, width, height);
      gl.clearColor(...colours.ground, 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      if (count > 0) {
        const size = zoom * 0.9 / reach;
        gl.useProgram(made);
        gl.uniformMatrix3fv(at.turn, false, matrix(pose));
        gl.uniform3fv(at.centre, centre);
        gl.uniform2f(at.scale, size * edge / width, size * edge / height);
        gl.uniform3fv(at.near_colour, colours.near);
        gl.uniform3fv(at.far_colour, colours.far);
        gl.uniform3fv(at.ground, colours.ground);
        gl.uniform2fv(at.radii, radii);
        gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 0);
      }
    }

    function move() {
      moving = true;
      clearTimeout(rest);
      rest = setTimeout(() => {
        moving = false;
        soon();
      }, 250);
      soon();
    }

    function soon() {
      asked = asked || requestAnimationFrame(draw);
    }

    /* Looks at the middle of the first mesh of a map; other levels of that map are seen from the same place. */
    function look(list) {
      const low = [1, 1, 1];
      const high = [-1, -1, -1];
      for (let v = 0; v + 2 < list.length; v += 7) {
        for (let c = 0; c < 3; c++) {
          low[c] = Math.min(low[c], list[v + c]);
          high[c] = Math.max(high[c], list[v + c]);
        }
      }
      centre = low.map((part, c) => (part + high[c]) / 2);
    }

    function show(mesh, fresh) {
      const list = mesh.vertices;
      if (fresh && list.length) look(list);
      const radius = [];
      const step = 7 * Math.max(1, Math.floor(list.length / 7 / 4000));
      for (let v = 0; v + 2 < list.length; v += step) {
        radius.push(Math.hypot(list[v] - centre[0], list[v + 1] - centre[1], list[v + 2] - centre[2]));
      }
      radius.sort((a, b) => a - b);
      if (radius.length) radii = [0.02, 0.995].map((part) => radius[Math.floor(part * radius.length)]);
      if (fresh) reach = Math.max(radii[1], 0.1);
      gl.bindVertexArray(array);
      gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
      gl.bufferData(gl.ARRAY_BUFFER, list, gl.DYNAMIC_DRAW);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, mesh.indices, gl.DYNAMIC_DRAW);
      count = mesh.indices.length;
      move();
    }

    function turn(x, y) {
      pose = multiply(multiply(about(0, 1, 0, x), about(1, 0, 0, y)), pose);
      const length = Math.hypot(...pose);
      pose = pose.map((part) => part / length);
      move();
    }

    function magnify(by) {
      zoom = Math.min(Math.max(zoom * by, 0.3), 8);
      move();
    }

    function home() {
      pose = START;
      zoom = 1;
      soon();
    }

    let held = null;
    canvas.addEventListener('pointerdown', (event) => {
      held = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (held) {
        turn((event.clientX - held[0]) / 140, (event.clientY - held[1]) / 140);
        held = [event.clientX, event.clientY];
      }
    });
    canvas.addEventListener('pointerup', () => {
      held = null;
    });
    canvas.addEventListener('pointercancel', () => {
      held = null;
    });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      magnify(Math.exp(-event.deltaY / 600));
    }, {passive: false});
    canvas.addEventListener('dblclick', home);
    canvas.addEventListener('keydown', (event) => {
      const keys = {ArrowLeft: () => turn(-0.15, 0), ArrowRight: () => turn(0.15, 0), ArrowUp: () => turn(0, -0.15),
        ArrowDown: () => turn(0, 0.15), '+': () => magnify(1.15), '=': () => magnify(1.15),
        '-': () => magnify(1 / 1.15), '0': home, Home: home};
      if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        event.stopPropagation();
        keys[event.key]();
      }
    });
    canvas.addEventListener('webglcontextlost', (event) => {
      event.preventDefault();
      const released = gone;
      gone = true;
      if (!released && lost) lost();
    });
    const resized = new ResizeObserver(soon);
    resized.observe(canvas);

    return {
      show, turn, zoom: magnify, home,
      colours: (set) => {
        colours = {...colours, ...set};
        soon();
      },
      picture: () => {
        moving = false;
        draw();
        return new Promise((done) => canvas.toBlob(done, 'image/png'));
      },
      frame: () => {
        move();
        const began = performance.now();
        draw();
        gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)); // waits until it is drawn
        return performance.now() - began;
      },
      release: () => {
        resized.disconnect();
        clearTimeout(rest);
        cancelAnimationFrame(asked);
        const end = gl.getExtension('WEBGL_lose_context');
        gone = true;
        if (end) {
          end.loseContext();
        }
      }
    };
  };
})(window.ice);
