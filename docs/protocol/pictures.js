// Draws a state of a launch, and the course of all its turns. A picture follows from the trace, the
// number of turns played and the width alone, so that stepping back gives the same one.
"use strict";

const TAGS = ["empty", "aggregate", "prefix"];
const LETTERS = ["–", "A", "P"];
const HEADING = 22;
const STEPS = {
  "take a ticket": "takes a ticket",
  "publish the aggregate": "publishes",
  "look back": "looks back",
  "publish the prefix": "publishes",
  "wait for each other": "warps wait",
  store: "done",
};

// What every program knows and every word holds, before the first turn and after each.
function statesOf(trace) {
  let state = { programs: {}, words: trace.start, flights: [], tickets: 0, turn: null };
  const states = [state];
  for (const turn of trace.turns) {
    const words = state.words.map((pieces) => pieces.slice());
    let flights = state.flights;
    if (turn.word) {
      const [tile, piece, tag, value] = turn.word;
      if (turn.deed === "send") {
        flights = [...flights, turn.word];
      } else {
        if (turn.kept) words[tile][piece] = [tag, value];
        if (turn.deed === "land") {
          const landed = flights.findIndex((word) => String(word) === String(turn.word));
          flights = flights.filter((_, number) => number !== landed);
        }
      }
    }
    const waits = turn.outcome === "waits" && turn.step === "look back";
    const program = { tile: turn.tile, step: turn.step, total: turn.total, waits };
    const programs = { ...state.programs, [turn.program]: program };
    const tickets = state.tickets + (turn.deed === "take" ? 1 : 0);
    state = { programs, words, flights, tickets, turn };
    states.push(state);
  }
  return states;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function label(x, y, text, kind = "") {
  return element("text", { x, y, class: kind }, text);
}

// A word, or what was seen of one: its tag and its value.
function wordBox(x, y, width, [tag, value], name, kind, about = {}) {
  const height = 22;
  const tagged = name !== "value";
  const group = element("g", { class: `${TAGS[tag]} ${kind}`, "data-tag": tag, "data-value": value, ...about });
  if (tagged) {
    group.append(element("rect", { class: "mark", x, y, width: 20, height, rx: 3 }));
    group.append(label(x + 10, y + 15.5, LETTERS[tag], "letter"));
  }
  group.append(element("rect", { class: "box", x, y, width, height, rx: 3 }));
  group.append(label(x + (tagged ? 24 : 5), y + 15.5, value, "value"));
  return group;
}

function rowHeight(trace, narrow) {
  return trace.words.length > 1 ? 62 : narrow ? 38 : 42;
}

function heightOf(trace, narrow) {
  return HEADING + trace.aggregates.length * rowHeight(trace, narrow) + (trace.tickets ? 24 : 4);
}

function drawNow(svg, trace, state, { over, narrow, width }) {
  const height = rowHeight(trace, narrow);
  const { turn } = state;
  const [wordsAt, seenAt, box] = [48, 142, 86];
  const programAt = seenAt + box + 14;
  const top = (tile) => HEADING + tile * height;
  svg.setAttribute("viewBox", `0 0 ${width} ${heightOf(trace, narrow)}`);
  svg.setAttribute("height", heightOf(trace, narrow));
  svg.replaceChildren();
  const looks = turn && turn.saw ? turn.saw : [];
  const seen = looks.length > 1 ? "by warps 0, 1" : `seen by tile ${turn ? turn.tile : ""}`;
  svg.append(label(2, 14, "tile", "heading"), label(wordsAt, 14, trace.words.length > 1 ? trace.words.join(", ") : "word", "heading"));
  if (looks.length) svg.append(label(seenAt, 14, seen, "heading"));
  svg.append(label(programAt, 14, "program", "heading"));
  trace.aggregates.forEach((aggregate, tile) => {
    const y = top(tile);
    if (turn && turn.tile === tile) {
      svg.append(element("rect", { class: "active", x: 0, y: y + 1, width, height: height - 2, rx: 4 }));
    }
    const restart = trace.restarts.includes(tile);
    svg.append(element("line", { class: restart ? "restart" : "rule", x1: 0, x2: restart ? wordsAt + box : width, y1: y, y2: y }));
    svg.append(label(4, y + 19, String(tile)), label(20, y + 19, aggregate, "value"));
    if (restart) svg.append(label(4, y + 34, "restart", "small"));
    state.words[tile].forEach((word, piece) => {
      const written = turn && turn.word && turn.deed !== "send" && turn.word[0] === tile && turn.word[1] === piece;
      const about = { "data-tile": tile, "data-piece": piece };
      svg.append(wordBox(wordsAt, y + 9 + 25 * piece, box, word, trace.words[piece], written ? "word fresh" : "word", about));
    });
  });
  looks.forEach((tiles, warp) => {
    const wide = looks.length > 1 ? box / 2 - 1 : box;
    for (const [tile, words] of Object.entries(tiles)) {
      words.forEach(([tag, value, newest], piece) => {
        const x = seenAt + warp * (wide + 2);
        const y = top(Number(tile)) + 9 + 25 * piece;
        svg.append(wordBox(x, y, wide, [tag, value], trace.words[piece], newest ? "seen" : "seen old"));
        if (!newest) svg.append(label(x + wide - 19, y + 15, "old", "small"));
      });
    }
  });
  const window = looks.length ? Object.keys(looks[0]).map(Number) : [];
  if (window.length) {
    const x = programAt - 5;
    const [from, to, own] = [top(Math.min(...window)) + 12, top(Math.max(...window)) + height - 8, top(turn.tile) + 20];
    svg.append(element("path", { class: "bracket", d: `M${x - 5} ${from}H${x}V${own}M${x - 5} ${to}H${x}M${x - 4} ${own - 6}L${x} ${own}L${x + 4} ${own - 6}` }));
  }
  drawPrograms(svg, trace, state, { top, programAt, width, height });
  for (const tile of over && trace.fault ? trace.fault.tiles : []) {
    svg.append(element("rect", { class: "faulty", x: 1, y: top(tile) + 2, width: width - 2, height: height - 4, rx: 4 }));
    svg.append(cross(width - 11, top(tile) + 14, 5));
  }
  svg.setAttribute("aria-label", described(trace, state));
}

function cross(x, y, size) {
  return element("path", { class: "cross", d: `M${x - size} ${y - size}L${x + size} ${y + size}M${x - size} ${y + size}L${x + size} ${y - size}` });
}

function drawPrograms(svg, trace, state, { top, programAt, height }) {
  const byTile = {};
  const without = [];
  for (const [number, program] of Object.entries(state.programs)) {
    if (program.tile < 0) without.push(number);
    else byTile[program.tile] = { ...program, number };
  }
  trace.aggregates.forEach((_, tile) => {
    const program = byTile[tile];
    const y = top(tile);
    if (!program) {
      svg.append(label(programAt, y + 18, "not started", "small"));
      return;
    }
    const step = program.waits ? "waits" : STEPS[program.step];
    svg.append(label(programAt, y + 18, trace.tickets ? `${program.number}: ${step}` : step));
    const flights = state.flights.filter((word) => word[0] === tile);
    if (program.total) svg.append(label(programAt, y + 34, `has ${program.total}`, "small value"));
    if (flights.length) {
      const sent = flights.map(([, piece, tag, value]) => `${LETTERS[tag]}${piece + 1} ${value}`).join(", ");
      svg.append(label(programAt, y + height - 12, `sent ${sent}`, "small value"));
    }
  });
  if (trace.tickets) {
    const waiting = without.length ? `; program ${without.join(", ")} without a tile` : "";
    const y = top(trace.aggregates.length) + 16;
    svg.append(label(2, y, `tickets taken: ${state.tickets}${waiting}`, "small"));
  }
}

function described(trace, state) {
  const words = state.words.map((pieces, tile) => {
    const told = pieces.map(([tag, value]) => (tag ? `${TAGS[tag]} ${value}` : "nothing"));
    return `tile ${tile}: ${told.join(" and ")}`;
  });
  return `What the words hold. ${words.join("; ")}.`;
}

// Every turn as a mark in its tile's row; returns the width of a step, and where the first begins.
function drawCourse(svg, trace, place, width, narrow) {
  const height = narrow ? 20 : rowHeight(trace);
  const rows = trace.aggregates.length + (trace.tickets ? 1 : 0);
  const start = 22;
  const step = Math.min(26, (width - start - 8) / trace.turns.length);
  const whole = narrow ? HEADING + rows * height : heightOf(trace);
  svg.setAttribute("viewBox", `0 0 ${width} ${whole}`);
  svg.setAttribute("height", whole);
  const middle = (tile) => HEADING + (tile < 0 ? trace.aggregates.length : tile) * height + (tile < 0 && !narrow ? 12 : height / 2);
  svg.replaceChildren(label(start, 14, "course of all tiles, by steps", "heading"));
  if (place) {
    const about = { class: "cursor", x: start + (place - 1) * step, y: HEADING, width: step, height: whole - HEADING };
    svg.append(element("rect", about));
  }
  trace.aggregates.forEach((_, tile) => {
    svg.append(label(4, middle(tile) + 4, String(tile), "small"));
    svg.append(element("line", { class: "rule", x1: start, x2: start + step * trace.turns.length, y1: middle(tile), y2: middle(tile) }));
  });
  trace.turns.forEach((turn, number) => {
    const group = element("g", { class: number < place ? "played" : "to-come" });
    const x = start + (number + 0.5) * step;
    mark(group, turn, x, middle, Math.max(2.5, Math.min(5.5, step / 2 - 0.5)));
    svg.append(group);
  });
  if (trace.fault && place === trace.turns.length) {
    for (const tile of trace.fault.tiles) svg.append(cross(start + step * (place - 0.5), middle(tile), 6));
  }
  return { start, step };
}

function mark(group, turn, x, middle, size) {
  const y = middle(turn.tile);
  if (turn.deed === "start" || turn.deed === "take") {
    group.append(element("line", { class: "shade", x1: x, x2: x, y1: y - size, y2: y + size }));
  } else if (turn.word) {
    const tag = TAGS[turn.word[2]];
    group.append(element("rect", { class: turn.deed === "send" ? "look" : `filled-${tag}`, x: x - size, y: y - size, width: 2 * size, height: 2 * size }));
    if (tag === "aggregate") {
      group.append(element("path", { class: "shade", d: `M${x - size} ${y + size}L${x + size} ${y - size}` }));
    }
  } else {
    const tiles = turn.saw.flatMap((seen) => Object.keys(seen).map(Number));
    if (tiles.length) {
      group.append(element("line", { class: "reach", x1: x, x2: x, y1: y, y2: middle(Math.min(...tiles)) }));
      for (const tile of new Set(tiles)) {
        group.append(element("line", { class: "reach", x1: x - 2, x2: x + 2, y1: middle(tile), y2: middle(tile) }));
      }
    }
    group.append(element("circle", { class: turn.outcome === "found" ? "look look-found" : "look", cx: x, cy: y, r: size }));
    if (turn.outcome === "further") {
      group.append(element("path", { class: "look-half", d: `M${x} ${y - size}A${size} ${size} 0 0 0 ${x} ${y + size}Z` }));
    }
  }
}
