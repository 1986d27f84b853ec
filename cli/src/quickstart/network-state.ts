/** What a quick start decided once, and keeps. */
import { join } from "node:path";
import { CommandError } from "../errors.ts";
import { readOwn, writeOwn } from "../network/own-files.ts";
import type { ServedFolder } from "./exposure.ts";

export interface NetworkState {
  /** Name or address under which other machines reach this one. */
  readonly host: string;
  readonly controllerPort: number;
  readonly routerPort: number;
  /** The entities of a new network are there. Before, an interrupted run has to be finished. */
  readonly isComplete: boolean;
  readonly served: readonly (ServedFolder & { readonly port: number })[];
}

/** The first file of a folder. */
export const STATE_FILE = "quickstart.json";

/** @throws CommandError for a file that cannot be used */
export async function readState(folder: string): Promise<NetworkState | undefined> {
  const file = join(folder, STATE_FILE);
  const text = await readOwn(file);
  if (text === undefined) return undefined;
  const { host, controllerPort, routerPort, isComplete, served } = valuesIn(text);
  if (typeof host === "string" && typeof controllerPort === "number" && typeof routerPort === "number")
    return { host, controllerPort, routerPort, isComplete: isComplete === true, served: servedIn(served) };
  throw new CommandError(
    `${file} does not say which network this is: expected host, controllerPort and routerPort; restore it, or choose another folder with --dir DIR`,
  );
}

function servedIn(value: unknown): NetworkState["served"] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (each) => typeof each?.name === "string" && typeof each.folder === "string" && typeof each.port === "number",
  );
}

function valuesIn(text: string): Partial<Record<keyof NetworkState, unknown>> {
  try {
    return (JSON.parse(text) as Partial<Record<keyof NetworkState, unknown>> | null) ?? {};
  } catch {
    return {};
  }
}

export async function writeState(folder: string, state: NetworkState): Promise<void> {
  await writeOwn(join(folder, STATE_FILE), `${JSON.stringify(state, undefined, 2)}\n`);
}
