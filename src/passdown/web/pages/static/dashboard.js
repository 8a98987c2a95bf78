// The dashboard: server-rendered pages, made live and usable by keyboard. No page has data of its own.
import { startLive, refresh } from "./live.js";
import { startActions } from "./actions.js";
import { startKeys } from "./keys.js";
import { startViews } from "./views.js";

if (document.getElementById("sign-in")) signIn();
else if (document.getElementById("content")) { // not on the page of an error
  startKeys();
  startActions(refresh);
  startViews();
  startLive(startViews);
}

// The code is in the fragment, which is sent to nobody; it is exchanged for a cookie, once.
async function signIn() {
  const said = document.getElementById("sign-in");
  const code = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  if (!code) {
    said.textContent = "You are not signed in.";
    return;
  }
  const answer = await fetch("/sign-in", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (answer.ok) location.replace("/");
  else said.textContent = (await answer.json()).detail;
}
