"use strict";
(function () {
  // Scorecard: show the chosen verdicts.
  const filter = document.querySelector("[data-filter]");
  if (filter) {
    const boxes = Array.from(filter.querySelectorAll("input"));
    const rows = Array.from(document.querySelectorAll("#scorecard tbody tr"));
    const apply = function () {
      const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      let shown = 0;
      for (const row of rows) {
        const faulty = row.hasAttribute("data-audit");
        row.hidden = chosen.has("audit") ? !faulty : !chosen.has(row.dataset.verdict);
        shown += row.hidden ? 0 : 1;
      }
      filter.querySelector(".shown").textContent = shown + " of " + rows.length + " numbers shown";
    };
    boxes.forEach((box) => box.addEventListener("change", apply));
    filter.hidden = false;
    apply();
  }

  // Token viewer: one text at a time, a line of details below it.
  const picker = document.querySelector("[data-picker]");
  if (picker) {
    const views = Array.from(document.querySelectorAll(".view"));
    const choose = function () {
      views.forEach((view) => { view.hidden = view.id !== picker.value; });
    };
    picker.addEventListener("change", choose);
    picker.closest(".picker").hidden = false;
    choose();
  }
  const shown = function (text) {
    return text.replace(/\n/g, "↵").replace(/\t/g, "⇥");
  };
  for (const view of document.querySelectorAll(".view")) {
    const text = view.querySelector(".text");
    const detail = view.querySelector(".detail");
    const tokens = Array.from(text.querySelectorAll(".t"));
    let current = -1;
    tokens.forEach((token) => token.removeAttribute("title"));
    const select = function (index) {
      if (index < 0 || index >= tokens.length) { return; }
      if (current >= 0) { tokens[current].classList.remove("current"); }
      current = index;
      const token = tokens[index];
      token.classList.add("current");
      const data = token.dataset;
      const parts = ["token " + data.i, data.role];
      if (data.round !== undefined) { parts.push("round " + data.round); }
      if (data.p !== undefined) { parts.push("p = " + data.p); }
      if (data.q !== undefined) { parts.push("q = " + data.q); }
      if (token.classList.contains("partial")) { parts.push("part of a character"); }
      detail.textContent = parts.join(" · ");
      if (data.draft !== undefined) {
        const code = document.createElement("code");
        code.textContent = shown(data.draft);
        detail.append(" · the draft's most likely token was ", code);
      }
    };
    text.addEventListener("pointerover", function (event) {
      const token = event.target.closest(".t");
      if (token) { select(tokens.indexOf(token)); }
    });
    text.addEventListener("focus", function () { if (current < 0) { select(0); } });
    text.addEventListener("keydown", function (event) {
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 };
      let index = current;
      if (event.key in steps) { index += steps[event.key]; }
      else if (event.key === "Home") { index = 0; }
      else if (event.key === "End") { index = tokens.length - 1; }
      else { return; }
      event.preventDefault();
      select(Math.min(Math.max(index, 0), tokens.length - 1));
      tokens[current].scrollIntoView({ block: "nearest" });
    });
  }

  // Paper shows everything that can be opened.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
})();
