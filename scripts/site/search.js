// Finds headings that hold every word of the search field. `headings.js` sets globalThis.HEADINGS.
const field = document.querySelector("input[type=search]");
const results = document.querySelector(".results");
const top_ = document.body.dataset.top;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    words.length === 0
      ? []
      : globalThis.HEADINGS.filter(({ title }) => words.every((word) => title.toLowerCase().includes(word)));
  results.replaceChildren(
    ...found.slice(0, 20).map(({ page, anchor, title }) => {
      const link = document.createElement("a");
      link.href = `${top_}/${page}#${anchor}`;
      link.textContent = title;
      const entry = document.createElement("li");
      entry.append(link);
      return entry;
    }),
  );
});
