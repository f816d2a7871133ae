// Paper shows what the screen folds or colours: tables open, colours light while printing.
addEventListener("beforeprint", () => {
  const root = document.documentElement;
  root.dataset.screen = root.dataset.theme;
  root.dataset.theme = "light";
  for (const one of document.querySelectorAll("details:not([open]):has(table)")) {
    one.open = true;
    one.dataset.shut = "";
  }
});
addEventListener("afterprint", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.screen;
  for (const one of document.querySelectorAll("details[data-shut]")) {
    one.open = false;
    delete one.dataset.shut;
  }
});
