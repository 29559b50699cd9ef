// Plays traces: chooses one, goes from step to step, draws, and says what happens.
"use strict";

const part = (name) => document.getElementById(name);
const player = { trace: TRACES[0], states: [], place: 0, timer: null, course: null };

function setTrace(name, place = 0) {
  pause();
  player.trace = TRACES.find((trace) => trace.name === name) || TRACES[0];
  player.states = statesOf(player.trace);
  part("trace").value = player.trace.name;
  part("title").textContent = player.trace.title;
  part("text").replaceChildren(...formatted(player.trace.text));
  part("conditions").textContent = `${player.trace.conditions}.`;
  part("place").max = player.trace.turns.length;
  setPlace(place);
}

function setPlace(place) {
  const last = player.trace.turns.length;
  player.place = Math.max(0, Math.min(last, place));
  show();
  history.replaceState(null, "", `#${player.trace.name}/${player.place}`);
}

function show() {
  const { trace, states, place } = player;
  const over = place === trace.turns.length;
  const narrow = !window.matchMedia("(min-width: 820px)").matches;
  drawNow(part("now"), trace, states[place], { over, narrow, width: part("now").clientWidth });
  player.course = drawCourse(part("course"), trace, place, part("course").clientWidth, narrow);
  const says = place ? trace.turns[place - 1].says : "Before the first step: no program has started.";
  part("says").replaceChildren(...formatted(says));
  const verdict = over ? (trace.fault ? `✕ ${trace.fault.says}` : "") : "";
  part("verdict").replaceChildren(...formatted(verdict));
  part("place").value = place;
  part("place").setAttribute("aria-valuetext", `step ${place} of ${trace.turns.length}`);
  part("count").textContent = `${place} / ${trace.turns.length}`;
}

// A sentence, with what is between backquotes as code.
function formatted(sentence) {
  return sentence.split("`").map((text, number) => {
    if (number % 2 === 0) return text;
    const code = document.createElement("code");
    code.textContent = text;
    return code;
  });
}

function run() {
  if (player.place === player.trace.turns.length) setPlace(0);
  part("run").textContent = "Pause";
  for (const told of ["says", "verdict"]) part(told).setAttribute("aria-live", "off");
  player.timer = setInterval(() => {
    setPlace(player.place + 1);
    if (player.place === player.trace.turns.length) pause();
  }, Number(part("pace").value));
}

function pause() {
  clearInterval(player.timer);
  player.timer = null;
  part("run").textContent = "Play";
  for (const told of ["says", "verdict"]) part(told).setAttribute("aria-live", "polite");
}

function goTo(place) {
  pause();
  setPlace(place);
}

const ACTIONS = {
  first: () => goTo(0),
  back: () => goTo(player.place - 1),
  run: () => (player.timer === null ? run() : pause()),
  on: () => goTo(player.place + 1),
  last: () => goTo(player.trace.turns.length),
};
const KEYS = { Home: "first", ArrowLeft: "back", " ": "run", ArrowRight: "on", End: "last" };

function pressed(event) {
  const action = KEYS[event.key];
  const at = event.target.tagName;
  // A list of choices takes all of these keys itself, and a button its space.
  const taken = at === "SELECT" || (event.key === " " && (at === "BUTTON" || at === "SUMMARY"));
  if (!action || taken || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  ACTIONS[action]();
}

function fromAddress() {
  const [name, place] = decodeURIComponent(location.hash.slice(1)).split("/");
  setTrace(name, Number(place) || 0);
}

function begin() {
  for (const [title, faulty] of [["Right", false], ["Mistakes", true]]) {
    const group = document.createElement("optgroup");
    group.label = title;
    for (const trace of TRACES.filter((one) => Boolean(one.fault) === faulty)) {
      group.append(new Option(trace.title, trace.name));
    }
    part("trace").append(group);
  }
  part("trace").addEventListener("change", (event) => setTrace(event.target.value));
  for (const [name, action] of Object.entries(ACTIONS)) {
    part(name).addEventListener("click", (event) => {
      action();
      // After a click of the mouse the keys are the page's again.
      if (event.detail > 0) event.currentTarget.blur();
    });
  }
  part("place").addEventListener("input", (event) => goTo(Number(event.target.value)));
  part("pace").addEventListener("change", () => {
    if (player.timer === null) return;
    pause();
    run();
  });
  part("course").addEventListener("click", (event) => {
    goTo(Math.floor((event.offsetX - player.course.start) / player.course.step) + 1);
  });
  document.addEventListener("keydown", pressed);
  window.addEventListener("resize", show);
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

begin();
