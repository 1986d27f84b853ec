import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Side, SideBySide } from "../../../network/openziti/side-by-side.ts";

/** An argument that differs by side: the id of what has this name there, or a file in the side's own folder. */
export type Argument = string | { readonly id: string; readonly of: string } | { readonly file: string };

/** What a command printed. */
export interface Printed {
  readonly ok: boolean;
  readonly text: string;
}

/** Runs the CLI on OpenZiti's controller and on ours, and holds what it prints against each other. */
export class Same {
  readonly sides: SideBySide;

  constructor(sides: SideBySide) {
    this.sides = sides;
    for (const { folder } of [sides.theirs, sides.ours]) mkdirSync(folder, { recursive: true });
  }

  /** `ziti edge …`, which has to print the same on both sides and to succeed; resolves with what it printed on ours. */
  async edge(...args: readonly Argument[]): Promise<string> {
    return await this.run("edge", ...args);
  }

  /** `ziti …`, likewise. */
  async run(...args: readonly Argument[]): Promise<string> {
    const { ok, text } = await this.#both(args);
    expect(ok, text).toBe(true);
    return text;
  }

  /** `ziti edge …`, which has to fail on both sides for the same reason; resolves with what it printed on ours. */
  async refused(...args: readonly Argument[]): Promise<string> {
    const { ok, text } = await this.#both(["edge", ...args]);
    expect(ok, text).toBe(false);
    return text;
  }

  /** `ziti edge …`, which fails on both sides, on OpenZiti's with another status, which ours does not copy. */
  async refusedDifferently(...args: readonly Argument[]): Promise<string> {
    const { theirs, ours } = this.sides;
    const [their, our] = await Promise.all([print(theirs, ["edge", ...args]), print(ours, ["edge", ...args])]);
    expect({ theirs: their.ok, ours: our.ok }, our.text).toEqual({ theirs: false, ours: false });
    return our.text;
  }

  /** `ziti edge …`, which succeeds on OpenZiti's side and fails on ours: one of our rules is stricter. Resolves with what it printed on ours. */
  async refusedByUs(...args: readonly Argument[]): Promise<string> {
    const { theirs, ours } = this.sides;
    const [their, our] = await Promise.all([print(theirs, ["edge", ...args]), print(ours, ["edge", ...args])]);
    expect({ theirs: their.ok, ours: our.ok }, our.text).toEqual({ theirs: true, ours: false });
    return our.text;
  }

  /** Our list as the CLI's JSON. */
  async listed(kind: string, filter = "true"): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return await this.sides.ours.cli.listed(kind, filter);
  }

  /** Writes a file into the folder of each side. */
  file(name: string, text: string): { readonly file: string } {
    for (const { folder } of [this.sides.theirs, this.sides.ours]) {
      writeFileSync(join(folder, name), text, { mode: 0o600 });
    }
    return { file: name };
  }

  /** Path of a file on our side. */
  path(name: string): string {
    return join(this.sides.ours.folder, name);
  }

  /** Both sides have, or lack, the file that a command had to write. */
  expectFile(name: string, isThere = true): void {
    for (const side of [this.sides.theirs, this.sides.ours]) {
      expect(existsSync(join(side.folder, name)), `${name} of ${side.name}`).toBe(isThere);
    }
  }

  async #both(args: readonly Argument[]): Promise<Printed> {
    const { theirs, ours } = this.sides;
    const [their, our] = await Promise.all([print(theirs, args), print(ours, args)]);
    const expected = { ok: their.ok, text: comparable(their.text, theirs) };
    expect(
      { ok: our.ok, text: pruned(comparable(our.text, ours), expected.text) },
      `ziti ${args.map(shown).join(" ")}`,
    ).toEqual(expected);
    return our;
  }
}

function shown(argument: Argument): string {
  if (typeof argument === "string") return argument;
  return "file" in argument ? argument.file : `<${argument.of} ${argument.id}>`;
}

async function print(side: Side, args: readonly Argument[]): Promise<Printed> {
  const given: string[] = [];
  for (const argument of args) given.push(await resolved(side, argument));
  const at = args.findIndex(
    (argument, index) => isPositionalId(argument, args[index - 1]) && given[index]?.startsWith("-"),
  );
  try {
    return { ok: true, text: await side.cli.run(...(at === -1 ? given : endingOptionsBefore(at, given))) };
  } catch (error) {
    const { message } = error as Error;
    // The first line quotes the command, with what differs by side.
    return { ok: false, text: message.slice(message.indexOf("\n") + 1) };
  }
}

function isPositionalId(argument: Argument, before: Argument | undefined): boolean {
  return typeof argument === "object" && "of" in argument && !(typeof before === "string" && before.startsWith("-"));
}

