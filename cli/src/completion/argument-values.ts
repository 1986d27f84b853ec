/** What may stand as an argument of a command. */
import type { CommandContext } from "../context.ts";
import { kindNamed, kindsWith, wordsOf } from "../kinds/find-kind.ts";
import { KINDS } from "../kinds/generated/kinds.ts";
import type { Action } from "../kinds/kind.ts";
import { METHODS } from "../network/api-paths.ts";
import { NetworkStore } from "../network/saved-network.ts";
import type { Candidate, Offer } from "./candidate.ts";
import { type Asked, namesLike } from "./live-names.ts";
import { SHELLS } from "./shells.ts";

/** What a kind has to be capable of for a command, where it is more than to be listed. */
const ACTIONS: Readonly<Record<string, Action>> = { create: "create", patch: "patch", edit: "patch", delete: "delete" };

export interface ArgumentPlace {
  /** The first word of the line. */
  readonly command: string;
  /** As the command calls the argument. */
  readonly argument: string;
  /** Arguments of before. */
  readonly given: readonly string[];
}

export async function argumentOffer(place: ArgumentPlace, asked: Asked, context: CommandContext): Promise<Offer> {
  const { command, argument, given } = place;
  switch (argument) {
    case "kind":
      return command === "explain" ? await explainOffer(asked.begin) : kinds(command);
    case "kinds":
      return await declarable(given);
    case "name":
    case "names": {
      if (command === "why") return await named([given.length === 0 ? "identity" : "service"], asked, context);
      const kind = KINDS.find((each) => wordsOf(each).includes(given[0]?.toLowerCase() ?? ""));
      if (kind === undefined || command === "create") return [];
      const names = await namesLike(kind, asked, context);
      return names.filter((name) => !given.slice(1).includes(name)).map((text) => ({ text }));
    }
    case "target":
      return await named(["service", "identity"], asked, context);
    case "network":
      return (await new NetworkStore(context.env).names()).map((text) => ({ text }));
    case "method":
      return METHODS.map((text) => ({ text }));
    case "path":
      return await paths(given[0]?.toUpperCase() ?? "", asked.begin);
    case "shell":
      return SHELLS.map((text) => ({ text }));
    default:
      return [];
  }
}

async function named(kindNames: readonly string[], asked: Asked, context: CommandContext): Promise<Candidate[]> {
  const names = await Promise.all(kindNames.map((name) => namesLike(kindNamed(name), asked, context)));
  return names.flat().map((text) => ({ text }));
}

function kinds(command: string): Candidate[] {
  const able = ACTIONS[command] === undefined ? KINDS : kindsWith(ACTIONS[command]);
  // `get` reads better in the plural.
  return able.map(({ name, plural, summary }) => ({ text: command === "get" ? plural : name, description: summary }));
}

/** Kinds that files can declare. */
async function declarable(given: readonly string[]): Promise<Candidate[]> {
  const { DECLARED_KINDS } = await import("../declared/declared-kinds.ts");
  const names = DECLARED_KINDS.map(({ shownAs }) => shownAs);
  return kinds("create").filter(({ text }) => names.includes(text) && !given.includes(text));
}

/** Kinds, and behind the point the fields. */
async function explainOffer(begin: string): Promise<Candidate[]> {
  const [word = "", ...path] = begin.split(".");
  if (path.length === 0) return kinds("explain");
  const { FIELDS } = await import("../kinds/generated/fields.ts");
  const { typeText } = await import("../kinds/field-text.ts");
  const kind = KINDS.find((each) => wordsOf(each).includes(word.toLowerCase()));
  const fields = kind === undefined ? [] : (FIELDS[kind.name] ?? []);
  return fields.map((field) => ({ text: `${word}.${field.name}`, description: typeText(field) }));
}

/** Paths of the Management API in their short form, those of the others in full. */
async function paths(method: string, begin: string): Promise<Candidate[]> {
  const { ROUTES } = await import("@sallyport/api/client");
  const isFull = /^\/(edge|fabric)/.test(begin);
  const found = Object.entries(ROUTES).flatMap(([api, { basePath, routes }]) =>
    Object.entries(routes).flatMap(([id, route]) => {
      if (route.method !== method || (!isFull && api !== "management")) return [];
      // An id is the user's to write.
      const path = `${isFull ? basePath : ""}${route.path}`.replace(/\{.*$/, "");
      return [{ text: path, description: path.length < route.path.length ? undefined : id }];
    }),
  );
  return [...new Map(found.map((each) => [each.text, each])).values()];
}
