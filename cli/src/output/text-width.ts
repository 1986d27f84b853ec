/** How many columns of a terminal texts take. */

const ASCII = /^[\x20-\x7e]*$/;

/** Measures texts, and makes them as wide as a column. */
export interface TextMeasure {
  width(text: string): number;
  /** With blanks behind it. */
  padded(text: string, width: number): string;
  /** Beginning and end of a text that is too wide, with `…` between them: many names differ in their end only. */
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
      const room = Math.max(wanted - 1, 0);
      const atEnd = Math.floor(room / 2);
      if (ASCII.test(text)) return `${text.slice(0, room - atEnd)}…${text.slice(text.length - atEnd)}`;
      const segments = [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);
      const beginning = fitting(segments, room - atEnd, width);
      const end = fitting(segments.toReversed(), atEnd, width).toReversed();
      return `${beginning.join("")}…${end.join("")}`;
    },
  };
}

/** The first segments, as many as fit. */
function fitting(segments: readonly string[], room: number, width: (text: string) => number): string[] {
  let used = 0;
  const end = segments.findIndex((segment) => {
    used += width(segment);
    return used > room;
  });
  return segments.slice(0, end === -1 ? segments.length : end);
}
