// What pages do beyond what the server renders: draw maps, take live looks, copy.
"use strict";

const symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef";
const shades = 4;
const states = ["free", "null", "unknown", "cached", "reserved", "written", "seen", "read unwritten"];
const names = ["--free", "--null", "--unknown", "--cached", "--reserved", "--written", "--seen", "--stale"];

// unpack turns "A3B" into the numbers of its symbols.
function unpack(cells) {
	const out = [];
	for (const part of cells.matchAll(/([A-Za-z])(\d*)/g)) {
		const n = part[2] ? Number(part[2]) : 1;
		for (let i = 0; i < n; i++) out.push(symbols.indexOf(part[1]));
	}
	return out;
}

// colours of the symbols, as the style sheet has them now.
function palette() {
	const style = getComputedStyle(document.documentElement);
	return names.flatMap((name) => {
		const hex = style.getPropertyValue(name).trim();
		const rgb = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
		return Array.from({ length: shades }, (_, shade) => rgb.map((v) => Math.max(0, Math.min(255, Math.round(v * (1 - shade * 0.08))))));
	});
}

const drawn = new WeakMap();

// draw paints cells into a canvas, one pixel each, which the browser enlarges.
function draw(canvas, map) {
	const cells = unpack(map.cells);
	const columns = Math.max(16, Math.min(256, Math.ceil(Math.sqrt(cells.length * 4))));
	const rows = Math.max(1, Math.ceil(cells.length / columns));
	if (canvas.width !== columns || canvas.height !== rows) {
		canvas.width = columns;
		canvas.height = rows;
		canvas.style.maxWidth = `${columns * 16}px`;
		canvas.parentElement.classList.toggle("wide", cells.length > 2048);
	}
	const context = canvas.getContext("2d");
	const image = context.createImageData(columns, rows);
	const colours = palette();
	const mark = drawn.get(canvas)?.at;
	for (let i = 0; i < cells.length; i++) {
		const [r, g, b] = colours[cells[i]] || [0, 0, 0];
		const lit = marked(map, i) || i === mark;
		image.data.set(lit ? [255 - r, 255 - g, 255 - b, 255] : [r, g, b, 255], i * 4);
	}
	context.putImageData(image, 0, 0);
	canvas.dataset.drawn = String(cells.length);
	drawn.set(canvas, { map, cells, columns, at: mark });
}

// marked is whether a cell holds one of the finding's pages.
function marked(map, cell) {
	return (map.marks || []).some(([first, count]) => first < (cell + 1) * map.per && first + count > cell * map.per);
}

// point moves the mark of a map and says what lies under it.
function point(canvas, at) {
	const d = drawn.get(canvas);
	if (!d || d.cells.length === 0) return;
	d.at = Math.max(0, Math.min(d.cells.length - 1, at));
	draw(canvas, d.map);
	const first = d.at * d.map.per;
	const last = Math.min(d.map.pages, first + d.map.per) - 1;
	const under = canvas.parentElement.querySelector(".under");
	under.textContent = (first === last ? `page ${first}` : `pages ${first} to ${last}`) + `: ${states[Math.floor(d.cells[d.at] / shades)]}`;
}

function attend(canvas) {
	canvas.addEventListener("keydown", (event) => {
		const d = drawn.get(canvas);
		if (!d) return;
		const at = d.at ?? 0;
		const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + d.columns, ArrowUp: at - d.columns, Home: 0, End: d.cells.length - 1 }[event.key];
		if (to === undefined) return;
		event.preventDefault();
		point(canvas, d.at === undefined ? 0 : to);
	});
	canvas.addEventListener("click", (event) => {
		const box = canvas.getBoundingClientRect();
		const column = Math.floor(((event.clientX - box.left) / box.width) * canvas.width);
		const row = Math.floor(((event.clientY - box.top) / box.height) * canvas.height);
		point(canvas, row * canvas.width + column);
	});
}

function element(name, className, text) {
	const e = document.createElement(name);
	if (className) e.className = className;
	if (text !== undefined) e.textContent = text;
	return e;
}

// showPools draws the map of each pool, in a figure of its own.
function showPools(pools) {
	const box = document.getElementById("pools");
	const keys = new Set();
	for (const pool of pools) {
		const key = `${pool.inst}\n${pool.pool}`;
		keys.add(key);
		let figure = [...box.children].find((e) => e.dataset.key === key);
		if (!figure) {
			figure = element("div", "map");
			figure.dataset.key = key;
			const canvas = element("canvas");
			canvas.tabIndex = 0;
			canvas.setAttribute("role", "img");
			attend(canvas);
			figure.append(element("h3"), canvas, element("p", "under"));
			figure.lastChild.setAttribute("aria-live", "polite");
			box.append(figure);
		}
		const counts = states.filter((s) => pool.counts[s]).map((s) => `${pool.counts[s]} ${s}`).join(", ");
		figure.firstChild.textContent = `${pool.inst} · ${pool.pool}${pool.role ? " · " + pool.role : ""}, ${pool.pages} pages${pool.per > 1 ? `, ${pool.per} in a cell` : ""}: ${counts}`;
		const canvas = figure.querySelector("canvas");
		canvas.setAttribute("aria-label", `Map of ${pool.pages} pages of pool ${pool.pool} of ${pool.inst}: ${counts}`);
		draw(canvas, pool);
	}
	for (const figure of [...box.children]) if (!keys.has(figure.dataset.key)) figure.remove();
	if (pools.length === 0) box.replaceChildren();
}

