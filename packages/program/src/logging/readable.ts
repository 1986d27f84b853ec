import type { DestinationStream } from "pino";

const COLOURS: Readonly<Record<string, string>> = {
  debug: "\x1b[2m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};
const PLAIN = "\x1b[0m";
const DIM = "\x1b[2m";
// A terminal acts on these, or shows the text in another order; peers choose parts of what is logged.
const CONTROL = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Turns the log's lines of JSON into lines for people: time, level, message, fields, and below them indented stacks. */
export function readable(write: (text: string) => void, { colours }: { readonly colours: boolean }): DestinationStream {
  const paint = (colour: string, text: string) => (colours ? `${colour}${text}${PLAIN}` : text);
  return {
    write(line: string): void {
      const entry = parsed(line);
      if (entry === undefined) {
        write(line);
        return;
      }
      const { level = "", time = "", msg = "", ...fields } = entry;
      const stacks: string[] = [];
      const words = Object.entries(fields).map(([name, value]) => {
        const stack = stackOf(value);
        if (stack !== undefined) stacks.push(stack);
        return `${paint(DIM, `${name}=`)}${printed(value)}`;
      });
      const label = paint(COLOURS[String(level)] ?? "", String(level).toUpperCase().padEnd(5));
      const head = [paint(DIM, String(time)), label, clean(String(msg)), ...words].join(" ");
      write(`${[head, ...stacks.map(indented)].join("\n")}\n`);
    },
  };
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function stackOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || !("stack" in value)) return undefined;
  return typeof value.stack === "string" ? value.stack : undefined;
}

function printed(value: unknown): string {
  if (stackOf(value) !== undefined) return JSON.stringify((value as { message?: unknown }).message ?? "");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /^[^\s"=]+$/.test(text) ? clean(text) : typeof value === "string" ? JSON.stringify(clean(text)) : clean(text);
}

function clean(text: string): string {
  return text.replaceAll(CONTROL, "?").replaceAll("\n", " ");
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `    ${line.replaceAll(CONTROL, "?").trim()}`)
    .join("\n");
}
