/**
 * What is said between the test, the keeper of a cluster and the process inside of its box: a line of JSON each, down their
 * standard inputs and up their standard outputs. The end of an input is the end of the cluster.
 */
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

export type Upward =
  /** A stage is reached, so many milliseconds after the beginning. */
  | { readonly stage: string; readonly ms: number }
  | { readonly ready: { readonly kubeconfig: string; readonly folder: string; readonly slot: number } }
  | { readonly failed: string };

/** The cable to the machine is plugged in. */
export interface Downward {
  readonly cable: true;
}

export function say(to: Writable, message: Upward | Downward): void {
  to.write(`${JSON.stringify(message)}\n`);
}

/** Calls for every line, until the end; what is no message is ignored. */
export async function listen<T>(from: Readable, onMessage: (message: T) => void): Promise<void> {
  for await (const line of createInterface({ input: from })) {
    if (line.startsWith("{")) onMessage(JSON.parse(line) as T);
  }
}
