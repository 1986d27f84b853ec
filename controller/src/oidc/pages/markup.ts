/** HTML from templates: what stands between the literal parts is escaped, unless it is markup itself. */

/** HTML that may go out as it is. Only {@link markup} makes it. */
export class Markup {
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  /** @internal for {@link markup}, whose literal parts come from this program */
  static of(strings: TemplateStringsArray, values: readonly Insert[]): Markup {
    return new Markup(strings.reduce((text, literal, i) => `${text}${inserted(values[i - 1])}${literal}`));
  }
}

/** What a template takes: text, markup, several pieces of markup, or nothing. */
export type Insert = string | number | Markup | readonly Markup[] | undefined;

/** HTML with texts in it: safe between tags, and in attributes that have quotes. */
export function markup(strings: TemplateStringsArray, ...values: readonly Insert[]): Markup {
  return Markup.of(strings, values);
}

/** Text as HTML shows it literally, between tags and in attributes with quotes of either kind. */
export function escaped(text: string): string {
  return text.replace(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function inserted(value: Insert): string {
  if (value === undefined) return "";
  if (value instanceof Markup) return value.text;
  if (typeof value === "object") return value.map(({ text }) => text).join("");
  return escaped(String(value));
}
