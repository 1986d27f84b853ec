/** How many columns of a terminal texts take. */

const ASCII = /^[\x20-\x7e]*$/;

/** Measures texts, and makes them as wide as a column. */
export interface TextMeasure {
  width(text: string): number;
  /** With blanks behind it. */
  padded(text: string, width: number): string;
  /** The beginning of a text that is too wide, with `…`. */
  shortened(text: string, width: number): string;
}

/** For these texts and parts of them. What only other texts need takes a third of a command's time, so it is loaded for them. */
export async function measureOf(texts: Iterable<string>): Promise<TextMeasure> {
  for (const text of texts) if (!ASCII.test(text)) return measureBy((await import("string-width")).default);
  return measureBy((text) => text.length);
}

function measureBy(measure: (text: string) => number): TextMeasure {
  const width = (text: string): number => (ASCII.test(text) ? text.length : measure(text));
  return {
    width,
    padded: (text, wanted) => text + " ".repeat(Math.max(wanted - width(text), 0)),
    shortened: (text, wanted) => {
      if (width(text) <= wanted) return text;
      if (ASCII.test(text)) return `${text.slice(0, wanted - 1)}…`;
      let part = "";
      let used = 0;
      for (const { segment } of new Intl.Segmenter().segment(text)) {
        const next = width(segment);
        if (used + next > wanted - 1) break;
        part += segment;
        used += next;
      }
      return `${part}…`;
    },
  };
}
