"use strict";
/* A bag as a map: instance scores at the coordinates of the instances, with pan and zoom. */
const makeSlideMap = (() => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const decoded = new Map();

  function rgb(name) {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
    const hex = probe.fillStyle;
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  /* From one color over gray to the other. */
  function colors() {
    const ends = [rgb("--neg"), [222, 222, 222], rgb("--pos")], out = new Uint8ClampedArray(256 * 4);
    for (let v = 1; v < 256; v++) {
      const t = 2 * (v - 1) / 254, a = ends[t < 1 ? 0 : 1], b = ends[t < 1 ? 1 : 2], u = t < 1 ? t : t - 1;
      for (let c = 0; c < 3; c++) out[4 * v + c] = a[c] + u * (b[c] - a[c]);
      out[4 * v + 3] = 255;
    }
    return out;
  }
  function button(sign, label, act) {
    const node = document.createElement("button");
    node.type = "button"; node.textContent = sign;
    node.setAttribute("aria-label", label); node.title = label;
    node.addEventListener("click", act);
    return node;
  }

  return ({ frame, cells, marks, label, onPick }) => {
    const [w, h, left, top, side] = frame;
    if (!decoded.has(cells)) { decoded.clear(); decoded.set(cells, bytes(cells)); }
    const values = decoded.get(cells), picture = document.createElement("canvas");
    picture.width = w; picture.height = h;
    const box = document.createElement("div"), canvas = document.createElement("canvas");
    box.className = "map"; canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${label}. Arrow keys move the map, plus and minus zoom, 0 shows the whole map.`);
    const readout = document.createElement("div");
    readout.className = "map-readout";
    const tools = document.createElement("div");
    tools.className = "map-tools";
    let zoom = 1, x0 = 0, y0 = 0, chosen = null, dragged = null, moved = false;

    function paint() {
      const table = colors(), image = new ImageData(w, h);
      for (let i = 0; i < w * h; i++) for (let c = 0; c < 4; c++) image.data[4 * i + c] = table[4 * values[i] + c];
      picture.getContext("2d").putImageData(image, 0, 0);
    }
    /* Pixels per cell when the whole map is shown. */
    const fit = () => Math.min(canvas.clientWidth / w, canvas.clientHeight / h);
    const scale = () => fit() * zoom;
    function clamp() {
      zoom = Math.max(1, Math.min(60, zoom));
      const wide = canvas.clientWidth / scale(), high = canvas.clientHeight / scale();
      x0 = wide >= w ? (w - wide) / 2 : Math.max(0, Math.min(w - wide, x0));
      y0 = high >= h ? (h - high) / 2 : Math.max(0, Math.min(h - high, y0));
    }
    const onScreen = (x, y) => [((x - left) / side + 0.5 - x0) * scale(), ((y - top) / side + 0.5 - y0) * scale()];
    function draw() {
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(canvas.clientHeight * ratio);
      clamp();
      const pen = canvas.getContext("2d"), s = scale();
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(picture, -x0 * s, -y0 * s, w * s, h * s);
      for (const mark of marks) {
        const [x, y] = onScreen(mark.x, mark.y), own = mark.k === chosen;
        pen.beginPath();
        pen.arc(x, y, Math.max(own ? 8 : 4, 0.8 * s), 0, 2 * Math.PI);
        pen.lineWidth = own ? 3.5 : 1.5;
        pen.setLineDash(mark.high ? [] : [3, 2]);
        pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
        pen.stroke();
      }
      canvas.dataset.zoom = zoom.toFixed(2);
      canvas.dataset.at = `${x0.toFixed(2)} ${y0.toFixed(2)}`;
    }
    function zoomAt(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
      const cx = x0 + px / scale(), cy = y0 + py / scale();
      zoom *= factor; zoom = Math.max(1, Math.min(60, zoom));
      x0 = cx - px / scale(); y0 = cy - py / scale();
      draw();
    }
    function shift(dx, dy) { x0 += dx / scale(); y0 += dy / scale(); draw(); }
    function all() { zoom = 1; draw(); }
    function tell(event) {
      const i = Math.floor(x0 + event.offsetX / scale()), j = Math.floor(y0 + event.offsetY / scale());
      const v = i >= 0 && j >= 0 && i < w && j < h ? values[j * w + i] : 0;
      const percent = Math.round((v - 1) / 2.54);
      readout.textContent = v ? `x ${Math.round(left + i * side)}, y ${Math.round(top + j * side)}: mean percentile ${percent} among all instances` : "\u00a0";
    }
    function pick(event) {
      let best = null, least = 14 * 14;
      for (const mark of marks) {
        const [x, y] = onScreen(mark.x, mark.y), d = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
        if (d < least) { least = d; best = mark; }
      }
      if (best) onPick(best.k);
    }
    canvas.addEventListener("wheel", (event) => {
      /* The wheel scrolls the page unless the map was clicked before. */
      if (document.activeElement !== canvas && !event.ctrlKey) return;
      event.preventDefault();
      zoomAt(Math.exp(-0.0015 * event.deltaY), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { dragged = [event.clientX, event.clientY]; moved = false; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      tell(event);
      if (!dragged) return;
      const [dx, dy] = [dragged[0] - event.clientX, dragged[1] - event.clientY];
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true; dragged = [event.clientX, event.clientY];
      shift(dx, dy);
    });
    canvas.addEventListener("pointerup", (event) => { if (dragged && !moved) pick(event); dragged = null; });
    canvas.addEventListener("pointercancel", () => { dragged = null; });
    canvas.addEventListener("dblclick", (event) => zoomAt(2, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-40, 0], ArrowRight: [40, 0], ArrowUp: [0, -40], ArrowDown: [0, 40] }[event.key];
      if (step) shift(...step);
      else if (event.key === "+" || event.key === "=") zoomAt(1.5);
      else if (event.key === "-") zoomAt(1 / 1.5);
      else if (event.key === "0") all();
      else return;
      event.preventDefault();
    });
    tools.append(button("+", "Zoom in", () => zoomAt(1.5)), button("\u2212", "Zoom out", () => zoomAt(1 / 1.5)), button("all", "Show the whole map", all));
    readout.textContent = "\u00a0";
    box.append(canvas, tools, readout);
    paint();
    new ResizeObserver(draw).observe(canvas);
    const theme = document.getElementById("theme");
    const again = () => (box.isConnected ? (paint(), draw()) : theme.removeEventListener("click", again));
    theme.addEventListener("click", again);
    return { node: box, choose(k) { chosen = k; if (box.isConnected) draw(); } };
  };
})();
