/**
 * What the process inside of a cluster is asked for while it runs: a line of JSON by a socket in its folder, so that every
 * process that knows the folder may ask, and from outside of a container, too.
 */

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { errorText } from "@sallyport/async";
import { listen } from "../keeper/protocol.ts";

export type Request =
  /** Ends a component as a crash would. */
  | { readonly stop: string }
  | { readonly start: string }
  /** Takes the history of all objects away, as the API server does every five minutes. Its value: the revision. */
  | { readonly compact: true };

interface Answer {
  readonly error?: string;
  readonly value?: unknown;
}

/** Of the kernel's path: at most 108 characters. */
const socketOf = (folder: string): string => join(folder, "box.sock");

/** Carries out what is asked for, until the process ends. */
export async function answerRequests(folder: string, carryOut: (what: Request) => Promise<unknown>): Promise<void> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    void listen<Request>(socket, async (what) => {
      const answer: Answer = await carryOut(what).then(
        (value) => ({ value }),
        (error: unknown) => ({ error: errorText(error) }),
      );
      socket.end(`${JSON.stringify(answer)}\n`);
    });
  });
  server.listen(socketOf(folder));
  await once(server, "listening");
}

/** Asks the cluster whose folder it is; resolves with the value of the answer. @throws Error with its words, or when it is closed */
export async function askBox(folder: string, what: Request): Promise<unknown> {
  const socket = connect(socketOf(folder));
  try {
    await once(socket, "connect");
  } catch (error) {
    throw new Error("the cluster is closed", { cause: error });
  }
  socket.on("error", () => {});
  socket.write(`${JSON.stringify(what)}\n`);
  let answer: Answer = { error: "the cluster ended before it answered" };
  await listen<Answer>(socket, (message) => {
    answer = message;
  });
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer.value;
}
