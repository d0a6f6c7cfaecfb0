// Everything here is comfort: each page also works without it.
"use strict";

// <button data-confirm="Really?"> asks before its form is sent.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  if (button && !window.confirm(button.dataset.confirm)) event.preventDefault();
});

// <select data-submit> sends its form as soon as something else is chosen.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

// <button type="button" data-step="-1" data-for="quantity"> changes a number field.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-step]");
  if (!button) return;
  const field = document.getElementById(button.dataset.for);
  const value = (parseInt(field.value, 10) || 0) + Number(button.dataset.step);
  field.value = Math.min(Math.max(value, Number(field.min)), Number(field.max));
});

// <input type="checkbox" data-all="issue"> ticks all boxes of that name.
document.addEventListener("change", (event) => {
  const name = event.target.dataset.all;
  if (!name) return;
  for (const box of document.getElementsByName(name)) box.checked = event.target.checked;
});