function bars(h) {
	const box = element("div", "bars");
	const most = Math.max(1, h.reserved, h.written, h.seen, h.read);
	for (const [name, n] of [["reserved", h.reserved], ["written", h.written], ["seen", h.seen], ["read", h.read]]) {
		const frame = element("span", "box");
		const bar = element("span", `bar ${name}`);
		bar.style.width = `${(100 * n) / most}%`;
		frame.append(bar);
		box.append(frame, element("span", "n", `${Math.round(n * 10) / 10} ${name}`));
	}
	return box;
}

// keep makes the children of box one for each item, in order, and touches none whose
// item is as it was: a link that is about to be clicked, the focus and what is
// selected outlive a look. make gives the child of an item.
function keep(box, items, make) {
	const had = new Map([...box.children].filter((e) => e.dataset.item).map((e) => [e.dataset.item, e]));
	items.forEach((item, at) => {
		const key = JSON.stringify(item);
		let child = had.get(key);
		if (!child) {
			child = make(item);
			child.dataset.item = key;
		}
		had.delete(key);
		if (box.children[at] !== child) box.insertBefore(child, box.children[at] || null);
	});
	for (const child of had.values()) child.remove();
}

function handoffRow(h) {
	const row = element("tr");
	const cell = element("td");
	cell.append(bars(h));
	row.append(element("td", "", h.room), element("td", "", h.inst), element("td", "", h.peer || ""), cell,
		element("td", h.verdict ? `verdict-${h.verdict}` : "", h.verdict || "under way"), element("td", "", h.why || ""));
	return row;
}

function showHandoffs(all) {
	document.getElementById("no-handoffs").hidden = all.length > 0;
	keep(document.querySelector("#handoffs tbody"), all, handoffRow);
}

function incidentItem(i) {
	const item = element("li");
	const link = element("a", "", `${i.kinds}: ${i.name} on ${i.inst}`);
	link.href = `/incident/${i.id}`;
	item.append(link, ` ${i.first} UTC, ${i.exposed} exposed`);
	return item;
}

// showList shows items as a list, or what the page has to say where there are none.
function showList(box, items, make) {
	let list = box.querySelector("ul");
	if (items.length === 0) {
		if (box.textContent !== box.dataset.none) box.replaceChildren(element("p", "quiet", box.dataset.none));
		return;
	}
	if (!list) {
		list = element("ul");
		box.replaceChildren(list);
	}
	keep(list, items, make);
}

// blind is what is not seen, in words.
function blind(state) {
	const all = [];
	for (const e of state.engines || []) {
		if (e.state !== "live") all.push(`${e.name}: its stream is ${e.refused || e.state}`);
		for (const [where, n] of Object.entries(e.facts_lost || {})) all.push(`${e.name}: ${n} facts were lost (${where})`);
		if (e.gaps) all.push(`${e.name}: ${e.gaps} gaps in its stream`);
	}
	if (!state.outside) all.push("Nothing is watched from outside: handoffs are unwitnessed however well they go. Start the sidecar as root with --watch.");
	else if (!state.outside.watching) all.push(`Nothing is seen from outside: ${state.outside.problem}`);
	return all;
}

function standing(text, bad) {
	const e = document.getElementById("standing");
	e.classList.toggle("bad", Boolean(bad));
	if (e.textContent !== text) e.textContent = text;
}

function show(now) {
	const v = now.state.verdicts || {};
	showPools(now.pools);
	showHandoffs(now.handoffs);
	showList(document.getElementById("open"), now.open, incidentItem);
	showList(document.getElementById("blind"), blind(now.state), (text) => element("li", "", text));
	standing(`${now.state.shadow ? "Shadow mode. " : ""}Requests: ${v.violated || 0} violated, ${v.clean || 0} clean, ${v.unwitnessed || 0} unwitnessed.`, v.violated > 0);
	document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
}

function live() {
	const events = new EventSource("/api/v1/live");
	events.onmessage = (event) => show(JSON.parse(event.data));
	events.onerror = () => {
		standing(events.readyState === EventSource.CLOSED ? "Not live: too many views are open, or you are logged out. Load this page anew." : "The sidecar does not answer. Trying again…", true);
	};
}

function copy(event) {
	const text = event.currentTarget.dataset.copy;
	navigator.clipboard?.writeText(text).then(() => { event.target.textContent = "Copied"; });
}

for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", copy);
for (const canvas of document.querySelectorAll("canvas[data-cells]")) {
	const marks = (canvas.dataset.marks || "").split(" ").filter(Boolean).map((m) => m.split("-").map(Number));
	attend(canvas);
	draw(canvas, { cells: canvas.dataset.cells, pages: Number(canvas.dataset.pages), per: Number(canvas.dataset.per), marks });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	for (const canvas of document.querySelectorAll("canvas")) if (drawn.has(canvas)) draw(canvas, drawn.get(canvas).map);
});
if (document.body.dataset.here === "now") live();
