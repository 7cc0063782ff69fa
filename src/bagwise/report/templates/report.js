"use strict";
(() => {
  /* Objects without a prototype: methods may have names such as "constructor". */
  const D = JSON.parse(document.getElementById("data").textContent, (key, value) =>
    (value && typeof value === "object" && !Array.isArray(value) ? Object.assign(Object.create(null), value) : value));
  const byId = (id) => document.getElementById(id);
  const NS = "http://www.w3.org/2000/svg";
  const colorOf = (name) => "c" + (D.methods.find((m) => m.name === name).color % 16);

  /* Text becomes text nodes and attributes only, never markup. */
  function el(tag, attrs = {}, ...kids) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attrs)) {
      if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...kids.filter((kid) => kid !== null && kid !== undefined));
    return node;
  }
  function svg(tag, attrs = {}, text) {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /* Theme: that of the system unless the reader has chosen one. */
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  /* Axes of a chart with grid lines and labels; returns the scales. */
  function frame(box, opts) {
    const W = Math.round(Math.max(300, Math.min(opts.most || 560, box.clientWidth || 480)));
    const H = Math.round(W * (opts.ratio || 0.68)), L = opts.ylabel ? 60 : 42, R = 14, T = 10, B = 40;
    const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": opts.label });
    const x = (v) => L + (opts.fx ? opts.fx(v) : (v - opts.x[0]) / (opts.x[1] - opts.x[0])) * (W - L - R);
    const y = (v) => H - B - ((v - opts.y[0]) / (opts.y[1] - opts.y[0])) * (H - T - B);
    for (const t of opts.xticks) {
      root.append(svg("line", { class: "gridline", x1: x(t.v), x2: x(t.v), y1: T, y2: H - B }));
      root.append(svg("text", { x: x(t.v), y: H - B + 17, "text-anchor": "middle" }, t.t));
    }
    for (const t of opts.yticks) {
      root.append(svg("line", { class: "gridline", x1: L, x2: W - R, y1: y(t.v), y2: y(t.v) }));
      root.append(svg("text", { x: L - 8, y: y(t.v) + 4, "text-anchor": "end" }, t.t));
    }
    root.append(svg("line", { class: "axisline", x1: L, x2: W - R, y1: H - B, y2: H - B }));
    root.append(svg("text", { x: (L + W - R) / 2, y: H - 5, "text-anchor": "middle" }, opts.xlabel));
    if (opts.ylabel) root.append(svg("text", { class: "ylabel", transform: `translate(13 ${(T + H - B) / 2}) rotate(-90)`, "text-anchor": "middle" }, opts.ylabel));
    box.closest("figure").classList.remove("hollow");
    box.replaceChildren(root);
    return { root, x, y, W, H, L, R, T, B };
  }
  const unitTicks = [0, 0.25, 0.5, 0.75, 1].map((v) => ({ v, t: String(v) }));
  const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "\u2026" : text);
  const fixed = (v, n = 3) => (v === null || v === undefined ? "\u2013" : v.toFixed(n));
  const show = (v) => (D.unit ? v.toFixed(3) : String(Number(v.toPrecision(4))));
  function empty(box, text) {
    box.closest("figure").classList.add("hollow");
    box.replaceChildren(el("p", { class: "note" }, text));
  }
  const path = (xs, ys, f) => xs.map((v, i) => `${i ? "L" : "M"}${f.x(v).toFixed(1)} ${f.y(ys[i]).toFixed(1)}`).join("");
  function titled(node, text) { node.append(svg("title", {}, text)); return node; }
  function steps(low, high, most) {
    const span = high - low, power = Math.pow(10, Math.floor(Math.log10(span / most)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => span / s <= most);
    const ticks = [], digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) {
      const v = k * step;
      ticks.push({ v, t: Math.abs(v) >= 1e5 || digits > 4 ? String(Number(v.toPrecision(3))) : v.toFixed(digits) });
    }
    return ticks;
  }

  const drawn = new Set(D.methods.slice(0, 4).map((m) => m.name));
  const two = D.positive !== null, risks = D.task === "survival", real = D.task === "regression" || risks, several = D.task === "multilabel";
  let C = D.curves[0];  // the curves of one class, or of all

  /* Curves with a legend in a corner. */
  function lines(box, curves, opts) {
    const f = frame(box, { x: [0, 1], y: [0, 1], xticks: unitTicks, yticks: unitTicks, ...opts });
    if (opts.diagonal) f.root.append(svg("line", { x1: f.x(0), y1: f.y(0), x2: f.x(1), y2: f.y(1), class: "guide" }));
    if (opts.level !== undefined) f.root.append(titled(svg("line", { x1: f.x(0), y1: f.y(opts.level), x2: f.x(1), y2: f.y(opts.level), class: "guide" }), `share of bags of the class: ${opts.level.toFixed(3)}`));
    const names = D.methods.map((m) => m.name).filter((n) => drawn.has(n) && curves[n]);
    [...names].reverse().forEach((name) => {
      const c = curves[name];
      f.root.append(titled(svg("path", { class: "line " + colorOf(name), d: path(c.x, c.y, f) }), `${name}: ${opts.area} ${c.area.toFixed(3)}`));
    });
    const left = opts.left ? f.x(0) + 12 : f.W - 226;
    names.slice(0, 8).forEach((name, i) => {
      const ty = f.y(0) - 12 - (Math.min(names.length, 8) - 1 - i) * 17;
      f.root.append(svg("rect", { x: left, y: ty - 8, width: 14, height: 4, rx: 2, class: "pt " + colorOf(name) }));
      f.root.append(svg("text", { x: left + 20, y: ty - 2, class: "lab halo" }, `${cut(name, 22)}  ${curves[name].area.toFixed(3)}`));
    });
  }
  const noCurve = "No curve: no method has scores, or the test bags are of one class only.";
  function drawRoc() {
    const box = byId("roc");
    if (!Object.keys(C.roc).length) return empty(box, noCurve);
    lines(box, C.roc, { xlabel: "false positive rate", ylabel: "true positive rate", label: "ROC curves", diagonal: true, area: "AUROC" });
  }
  function drawPr() {
    const box = byId("pr");
    if (!Object.keys(C.pr).length) return empty(box, noCurve);
    const total = D.n_bags, k = C.class === null ? D.positive : C.class;
    const level = k === null ? undefined : D.counts[k] / total;
    byId("pr-about").textContent = "all test bags of a repeat together; legend: average precision" + (k === null ? "" : `; dashed: share of bags of ${cut(D.classes[k], 20)}`);
    lines(box, C.pr, { xlabel: "recall", ylabel: "precision", label: "Precision-recall curves", area: "average precision", left: true, level });
  }

  function drawCalibration() {
    const box = byId("calibration");
    const with_p = D.methods.map((m) => m.name).filter((n) => C.calibration[n]);
    if (!with_p.length) return empty(box, "None of these methods predicts probabilities.");
    let names = with_p.filter((n) => drawn.has(n));
    const instead = !names.length;
    if (instead) names = with_p.slice(0, 3);
    const f = frame(box, { x: [0, 1], y: [0, 1], xticks: unitTicks, yticks: unitTicks, xlabel: "predicted probability", ylabel: "observed frequency", label: "Calibration curves" });
    f.root.append(svg("line", { x1: f.x(0), y1: f.y(0), x2: f.x(1), y2: f.y(1), class: "guide" }));
    for (const name of [...names].reverse()) {
      const bins = C.calibration[name], c = colorOf(name);
      f.root.append(svg("path", { class: "line " + c, d: path(bins.map((b) => b.predicted), bins.map((b) => b.observed), f) }));
      for (const b of bins) {
        f.root.append(svg("line", { class: "whisker " + c, x1: f.x(b.predicted), x2: f.x(b.predicted), y1: f.y(b.low), y2: f.y(b.high) }));
        f.root.append(titled(svg("circle", { class: "pt " + c, cx: f.x(b.predicted), cy: f.y(b.observed), r: 4.5 }),
          `${name}: predicted ${b.predicted.toFixed(2)}, observed ${b.observed.toFixed(2)} (95% interval ${b.low.toFixed(2)} to ${b.high.toFixed(2)}) for ${b.n} bags`));
      }
    }
    names.slice(0, 8).forEach((name, i) => {
      f.root.append(svg("rect", { x: f.x(0) + 10, y: f.T + 8 + i * 17, width: 14, height: 4, rx: 2, class: "pt " + colorOf(name) }));
      f.root.append(svg("text", { x: f.x(0) + 30, y: f.T + 14 + i * 17, class: "lab halo" }, cut(name, 26)));
    });
    if (instead) f.root.append(svg("text", { x: f.x(1) - 6, y: f.y(0) - 10, "text-anchor": "end" }, "methods with probabilities"));
  }

  function niceMax(v) {
    const p = Math.pow(10, Math.floor(Math.log10(v)));
    return [1, 2, 3, 4, 5, 6, 8, 10].map((k) => k * p).find((k) => k >= v);
  }
  const hm = byId("histogram-method");
  function fillHistogram() {
    const before = hm.value;
    hm.replaceChildren(...D.methods.filter((m) => C.histograms[m.name]).map((m) => el("option", { value: m.name }, m.name)));
    if (C.histograms[before]) hm.value = before;
    hm.hidden = !hm.options.length;
  }
  function drawHistogram() {
    const box = byId("histogram"), h = C.histograms[hm.value], about = byId("histogram-about");
    about.textContent = "";
    if (!h) return empty(box, !two && C.class === null ? (D.curves.length > 1 ? `Choose a ${several ? "label" : "class"} above.` : "Shown for at most eight classes.") : "These methods have no scores.");
    about.textContent = "number of test bags by out-of-fold decision value" + (h.threshold ? "; dashed: decision threshold" : "");
    const k = C.class === null ? D.positive : C.class, own = D.classes[k], other = two ? D.classes[1 - k] : "other classes";
    const top = niceMax(Math.max(1, ...h.own, ...h.rest)), e = h.edges, end = e[e.length - 1];
    const f = frame(box, { x: [e[0], end], y: [0, top], ratio: 0.6, label: "Scores of bags",
      xticks: [{ v: -end / 1.6, t: `\u2190 ${h.threshold ? "predicted: " : ""}${cut(other, 16)}` }, { v: 0, t: "0" }, { v: end / 1.6, t: `${h.threshold ? "predicted: " : ""}${cut(own, 16)} \u2192` }],
      yticks: [0, top / 2, top].filter(Number.isInteger).map((v) => ({ v, t: String(v) })), xlabel: "decision value, scaled within each fold", ylabel: "test bags" });
    [["rest", "hneg"], ["own", "hpos"]].forEach(([key, cls], s) => h[key].forEach((n, i) => {
      if (!n) return;
      const w = (f.x(e[i + 1]) - f.x(e[i])) / 2 - 0.6;
      f.root.append(titled(svg("rect", { class: cls, x: f.x(e[i]) + s * (w + 0.6), width: Math.max(1, w), y: f.y(n), height: f.y(0) - f.y(n), rx: 1 }), `${n} bags of ${s ? own : other}, scores ${e[i].toFixed(2)} to ${e[i + 1].toFixed(2)}${i === 0 || i === h[key].length - 1 ? " or beyond" : ""}`));
    }));
    if (h.threshold) f.root.append(svg("line", { class: "axisline", x1: f.x(0), x2: f.x(0), y1: f.T, y2: f.y(0), "stroke-dasharray": "3 3" }));
    const key = (cls, text) => el("span", {}, el("i", { class: cls }), text);
    box.append(el("div", { class: "legend" }, key("kneg", `true class: ${other}`), key("kpos", `true class: ${own}`)));
  }

  function drawTime() {
    const ms = D.methods.filter((m) => m.total !== null && m.mean !== null);
    if (!ms.length) return empty(byId("time"), "No times were measured.");
    const floor = 1e-4, log = (v) => Math.log10(Math.max(v, floor));
    const lo = Math.floor(Math.min(...ms.map((m) => log(m.total)))), hi = Math.max(lo + 1, Math.ceil(Math.max(...ms.map((m) => log(m.total)))));
    const ys = ms.map((m) => m.mean), spread = Math.max(...ys) - Math.min(...ys);
    const pad = Math.max(spread * 0.18, D.unit ? 0.02 : Math.max(1e-9, Math.abs(ys[0]) * 0.02));
    const y = [Math.min(...ys) - pad, Math.max(...ys) + pad];
    const ticks = []; for (let k = lo; k <= hi; k++) ticks.push({ v: Math.pow(10, k), t: k < 0 ? `${Number(Math.pow(10, k + 3).toPrecision(1))} ms` : `${Math.pow(10, k)} s` });
    const yt = steps(y[0], y[1], 6).filter((t) => !D.unit || (t.v >= -1e-9 && t.v <= 1 + 1e-9));
    const wide = byId("time").clientWidth > 700;
    const f = frame(byId("time"), { most: 1180, ratio: wide ? 0.36 : 0.68, fx: (v) => 0.03 + 0.94 * (log(v) - lo) / (hi - lo), y, xticks: ticks, yticks: yt, xlabel: "mean time of fit and tuning per fold", ylabel: D.metric, label: `${D.metric} against time` });
    const taken = ms.map((m) => [f.x(m.total) - 6, f.y(m.mean) - 6, f.x(m.total) + 6, f.y(m.mean) + 6]);
    for (const m of ms) {
      const cx = f.x(m.total), cy = f.y(m.mean), c = "c" + (m.color % 16), name = cut(m.name, 30);
      f.root.append(titled(svg("circle", { class: "pt " + c, cx, cy, r: 6 }), `${m.name}: ${show(m.mean)}, ${m.total.toPrecision(3)} s`));
      const w = name.length * 6.8;
      for (const [dy, right] of [4, -9, 17, -22, 30, -35, 43].flatMap((v) => [[v, true], [v, false]])) {
        const bx = right ? cx + 9 : cx - 9 - w, box = [bx, cy + dy - 10, bx + w, cy + dy + 3];
        if (taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3])) continue;
        if (box[0] < f.L - 4 || box[2] > f.W || box[1] < 0 || box[3] > f.H - f.B) continue;
        taken.push(box);
        f.root.append(svg("text", { class: "lab", x: right ? cx + 9 : cx - 9, y: cy + dy, "text-anchor": right ? "start" : "end" }, name));
        break;
      }
    }
  }

  /* Confusion matrix and metrics of one method. */
  const cm = byId("classes-method");
  function drawClasses() {
    const g = D.figures[cm.value], n = D.classes.length, m = g.rows.length;
    byId("classes-hint").textContent = `${cm.value} on ${g.n.toLocaleString("en")} test bags` + (m < n ? `; the first ${m} of ${n} classes.` : ".");
    const cell = (tag, text, cls, extra = {}) => el(tag, { class: cls, ...extra }, text);
    byId("confusion-figure").hidden = !g.matrix;
    if (g.matrix) drawConfusion(g, m, cell);
    const titles = [several ? "Label" : "Class", "Bags", "Precision", "Recall", "F1", "AUROC", "Average precision"];
    const lines = g.rows.map((r, i) => el("tr", {}, el("th", { scope: "row", title: D.classes[i] }, cut(D.classes[i], 24), i === D.positive ? el("span", { class: "badge pos" }, "positive") : ""),
      cell("td", String(r.bags), "num"), ...[r.precision, r.recall, r.f1, r.auroc, r.ap].map((v) => cell("td", fixed(v), "num"))));
    byId("class-figures").replaceChildren(el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ...titles.map((t, i) => cell("th", t, i ? "num" : "")))), el("tbody", {}, ...lines)));
  }
  function drawConfusion(g, m, cell) {
    const head = el("tr", {}, cell("th", ""), ...D.classes.slice(0, m).map((c) => cell("th", cut(c, m > 8 ? 9 : 16), "num", { scope: "col", title: c })));
    const rows = g.matrix.map((row, i) => el("tr", {}, cell("th", cut(D.classes[i], 24), "", { scope: "row", title: D.classes[i] }), ...row.map((v, j) => {
      const share = v / Math.max(1, g.rows[i].bags);
      const td = cell("td", String(v), "num cell" + (i === j ? " hit" : ""), { title: `${v} of ${g.rows[i].bags} bags of ${D.classes[i]} are predicted ${D.classes[j]}` });
      td.style.setProperty("--share", (100 * share).toFixed(1) + "%");
      return td;
    })));
    byId("confusion").replaceChildren(el("table", { class: "plain matrix" }, el("thead", {}, head), el("tbody", {}, ...rows)));
  }

  function about() {
    const k = C.class, note = " Every bag was scored by a model that was not fitted to it.", unit = several ? "label" : "class";
    byId("curves-hint").textContent = (two ? `Scores for the class ${D.classes[D.positive]}.`
      : k === null ? `Every ${unit} against the rest, averaged over ${several ? "labels" : "classes"}.` : `${several ? "" : "Class "}${D.classes[k]} against the rest.`) + note;
    byId("calibration-about").textContent = two || k !== null ? `observed frequency of ${cut(D.classes[two ? D.positive : k], 24)} in bins of its predicted probability, with 95% intervals`
      : several ? "observed frequency in bins of the predicted probability, all labels, with 95% intervals" : "accuracy in bins of the probability of the predicted class, with 95% intervals";
  }

  /* Regression: predicted against true values, and residuals. */
  function range(values, share = 0.06) {
    let low = Math.min(...values), high = Math.max(...values);
    const pad = Math.max((high - low) * share, Math.abs(high) * 1e-6, 1e-12);
    return [low - pad, high + pad];
  }
  function dots(f, xs, ys, v, c) {
    xs.forEach((x, i) => f.root.append(titled(svg("circle", { class: "pt dim " + c, cx: f.x(x).toFixed(1), cy: f.y(ys[i]).toFixed(1), r: 3 }),
      `${v.ids[i]}: true ${v.truth[i]}, predicted ${v.predicted[i]}, ${v.sizes[i]} instances`)));
  }
  function drawValues() {
    const name = byId("values-method").value, v = D.values[name], c = colorOf(name), near = (x) => String(Number(x.toPrecision(3)));
    const left = v.predicted.map((p, i) => p - v.truth[i]);
    byId("curves-hint").textContent = `${name} on ${v.n.toLocaleString("en")} test bags, each predicted by a model that was not fitted to it` + (v.truth.length < v.n ? `; ${v.truth.length} of them are plotted.` : ".")
      + ` The mean error (predicted minus true) is ${near(v.bias)}.`;
    byId("fit-about").textContent = `shaded: absolute error below ${near(v.within)}, which holds for 90% of the test bags`;
    const both = range([...v.truth, ...v.predicted]), t = steps(both[0], both[1], 6);
    const f = frame(byId("fit"), { x: both, y: both, ratio: 0.8, xticks: t, yticks: t, xlabel: "true value", ylabel: "predicted value", label: "Predicted against true values" });
    const clip = (u) => Math.max(both[0], Math.min(both[1], u)), at = (u, d) => `${f.x(u).toFixed(1)} ${f.y(clip(u + d)).toFixed(1)}`;
    const ends = Array.from({ length: 41 }, (_, i) => both[0] + (both[1] - both[0]) * i / 40);
    f.root.append(svg("path", { class: "band", d: "M" + [...ends.map((u) => at(u, v.within)), ...[...ends].reverse().map((u) => at(u, -v.within))].join("L") + "Z" }));
    f.root.append(svg("line", { class: "guide", x1: f.x(both[0]), y1: f.y(both[0]), x2: f.x(both[1]), y2: f.y(both[1]) }));
    dots(f, v.truth, v.predicted, v, c);
    const ry = range([...left, 0]), rt = steps(ry[0], ry[1], 6);
    const px = range(v.predicted), g = frame(byId("residuals"), { x: px, y: ry, xticks: steps(px[0], px[1], 6), yticks: rt, xlabel: "predicted value", ylabel: "residual", label: "Residuals against predicted values" });
    const log = Math.max(...v.sizes) > 20 * Math.min(...v.sizes), sx = (s) => (log ? Math.log10(s) : s), ss = range(v.sizes.map(sx));
    const ticks = log ? [1, 2, 5].flatMap((k) => [0, 1, 2, 3, 4, 5].map((e) => k * Math.pow(10, e))).filter((s) => Math.log10(s) >= ss[0] && Math.log10(s) <= ss[1]).sort((a, b) => a - b).map((s) => ({ v: Math.log10(s), t: String(s) }))
      : steps(ss[0], ss[1], 6).filter((s) => Number.isInteger(s.v));
    const h = frame(byId("sizes"), { x: ss, y: ry, xticks: ticks, yticks: rt, xlabel: "instances in the bag" + (log ? " (log scale)" : ""), ylabel: "residual", label: "Residuals against bag sizes" });
    for (const one of [g, h]) one.root.append(svg("line", { class: "guide", x1: one.L, x2: one.W - one.R, y1: one.y(0), y2: one.y(0) }));
    dots(g, v.predicted, left, v, c);
    dots(h, v.sizes.map(sx), left, v, c);
  }
  /* Survival curves of thirds of the bags by risk. */
  function drawRisks() {
    const name = byId("values-method").value, groups = D.risks[name];
    byId("curves-hint").textContent = `${name}: test bags in thirds by predicted risk, within each fold. Every risk comes from a model that was not fitted to the bag.`;
    const last = Math.max(...groups.flatMap((g) => g.x)) || 1;
    const f = frame(byId("risks"), { x: [0, last], y: [0, 1], xticks: steps(0, last, 6), yticks: unitTicks, xlabel: "time", ylabel: "share without event", label: "Kaplan-Meier curves by predicted risk" });
    groups.forEach((g, i) => {
      const c = "c" + [1, 2, 0][i], ty = f.T + 14 + i * 17;
      f.root.append(titled(svg("path", { class: "line " + c, d: path(g.x, g.y, f) }), `${g.name}: ${g.events} events in ${g.n} bags`));
      f.root.append(svg("rect", { x: f.W - 196, y: ty - 8, width: 14, height: 4, rx: 2, class: "pt " + c }));
      f.root.append(svg("text", { x: f.W - 176, y: ty - 2, class: "lab halo" }, `${g.name}  ${g.events} of ${g.n} events`));
    });
  }
  const drawAll = () => {
    if (risks) { drawRisks(); drawTime(); return; }
    if (real) { drawValues(); drawTime(); return; }
    about(); drawRoc(); drawPr(); drawCalibration(); drawHistogram(); drawTime();
  };
  function whenResized() {
    let width = innerWidth, waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(drawAll, 120);
    });
  }
  if (real && D.methods.length) {
    const vm = byId("values-method");
    for (const m of D.methods) vm.append(el("option", { value: m.name }, m.name));
    vm.addEventListener("change", risks ? drawRisks : drawValues);
    drawAll();
    whenResized();
  } else if (D.methods.length) {
    const chips = byId("chips");
    for (const m of D.methods) {
      const chip = el("button", { type: "button", class: "c" + (m.color % 16), "aria-pressed": drawn.has(m.name), title: m.name },
        el("i", { class: "dot" }), el("span", {}, m.name));
      chip.addEventListener("click", () => {
        if (!drawn.delete(m.name)) drawn.add(m.name);
        chip.setAttribute("aria-pressed", drawn.has(m.name));
        drawRoc(); drawPr(); drawCalibration();
      });
      chips.append(chip);
    }
    const which = byId("curves-class");
    D.curves.forEach((c, i) => which.append(el("option", { value: i }, c.class === null ? "mean of all" : D.classes[c.class])));
    byId("curves-controls").hidden = D.curves.length < 2;
    which.addEventListener("change", () => { C = D.curves[which.value]; fillHistogram(); drawAll(); });
    hm.addEventListener("change", drawHistogram);
    for (const m of D.methods) cm.append(el("option", { value: m.name }, m.name));
    cm.addEventListener("change", drawClasses);
    fillHistogram();
    drawAll();
    drawClasses();
    whenResized();
  }

  /* Bag browser. Numbers of the bags listed in brief come as bytes. */
  function unpack(p) {
    if (!p || !p.type) return p;
    const raw = Uint8Array.from(atob(p.bytes), (c) => c.charCodeAt(0));
    return new { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array }[p.type](raw.buffer);
  }
  const short = (v) => Number(v.toPrecision(4));
  function withRest() {
    const R = B.rest, full = B.bags.length ? B.bags[B.bags.length - 1].first + B.bags[B.bags.length - 1].count : 0;
    B.full = full;
    if (!R) return B.bags;
    for (const key of ["bags", "is", "sizes", "counts", "positions", "truth"]) R[key] = unpack(R[key]);
    for (const r of Object.values(R.results)) for (const key of ["k", "s", "ok"]) r[key] = unpack(r[key]);
    for (const m of B.methods) {
      B.scores[m] = B.scores[m].concat(Array.from(unpack(R.scores[m]), (v) => (Number.isFinite(v) ? short(v) : null)));
      B.heat[m] = B.heat[m].concat(Array.from(unpack(R.heat[m])));
    }
    if (B.names) B.names = B.names.concat(R.names);
    if (B.truth) B.truth = B.truth.concat(Array.from(R.truth));
    let first = 0;
    const others = Array.from(R.bags, (i, place) => {
      const n = R.counts[place], bag = { i, place, id: R.ids ? R.ids[place] : String(i), is: real && Number.isFinite(R.is[place]) ? short(R.is[place]) : R.is[place],
        size: R.sizes[place], first: full + first, count: n, low: 0, start: first, results: null };
      first += n;
      return bag;
    });
    return B.bags.concat(others).sort((a, b) => a.i - b.i);
  }
  const B = D.browser, list = byId("bag-list"), view = byId("bag-view");
  const methodBox = byId("bag-method"), filterBox = byId("bag-filter");
  const names = B.methods.length ? B.methods : D.methods.map((m) => m.name);
  const every = withRest();
  for (const name of names) methodBox.append(el("option", { value: name }, name));
  filterBox.append(el("option", { value: "all" }, "all bags"), ...D.classes.slice(0, 40).map((c, k) => el("option", { value: "class " + k }, several ? `bags with ${c}` : c + " bags")), ...(risks ? [] : [el("option", { value: "wrong" }, real ? "largest errors (10%)" : "wrongly predicted")]));
  const isOf = (bag, k) => (several ? bag.is.includes(k) : bag.is === k);
  const targetText = (answer) => (real ? String(answer) : several ? answer.map((k) => D.classes[k]).join(", ") || "no label" : D.classes[answer]);
  byId("bags-hint").textContent = (B.methods.length
    ? `Select a bag: its instances are ranked by ${risks ? "the predicted risk of a bag with this instance only" : real ? "instance score, in units of the target" : `instance score for ${two ? `the class ${D.classes[D.positive]}` : several ? "the label with the highest score" : "the predicted class of the bag"}`}. All scores come from models that were not fitted to the bag. `
    : "No instance scores are available. ")
    + (B.truth ? "Instances with a positive instance label are marked with +; these labels were not used for training. " : "")
    + (every.length < B.n_bags ? `${every.length} of ${B.n_bags} bags are listed. ` : "")
    + (B.rest && (B.images || B.features || B.maps) ? `${B.images ? "Images" : B.maps ? "Maps and features" : "Features"} are shown for ${B.bags.length} bags. ` : "")
    + (B.methods.length ? "The bar of an instance shows the percentile of its score among all instances. " : "")
    + (real ? "" : "Numbers in the list are scores of bags. ") + "The arrow keys move through the list.";
  let visible = [], current = -1, chosen = 0, pixels = null;
  if (B.images) {
    const raw = atob(B.images.pixels);
    pixels = Uint8Array.from(raw, (c) => c.charCodeAt(0));
  }

  function picture(k) {
    const { width: w, height: h, channels: ch } = B.images;
    const canvas = el("canvas", { width: w, height: h, "aria-hidden": "true" });
    const image = new ImageData(w, h), base = k * w * h * ch;
    for (let i = 0; i < w * h; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[base + i * ch + (ch > 1 ? c : 0)];
      image.data[4 * i + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }
  function heat(v) {
    const fill = el("i");
    fill.style.width = v + "%";
    fill.style.setProperty("--full", v > 0 ? (10000 / v) + "%" : "100%");
    return el("div", { class: "heat" }, fill);
  }
  /* Contributions to the score, or else the features that are far from their mean. */
  const partsOf = (k) => { const p = B.parts[methodBox.value]; return p && p.rows[k].length ? p : null; };
  function featureBars(k, n) {
    const box = el("div", { class: "bars" }), parts = partsOf(k);
    for (const [name, value, z] of (parts ? parts.rows[k] : B.features[k]).slice(0, n)) {
      const share = Math.min(50, parts ? 50 * Math.abs(z) / parts.scale : Math.abs(z) * 12.5);
      const bar = el("i", { class: z >= 0 ? "up" : "" });
      bar.style.width = share + "%"; bar.style.left = (z >= 0 ? 50 : 50 - share) + "%";
      box.append(el("span", { class: "n", title: name }, name), el("span", { class: "b" }, bar), el("span", { class: "v", title: parts ? "value (contribution to the score)" : "value (z-score)" }, `${value === null ? "missing" : value} (${z > 0 ? "+" : ""}${z})`));
    }
    return box;
  }

  /* Prediction of a method for a bag; null if the bag was never tested. */
  function resultOf(bag, method) {
    if (bag.results) return bag.results[method] || null;
    const r = B.rest.results[method];
    if (!r || r.ok[bag.place] === 2) return null;
    const s = r.s ? r.s[bag.place] : NaN, k = r.k[bag.place];
    return { s: Number.isFinite(s) ? short(s) : null, k: real ? short(k) : k, ok: r.ok[bag.place] === 1 };
  }
  const nameOf = (bag) => (/^\d+$/.test(bag.id) ? "bag " + bag.id : bag.id);

  /* Long lists are shown in pages; the page of the current bag is shown. */
  const PAGE = 200, findBox = byId("bag-find");
  let pageShown = -1;
  function fillList() {
    const method = methodBox.value, filter = filterBox.value, wanted = findBox.value.trim().toLowerCase();
    const before = visible[current];
    visible = every.filter((b) => {
      if (wanted && !nameOf(b).toLowerCase().includes(wanted)) return false;
      if (filter.startsWith("class ")) return isOf(b, Number(filter.slice(6)));
      if (filter === "wrong") { const r = resultOf(b, method); return r && !r.ok; }
      return true;
    });
    if (wanted) { /* An exact id first. */
      const whole = visible.findIndex((b) => b.id.toLowerCase() === wanted || nameOf(b).toLowerCase() === wanted);
      if (whole > 0) visible.unshift(...visible.splice(whole, 1));
    }
    pageShown = -1; current = -1;
    if (!visible.length) {
      list.replaceChildren(); tellCount(0, 0);
      view.replaceChildren(el("p", { class: "note" }, "No bag matches.")); list.removeAttribute("aria-activedescendant");
      return;
    }
    const at = visible.indexOf(before);
    select(at < 0 ? 0 : at, at < 0);
  }
  function tellCount(from, to) {
    const many = visible.length > PAGE, n = (v) => v.toLocaleString("en");
    byId("bag-count").textContent = many ? `${n(from + 1)} to ${n(to)} of ${n(visible.length)} bags` : `${visible.length} bags`;
    byId("bag-pages").hidden = !many;
    byId("bag-back").disabled = from === 0;
    byId("bag-on").disabled = to === visible.length;
  }
  function drawPage(page) {
    const method = methodBox.value, from = page * PAGE, part = visible.slice(from, from + PAGE);
    list.replaceChildren(...part.map((b, j) => {
      const r = resultOf(b, method);
      const item = el("li", { role: "option", id: "bag-" + (from + j), "aria-selected": "false", "aria-posinset": from + j + 1, "aria-setsize": visible.length },
        el("i", { class: "sq " + (two ? (b.is === D.positive ? "p" : "") : real || several ? "none" : "c" + (b.is % 16)), title: targetText(b.is) }), el("span", { class: "id", title: b.id }, nameOf(b)),
        el("span", { class: "x" }, r && !r.ok ? (real ? "large error" : "wrong") : ""), el("small", {}, real && r ? targetText(r.k) : r && r.s !== null ? String(Number(r.s.toPrecision(3))) : ""));
      item.addEventListener("click", () => select(from + j));
      return item;
    }));
    pageShown = page;
    list.scrollTop = 0;
    tellCount(from, from + part.length);
  }
  function select(i, reset = true) {
    const old = list.querySelector("[aria-selected=true]");
    if (old) old.setAttribute("aria-selected", "false");
    const page = Math.floor(i / PAGE);
    if (page !== pageShown) drawPage(page);
    current = i;
    if (reset) chosen = 0;
    const item = list.children[i - page * PAGE];
    item.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", item.id);
    const top = item.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top - 6;
    else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight + 6;
    showBag();
  }
  function ranked(bag, method) {
    const ks = Array.from({ length: bag.count }, (_, j) => bag.first + j), s = B.scores[method];
    return s ? ks.sort((a, b) => (s[b] === null ? -Infinity : s[b]) - (s[a] === null ? -Infinity : s[a])) : ks;
  }
  /* Bags with coordinates have a map. */
  function mapOf(bag, method, pick) {
    const number = B.bags.indexOf(bag), M = number < 0 ? null : B.maps, cells = M && M.cells[method] ? M.cells[method][number] : null;
    if (!cells) return null;
    const high = bag.count - bag.low;
    const marks = Array.from({ length: bag.count }, (_, j) => ({ k: bag.first + j, high: j < high, x: B.places[bag.first + j][0], y: B.places[bag.first + j][1] }));
    return makeSlideMap({ frame: M.frames[number], cells, marks, onPick: pick,
      label: `Map of ${nameOf(bag)}: ${bag.size} instances colored by the scores of ${method}` });
  }
  const positionOf = (bag, k) => (bag.positions ? bag.positions[k - bag.first] : B.rest.positions[bag.start + k - bag.first]);
  const instanceName = (bag, k) => (B.names ? B.names[k] : "#" + positionOf(bag, k));
  function showBag() {
    const bag = visible[current], method = methodBox.value, r = resultOf(bag, method), order = ranked(bag, method);
    const head = el("div", { class: "bag-head" }, el("h3", {}, nameOf(bag)), el("span", {}, `${risks ? "time" : real ? "true value" : several ? "true labels" : "true class"}: ${targetText(bag.is)}`),
      r ? el("span", { class: "badge " + (r.ok ? "good" : "bad") }, `${risks ? "risk" : "predicted"}: ${targetText(r.k)}`) : el("span", { class: "badge" }, "not in a test fold"),
      el("span", {}, `${bag.size} instance${bag.size === 1 ? "" : "s"}` + (bag.count === bag.size ? "" : !bag.count ? ", not shown" : bag.low ? `; shown: the ${bag.count - bag.low} highest and ${bag.low} lowest by ${B.methods[0]}` : B.methods.length ? `; shown: the ${bag.count} highest by ${B.methods[0]}` : `; shown: the first ${bag.count}`)));
    const cards = el("div", { class: "cards" + (B.images ? "" : " wide"), role: "group", "aria-label": "Instances, highest score first" });
    order.forEach((k, place) => {
      const s = B.scores[method] ? B.scores[method][k] : null;
      const card = el("button", { type: "button", class: "card", "aria-pressed": place === chosen,
        "aria-label": `instance ${instanceName(bag, k)}, rank ${place + 1}` + (s === null ? "" : `, score ${s}`) });
      if (k < B.full) { if (B.images) card.append(picture(k)); else if (B.features) card.append(featureBars(k, 4)); }
      card.append(el("div", { class: "row" }, el("span", {}, s === null ? "–" : String(s)),
        B.truth && B.truth[k] ? el("span", { class: "truth", title: `${instanceName(bag, k)}: positive instance label` }, "+" + cut(instanceName(bag, k), 10)) : el("span", { title: instanceName(bag, k) }, cut(instanceName(bag, k), 12))));
      if (B.heat[method]) card.append(heat(B.heat[method][k]));
      card.addEventListener("click", () => { chosen = place; mark(); });
      cards.append(card);
    });
    const detail = el("div", { class: "detail" });
    const map = mapOf(bag, method, (k) => { chosen = order.indexOf(k); mark(); cards.children[chosen].scrollIntoView({ block: "nearest" }); });
    view.replaceChildren(head, ...(map ? [map.node, el("p", { class: "note" }, "Colors: percentile of the instance score among the instances of all bags, from low (blue) to high (orange). Circles: the instances listed below, dashed for the lowest. Drag to move; click, then scroll to zoom.")] : []), cards, detail);
    function mark() {
      if (!order.length) return;
      chosen = Math.min(chosen, order.length - 1);
      [...cards.children].forEach((c, j) => c.setAttribute("aria-pressed", j === chosen));
      showInstance(detail, bag, order[chosen]);
      if (map) map.choose(order[chosen]);
    }
    cards.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      chosen = Math.max(0, Math.min(order.length - 1, chosen + step));
      mark();
      cards.children[chosen].focus();
    });
    mark();
  }
  function showInstance(box, bag, k) {
    const position = B.names ? B.names[k] : positionOf(bag, k);
    const left = k >= B.full ? null : B.images ? picture(k) : el("div", {}, el("h4", {}, partsOf(k) ? `Largest contributions to its score (${methodBox.value})` : "Most unusual features: value (z-score)"), featureBars(k, 8));
    const right = el("div", {});
    if (B.methods.length) {
      const votes = el("div", { class: "votes" });
      for (const m of B.methods) {
        const place = ranked(bag, m).indexOf(k) + 1;
        votes.append(el("span", {}, m), heat(B.heat[m][k]), el("span", { class: "v" }, `${place} of ${bag.count}`));
      }
      right.append(el("h4", {}, `Instance ${position}: rank in this bag by method; bars: percentile among all instances`), votes);
    }
    box.replaceChildren(...(left ? [left, right] : [right]));
  }
  list.addEventListener("keydown", (event) => {
    const n = visible.length;
    if (!n) return;
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: n - 1, PageDown: current + 10, PageUp: current - 10 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(Math.max(0, Math.min(n - 1, to)));
  });
  methodBox.addEventListener("change", fillList);
  filterBox.addEventListener("change", fillList);
  findBox.addEventListener("input", fillList);
  for (const [id, step] of [["bag-back", -1], ["bag-on", 1]]) byId(id).addEventListener("click", () => {
    select(Math.max(0, Math.min(visible.length - 1, (pageShown + step) * PAGE)));
  });
  if (B.bags.length) {
    fillList();
    const first = visible.findIndex((b) => b.results && (!two || b.is === D.positive) && b.results[methodBox.value] && b.results[methodBox.value].ok);
    if (first > 0) select(first);
  }
  else byId("bags").hidden = true;
})();
