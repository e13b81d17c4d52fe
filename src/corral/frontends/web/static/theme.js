// Runs before the page is drawn, so that a chosen theme does not flash.
"use strict";
const chosen = localStorage.getItem("corral-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
