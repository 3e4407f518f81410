// SPDX-License-Identifier: GPL-2.0-only
// Draws /data.json again at each interval. All text of the volumes is set as text, never as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const HOUR = 3600;

function add(parent, tag, text, attributes = {}) {
	const made = parent.namespaceURI === SVG || tag === "svg" ? document.createElementNS(SVG, tag) : document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
	if (text !== undefined) made.textContent = text;
	return parent.appendChild(made);
}

function scaled(value, units, factor) {
	let unit = 0;
	while (value >= factor && unit < units.length - 1) { value /= factor; unit++; }
	return `${value < 10 && unit ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}
const bytes = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
const rate = (value) => scaled(value, ["B/s", "kB/s", "MB/s", "GB/s"], 1000);
const time = (us) => us ? scaled(us, ["µs", "ms", "s"], 1000) : "none";

// The time that a share of the commands did not exceed. Bucket i ends at 2^i units of 1.024 µs.
function quantile(counts, share) {
	const all = counts.reduce((sum, count) => sum + count, 0);
	let below = 0;
	for (let i = 0; i < counts.length; i++) {
		below += counts[i];
		if (all && below >= share * all) return 1.024 * 2 ** i;
	}
	return 0;
}

function figures(parent, rows) {
	const list = add(parent, "dl");
	for (const [name, value, look] of rows) {
		const one = add(list, "div");
		add(one, "dt", name);
		add(one, "dd", value, look ? { class: look } : {});
	}
}

// --- Rails, targets and members, from left to right. A path is a line; it is dashed while it carries nothing.
function picture(parent, volume) {
	const rails = [], targets = [];
	const place = (list, name) => { if (!list.includes(name)) list.push(name); return list.indexOf(name); };
	const paths = [];
	for (const member of volume.members)
		for (const path of member.paths)
			paths.push({ member: member.index, usable: path.usable, rail: place(rails, path.rail || "local"),
				target: place(targets, path.target || path.disk), state: path.ana_state || path.state });
	const step = 34, rows = Math.max(rails.length, targets.length, volume.members.length);
	const svg = add(parent, "svg", undefined, { viewBox: `0 0 900 ${rows * step + 24}`, role: "img",
		"aria-label": `paths of ${volume.name}` });
	const y = (index, count) => 24 + (index + 0.5) * (rows * step) / count;
	const box = (x, at, text, look) => {
		add(svg, "rect", undefined, { x, y: at - 12, width: 220, height: 24, rx: 4 });
		add(svg, "text", text, { x: x + 8, y: at + 5, ...(look ? { class: look } : {}) });
	};
	for (const [x, text] of [[0, "rail"], [340, "target"], [680, "member"]]) add(svg, "text", text, { x, y: 12, class: "weak" });
	for (const path of paths) {
		const look = path.usable ? "good" : "bad";
		add(svg, "line", undefined, { x1: 220, y1: y(path.rail, rails.length), x2: 340, y2: y(path.target, targets.length), class: look });
		add(svg, "line", undefined, { x1: 560, y1: y(path.target, targets.length), x2: 680,
			y2: y(path.member, volume.members.length), class: look });
	}
	rails.forEach((name, index) => box(0, y(index, rails.length), name));
	targets.forEach((name, index) => box(340, y(index, targets.length), name));
	for (const member of volume.members)
		box(680, y(member.index, volume.members.length), `${member.index}: ${member.disk} ${member.state}`,
			member.state === "ok" ? "" : "bad");
}

// --- Heat maps: a column for each interval of the last hour, a row for each member or latency.
function heat(share) {
	return `hsl(${230 - 230 * share} 75% ${28 + 30 * share}%)`;
}

// cells: of each interval, with end, and values: the rows from top to bottom, 0 to 1 or undefined.
function map(parent, title, labels, cells, now, interval, legend) {
	add(parent, "h3", title);
	const grid = add(parent, "div", undefined, { class: "map" });
	const list = add(grid, "ol");
	for (const label of labels) add(list, "li", label);
	const columns = Math.round(HOUR / interval), rows = labels.length;
	const canvas = add(grid, "canvas", undefined, { width: columns, height: rows, role: "img", "aria-label": title });
	canvas.style.height = `${Math.max(3, rows) * Math.max(6, Math.min(22, 260 / rows))}px`;
	const context = canvas.getContext("2d");
	for (const cell of cells) {
		const column = columns - 1 - Math.round((now - cell.end) / interval);
		cell.values.forEach((value, row) => {
			if (value === undefined) return;
			context.fillStyle = heat(value);
			context.fillRect(column, row, 1, 1);
		});
	}
	const foot = add(grid, "p");
	for (const text of ["1 hour ago", legend, "now"]) add(foot, "span", text);
}

// By member: from the colour of 50 µs to that of 50 ms, by the logarithm.
function members_map(parent, volume, kind, data) {
	const share = (us) => us ? Math.min(1, Math.max(0, Math.log10(us / 50) / 3)) : undefined;
	const cells = volume.history.filter((slot) => slot.kinds[kind])
		.map((slot) => ({ end: slot.end, values: slot.kinds[kind].us.map(share) }));
	map(parent, `Latency of ${kind} commands by member`, volume.members.map((member) => `member ${member.index}`), cells,
		data.time, data.interval, "blue: 50 µs or less, red: 50 ms or more, by the logarithm");
}

// All members, by latency: which share of the commands of an interval took how long.
function class_map(parent, volume, kind, data) {
	const slots = volume.history.filter((slot) => slot.kinds[kind] && slot.kinds[kind].latency.length);
	const used = slots.flatMap((slot) => slot.kinds[kind].latency.map((count, i) => count ? i : -1)).filter((i) => i >= 0);
	if (!used.length) return;
	let low = used[0], high = used[0];
	for (const i of used) { low = Math.min(low, i); high = Math.max(high, i); }
	const labels = [];
	for (let i = high; i >= low; i--) labels.push(`below ${time(1.024 * 2 ** i)}`);
	const cells = slots.map((slot) => {
		const counts = slot.kinds[kind].latency, all = counts.reduce((sum, count) => sum + count, 0);
		return { end: slot.end, values: labels.map((_, row) => all && counts[high - row] ? counts[high - row] / all : undefined) };
	});
	map(parent, `Latencies of ${kind} commands`, labels, cells, data.time, data.interval, "red: all commands of that time");
}

function draw_volume(parent, volume, data) {
	const section = add(parent, "section");
	const head = add(section, "h2", volume.name + " ");
	add(head, "span", volume.state, { class: volume.state === "live" ? "good" : "bad" });
	const last = volume.history[volume.history.length - 1];
	const rows = [["size", bytes(volume.size)], ["members", volume.member_count], ["ownership", volume.ownership],
		["QoS", volume.qos.on ? `feed within ${time(volume.qos.feed_latency_us)}` : "off"]];
	for (const [kind, load] of Object.entries(last ? last.kinds : {})) {
		rows.push([`${kind} now`, `${rate(load.bytes)}, ${Math.round(load.ios)} IOPS`]);
		if (load.latency.length) rows.push([`${kind} p99`, time(quantile(load.latency, 0.99))]);
	}
	const { direct, vmap, bounce } = volume.memory;
	rows.push(["GPU memory, direct", bytes(direct + vmap)], ["through host memory", bytes(bounce), bounce ? "bad" : ""]);
	figures(section, rows);
	picture(section, volume);
	for (const kind of Object.keys(last ? last.kinds : {})) {
		members_map(section, volume, kind, data);
		class_map(section, volume, kind, data);
	}
}

function draw(data) {
	document.getElementById("about").textContent =
		`${data.version} on ${location.host}, ${new Date(data.time * 1000).toLocaleTimeString()}`;
	const problem = document.getElementById("problem");
	problem.hidden = !data.problem;
	problem.textContent = data.problem;
	const volumes = document.createElement("main");
	volumes.id = "volumes";
	for (const volume of data.volumes) draw_volume(volumes, volume, data);
	if (!data.volumes.length) add(volumes, "p", "No volume is assembled on this host.");
	document.getElementById("volumes").replaceWith(volumes);
	const body = document.createElement("tbody");
	for (const event of data.events.slice().reverse()) {
		const row = add(body, "tr");
		for (const text of [event.time, event.volume, event.text]) add(row, "td", text);
	}
	if (!data.events.length) add(add(body, "tr"), "td", "None since this page's server was started.", { class: "weak" });
	document.querySelector("#events tbody").replaceWith(body);
	document.body.dataset.drawn = data.time;
}

async function refresh() {
	let interval = 10;
	try {
		const answer = await fetch("data.json");
		if (!answer.ok) throw new Error(await answer.text());
		const data = await answer.json();
		interval = data.interval;
		draw(data);
	} catch (problem) {
		const line = document.getElementById("problem");
		line.hidden = false;
		line.textContent = `The counters cannot be read: ${problem.message}`;
	}
	setTimeout(refresh, interval * 1000);
}

refresh();