/** Ids of OpenZiti may begin with a dash: everything that is an option stands before them, and `--` between. */
function endingOptionsBefore(at: number, given: readonly string[]): string[] {
  const [id = "", ...rest] = given.slice(at);
  const areOptions = rest[0]?.startsWith("-") === true;
  return [...given.slice(0, at), ...(areOptions ? rest : []), "--", id, ...(areOptions ? [] : rest)];
}

async function resolved(side: Side, argument: Argument): Promise<string> {
  if (typeof argument === "string") return argument;
  if ("file" in argument) return join(side.folder, argument.file);
  const [entity] = await side.cli.listed(argument.of, `name = "${argument.id}"`);
  if (typeof entity?.id !== "string") throw new Error(`${side.name} has no ${argument.of} named ${argument.id}`);
  return entity.id;
}

const MASKED =
  /^(id|token|jwt|requestId|fingerprint|enrollmentToken|enrollmentJwt|traceId|href|self|until)$|(Id|At|Token)$/;
/** Free text; what each side says of itself; and what docs/compatibility.md says about both. */
const LEFT_OUT = new Set([
  ...["message", "reason", "meta", "value", "ipAddress", "cachedUpdatedAt", "lastActivityAt"],
  ...["edgeRouterConnectionStatus", "postureQueries", "permissions", "version"],
]);

/** What was printed without ids, times, widths and what else each side chooses for itself. */
function comparable(text: string, side: Side): unknown {
  const cut = text.search(/\ngoroutine \d/);
  const own = withoutIds(cut < 0 ? text : text.slice(0, cut), side)
    .replaceAll(/^\t+/gm, "")
    .replaceAll(`localhost:${side.port}`, "CONTROLLER")
    .replaceAll(side.folder, "FOLDER")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UUID")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
  const json = /\{\n(?:.*\n)*?\}|^\{"data":.*\}$/m.exec(own);
  if (json !== null) return [own.slice(0, json.index), masked(JSON.parse(json[0]))];
  if (own.includes("│")) return cells(own);
  // Paragraphs come in the order of ids.
  return own
    .split(/\n(?=[A-Z]+: )/)
    .map((part) => part.trim())
    .toSorted();
}

/** Ids that each side has printed so far: "… with id: X", a line with nothing else, or a field of its JSON. */
const known = new Map<Side, Set<string>>();
const PRINTED = /with id:? ([\w.-]{9,22})|^([\w.-]{9,22})$|"(?:id|[a-z]+Id|zitiId)": "([\w.-]{9,36})"/gm;

function withoutIds(text: string, side: Side): string {
  const ids = known.get(side) ?? new Set<string>();
  known.set(side, ids);
  for (const [, ...found] of text.matchAll(PRINTED)) {
    const id = found.find((each) => each !== undefined && each !== "default");
    if (id !== undefined) ids.add(id);
  }
  let without = text;
  for (const id of ids) without = without.replaceAll(id, "ID");
  return without;
}

function masked(value: unknown): unknown {
  if (Array.isArray(value) && value.length > 0)
    return value.map(masked).toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  if (value === "") return null;
  if (value === null || typeof value !== "object") return value;
  // What is empty is null, here and there, in lists of OpenZiti.
  if (Object.keys(value).length === 0) return null;
  const entries = Object.entries(value)
    .filter(([key]) => !LEFT_OUT.has(key))
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([key, inner]) => [key, MASKED.test(key) && typeof inner === "string" ? typeof inner : masked(inner)]);
  return Object.fromEntries(entries);
}

/** Ours without the fields that OpenZiti, which is older, does not have. */
function pruned(value: unknown, like: unknown): unknown {
  if (typeof value !== "object" || value === null || typeof like !== "object" || like === null) return value;
  if (Array.isArray(value)) return value.map((each, index) => pruned(each, (like as unknown[])[index]));
  const entries = Object.entries(value)
    .filter(([key]) => key in like)
    .map(([key, inner]) => [key, pruned(inner, (like as Record<string, unknown>)[key])]);
  return Object.fromEntries(entries);
}

/** The cells of a printed table, row by row; rows are sorted because ids order them. */
function cells(text: string): unknown {
  const rows: string[][] = [];
  const rest: string[] = [];
  let columns: readonly string[] | undefined;
  for (const line of text.split("\n")) {
    if (line.startsWith("│")) {
      const cells = line
        .split("│")
        .slice(1, -1)
        .map((cell) => cell.trim());
      columns ??= cells;
      rows.push(cells.map((cell, index) => (isOwn(columns?.[index]) && cell !== columns?.[index] ? "*" : cell)));
    } else if (!/^[├╭╰]/.test(line)) rest.push(line.trim());
  }
  // A cell of own width may take more lines on one side.
  const filled = rows.filter((row) => row.some((cell) => cell !== "" && cell !== "*"));
  return { rows: filled.map((row) => row.join(" | ")).toSorted(), rest };
}

function isOwn(column: string | undefined): boolean {
  return column !== undefined && /^(ID|TOKEN|FINGERPRINT|EXPIRES AT|SCHEMA)$| ID$/.test(column);
}
