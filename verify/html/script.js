
'use strict';
(() => {
  const byId = id => document.getElementById(id);
  const data = JSON.parse(byId('data').textContent);
  const rowHeight = 32, spare = 12; // pixels of a row; rows that are drawn beyond what is seen
  const tallest = 8e6; // pixels of a table: more than that, not all browsers draw

  // ---- data

  // visible writes out what cannot be seen or turns a text around, as the Go side does.
  const visible = text => text.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, c => '\\u{' + c.codePointAt(0).toString(16) + '}');
  // natural is a key by which texts sort with the numbers in them as numbers.
  const natural = text => text.replace(/\d+/g, n => n.padStart(12, '0'));

  const makeSheet = raw => {
    const names = new Array(raw.rows);
    for (let i = 0, before = ''; i < raw.rows; i++) {
      before = names[i] = before.slice(0, raw.shared[i]) + raw.name[i];
    }
    const sheet = {title: raw.title, rows: raw.rows, names, ranks: {}, haystack: null, sort: null, cell: {}};
    sheet.fields = data.fields.filter(f => f.key in raw.columns);
    for (const f of sheet.fields) {
      const c = raw.columns[f.key];
      sheet.cell[f.key] = Array.isArray(c) ? i => c[i] : c !== null && typeof c === 'object' ? i => c.texts[c.at[i]] : () => c;
    }
    const zero = f => {
      for (let i = 0; i < sheet.rows; i++) if (sheet.cell[f.key](i)) return false;
      return true;
    };
    sheet.shown = sheet.fields.filter(f => f.shown === 'always' || f.shown === 'some' && !zero(f));
    return sheet;
  };
  const sheets = data.sheets.map(makeSheet);
  const layerNumber = new Map(sheets[1].names.map((name, i) => [name, i]));

  const exactly = (sheet, i) => 'grade' in sheet.cell && sheet.cell.grade(i) === 'exact';

  // number returns what a cell sorts by: NaN where there is no figure.
  const number = (sheet, f, i) => {
    const v = sheet.cell[f.key](i);
    if (f.kind === 'decibel' && exactly(sheet, i)) return Infinity;
    if (v === null) return NaN;
    return f.kind === 'share' ? v / Math.max(1, sheet.cell.values(i)) : v;
  };

  // ranksOf returns for each row its place among the rows by a field; key '' is the name.
  const ranksOf = (sheet, key) => {
    if (sheet.ranks[key]) return sheet.ranks[key];
    const f = sheet.fields.find(x => x.key === key);
    const ranks = new Float64Array(sheet.rows);
    if (f && f.kind !== 'text') {
      for (let i = 0; i < sheet.rows; i++) ranks[i] = number(sheet, f, i);
    } else {
      const text = f ? i => sheet.cell[key](i) ?? '' : i => sheet.names[i];
      const keys = new Map(); // a text that many rows share is turned into a key once
      for (let i = 0; i < sheet.rows; i++) if (!keys.has(text(i))) keys.set(text(i), natural(text(i)));
      const sorted = [...keys].sort((a, b) => a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : a[0] < b[0] ? -1 : 1);
      sorted.forEach((pair, k) => keys.set(pair[0], k));
      for (let i = 0; i < sheet.rows; i++) ranks[i] = keys.get(text(i));
    }
    return sheet.ranks[key] = ranks;
  };

  // ---- texts of figures

  const counted = n => n.toLocaleString('en-US');
  // short has four digits, and an exponent where the program's other reports have one.
  const short = x => {
    const [digits, e] = x.toExponential(3).split('e');
    if (+e >= -4 && +e < 4) return String(parseFloat(x.toPrecision(4)));
    return parseFloat(digits) + 'e' + e[0] + e.slice(1).padStart(2, '0');
  };
  const bytes = n => {
    let k = 0, x = n;
    while (x >= 999.5 && k < 5) { x /= 1000; k++; }
    return (k && x < 10 ? x.toFixed(1) : x.toFixed(0)) + ' ' + ['B', 'kB', 'MB', 'GB', 'TB', 'PB'][k];
  };
  const percent = (n, all) => {
    if (!n || !all) return '0 %';
    if (n === all) return '100 %';
    return Math.max(0.01, n < all ? Math.min(99.99, 100 * n / all) : 100 * n / all).toFixed(2) + ' %';
  };
  const signed = x => (x < 0 ? '−' : '+') + Math.abs(x).toFixed(4);
  const textOf = (sheet, f, i) => {
    const v = sheet.cell[f.key](i);
    if (f.kind === 'decibel' && exactly(sheet, i)) return 'exact';
    if (v === null) return '–';
    switch (f.kind) {
      case 'text': return visible(v);
      case 'count': return counted(v);
      case 'share': return percent(v, sheet.cell.values(i));
      case 'ratio': return v === 1 ? '100 %' : Math.max(0.01, Math.min(99.99, 100 * v)).toFixed(2) + ' %';
      case 'figure': return short(v);
      case 'decibel': return v.toFixed(1);
      case 'signed': return signed(v);
      case 'bytes': return bytes(v);
    }
    return String(v);
  };
  // cut shortens a name in its middle: its end says more than its beginning.
  const cut = (name, n) => {
    const head = Math.floor(n / 3);
    return name.length <= n ? name : name.slice(0, head) + '…' + name.slice(name.length - (n - 1 - head));
  };

  // ---- state

  const grid = byId('grid'), table = byId('table'), tbody = table.tBodies[0], thead = table.tHead;
  const state = {sheet: sheets[0], rows: [], only: null, first: -1, last: -1, nameWidth: 40};

  // matcher returns a test for texts in lower case; null for what is no regular expression.
  const matcher = query => {
    query = query.trim();
    const re = /^\/(.+)\/$/.exec(query);
    if (re) {
      try {
        const r = new RegExp(re[1], 'iu');
        return text => r.test(text);
      } catch (e) {
        return null;
      }
    }
    const words = query.toLowerCase().split(/\s+/).filter(w => w);
    return text => words.every(w => text.includes(w));
  };

  const haystack = sheet => {
    if (!sheet.haystack) {
      const more = ['type', 'layer', 'part', 'grade'].filter(k => k in sheet.cell);
      sheet.haystack = sheet.names.map((name, i) => [name, ...more.map(k => sheet.cell[k](i) ?? '')].join('\n').toLowerCase());
    }
    return sheet.haystack;
  };

  // inLayers tells whether a row belongs to what was chosen in the chart.
  const inLayers = (sheet, i, only) => {
    const k = layerNumber.get(sheet.cell.layer(i));
    return k >= only.first && k <= only.last && (!only.part || sheet.cell.part(i) === only.part);
  };

  const inOrder = (sheet, rows) => {
    const ranks = ranksOf(sheet, sheet.sort.key), way = sheet.sort.down ? -1 : 1;
    return rows.sort((a, b) => {
      const x = ranks[a], y = ranks[b], noX = x !== x, noY = y !== y;
      if (noX || noY) return noX - noY || a - b; // without a figure: last, whatever the order
      return x === y ? a - b : x < y ? -way : way;
    });
  };

  // select finds the rows to show, in their order, and draws them.
  const select = () => {
    const s = state.sheet, match = matcher(byId('query').value), show = byId('show').value, only = s === sheets[0] ? state.only : null;
    const hay = haystack(s), grade = s.cell.grade ?? (() => null), rows = [];
    for (let i = 0; match && i < s.rows; i++) {
      const g = grade(i);
      if (show === 'changed' && (g === null || g === 'exact') || show === 'look' && g !== 'poor' && g !== 'bad') continue;
      if (only && !inLayers(s, i, only)) continue;
      if (match(hay[i])) rows.push(i);
    }
    state.rows = s.sort ? inOrder(s, rows) : rows;
    byId('status').textContent = match ? (rows.length === s.rows ? '' : counted(rows.length) + ' of ') + counted(s.rows) + ' ' + s.title : 'not a regular expression';
    table.setAttribute('aria-rowcount', rows.length + 1);
    grid.classList.toggle('short', rows.length < 18);
    grid.scrollTop = 0;
    draw(true);
  };

  // ---- the table: of its rows only those that are seen are there

  const element = (tag, className, text) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  };

  const heading = (key, title, help, className, worst) => {
    const s = state.sheet, th = element('th', className), b = element('button', '', title);
    th.scope = 'col';
    b.type = 'button';
    b.dataset.key = key;
    if (help) b.title = help;
    th.setAttribute('aria-sort', s.sort && s.sort.key === key ? (s.sort.down ? 'descending' : 'ascending') : 'none');
    b.addEventListener('click', () => {
      s.sort = {key, down: s.sort && s.sort.key === key ? !s.sort.down : worst === 'down'};
      head();
      select();
      thead.querySelector('button[data-key="' + key + '"]').focus();
    });
    th.append(b);
    return th;
  };

  const head = () => {
    const s = state.sheet, tr = element('tr');
    tr.append(heading('', s.title.slice(0, -1), '', '', 'up'));
    for (const f of s.shown) tr.append(heading(f.key, f.title, f.help, f.kind === 'text' ? '' : 'n', f.worst));
    thead.replaceChildren(tr);
  };

  // widths gives columns the width of their longest text, in a long table of some rows.
  const widths = () => {
    const s = state.sheet, step = Math.max(1, Math.floor(s.rows / 500)), cols = [];
    const longest = (text, least) => {
      let n = least;
      for (let i = 0; i < s.rows; i += step) n = Math.max(n, text(i).length);
      return n;
    };
    state.nameWidth = Math.min(longest(i => visible(s.names[i]), 10), window.innerWidth < 640 ? 20 : 52);
    const add = px => {
      const c = element('col');
      c.style.width = Math.round(px) + 'px';
      cols.push(c);
    };
    add(state.nameWidth * 7.9 + 46);
    for (const f of s.shown) add(Math.min(Math.max(longest(i => textOf(s, f, i), 4) * 8, f.title.length * 7.5 + 20), 240) + 26);
    table.querySelector('colgroup').replaceChildren(...cols);
  };

  const makeRow = at => {
    const s = state.sheet, i = state.rows[at], name = visible(s.names[i]), grade = s.cell.grade ? s.cell.grade(i) : null;
    const tr = element('tr'), th = element('th'), b = element('button', 'name', cut(name, state.nameWidth)), dot = element('span', 'dot ' + (grade ?? ''));
    tr.setAttribute('aria-rowindex', at + 2);
    th.scope = 'row';
    b.type = 'button';
    b.title = name;
    b.dataset.at = at;
    dot.title = grade ?? 'not measured';
    th.append(dot, b);
    tr.append(th);
    for (const f of s.shown) tr.append(element('td', f.kind === 'text' ? '' : 'n', textOf(s, f, i)));
    return tr;
  };

  // pad stands in for the rows above or below that are not there.
  const pad = px => {
    const tr = element('tr', 'pad'), td = element('td');
    td.colSpan = state.sheet.shown.length + 1;
    td.style.height = px + 'px';
    tr.setAttribute('aria-hidden', 'true');
    tr.append(td);
    return tr;
  };

  // A table that would be too tall is drawn shorter, and scrolls faster.
  const tooTall = () => state.rows.length * rowHeight > tallest;
  const seen = () => Math.ceil((grid.clientHeight || 660) / rowHeight);

  // topRow returns the first row that is seen.
  const topRow = () => {
    if (!tooTall()) return Math.floor(grid.scrollTop / rowHeight);
    return Math.round(grid.scrollTop / Math.max(1, tallest - grid.clientHeight) * Math.max(0, state.rows.length - seen() + 2));
  };

  const draw = force => {
    const n = state.rows.length, top = Math.max(0, Math.min(topRow(), n - 1));
    if (!force && !tooTall() && top >= state.first && top + seen() <= state.last && (state.first === 0 || top > state.first + 2)) return;
    const first = Math.max(0, top - spare), last = Math.min(n, top + seen() + spare);
    state.first = first;
    state.last = last;
    const focused = tbody.contains(document.activeElement) ? document.activeElement.dataset.at : undefined;
    const rows = [];
    for (let at = first; at < last; at++) rows.push(makeRow(at));
    const above = tooTall() ? Math.max(0, grid.scrollTop - (top - first) * rowHeight) : first * rowHeight;
    const below = Math.min(n * rowHeight, tallest) - above - rows.length * rowHeight;
    tbody.replaceChildren(pad(above), ...rows, pad(Math.max(0, below)));
    if (focused !== undefined) focus(+focused);
  };

  const button = at => tbody.querySelector('button[data-at="' + at + '"]');
  const focus = at => (button(at) ?? grid).focus({preventScroll: true});

  // go moves the focus to the name in a row, and the row into sight.
  const go = at => {
    at = Math.min(Math.max(at, 0), state.rows.length - 1);
    const view = grid.clientHeight - rowHeight; // without the heading
    if (!tooTall()) {
      if (at * rowHeight < grid.scrollTop) grid.scrollTop = at * rowHeight;
      if ((at + 1) * rowHeight > grid.scrollTop + view) grid.scrollTop = (at + 1) * rowHeight - view;
    } else if (!button(at)) {
      grid.scrollTop = at / state.rows.length * (tallest - grid.clientHeight);
    }
    draw(true);
    focus(at);
  };

  // ---- all figures of a line

  const details = at => {
    const s = state.sheet, i = state.rows[at], items = [];
    byId('details-h').textContent = visible(s.names[i]);
    for (const f of s.fields) {
      const v = s.cell[f.key](i), dt = element('dt', '', f.title);
      let text = textOf(s, f, i);
      if (text === '–') continue;
      if (f.kind === 'share' || f.kind === 'bytes' && v > 999) text += ' (' + counted(v) + ')';
      if (f.help) dt.title = f.help;
      items.push(dt, element('dd', '', text));
    }
    byId('details').querySelector('dl').replaceChildren(...items);
    byId('details').showModal();
  };

  // ---- controls

  const choose = sheet => {
    state.sheet = sheet;
    byId('tabs').querySelector('input[value=' + sheet.title + ']').checked = true;
    byId('only').hidden = !state.only || sheet !== sheets[0];
    head();
    widths();
    select();
  };

  // restrict shows only the tensors of a place in the chart; null: all again.
  const restrict = only => {
    state.only = only;
    if (only) {
      const names = sheets[1].names, span = only.first === only.last ? names[only.first] : names[only.first] + ' to ' + names[only.last];
      byId('only').textContent = visible(span) + (only.part ? ', ' + only.part : '') + ' ✕';
      byId('only').title = 'show all layers again';
    }
    choose(sheets[0]);
  };

  for (const s of sheets) {
    const label = element('label'), input = element('input');
    input.type = 'radio';
    input.name = 'sheet';
    input.value = s.title;
    input.addEventListener('change', () => choose(s));
    label.append(input, s.title);
    byId('tabs').append(label);
  }
  byId('controls').addEventListener('submit', e => e.preventDefault());
  byId('query').addEventListener('input', select);
  byId('show').addEventListener('change', select);
  byId('only').addEventListener('click', () => { restrict(null); byId('query').focus(); });
  byId('close').addEventListener('click', () => byId('details').close());
  byId('details').addEventListener('click', e => { if (e.target === byId('details')) byId('details').close(); });
  tbody.addEventListener('click', e => {
    const b = e.target.closest('button');
    if (b) details(+b.dataset.at);
  });
  tbody.addEventListener('keydown', e => {
    const b = e.target.closest('button'), page = Math.max(1, seen() - 2);
    const move = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[e.key];
    if (!b || !move) return;
    e.preventDefault();
    go(+b.dataset.at + move);
  });
  let waiting = false;
  grid.addEventListener('scroll', () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(false); });
  }, {passive: true});
  window.addEventListener('resize', () => { widths(); draw(true); });
  for (const a of document.querySelectorAll('svg a')) {
    a.addEventListener('click', () => restrict({first: +a.dataset.first, last: +a.dataset.last, part: a.dataset.part}));
  }

  byId('tool').hidden = false;
  choose(sheets[0]);
})();
