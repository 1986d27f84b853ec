/** Where the keeper of a slot listens: only one can, so that it is the lock of the slot, too. */
import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";
import { listen } from "./protocol.ts";

/** Of the kernel's own name space: it takes the name back when the keeper ends, however it does. */
const addressOf = (slot: number): string => `\0sallyport-cluster-${slot}`;

export type Question = "about" | "close";

export interface KeeperState {
  /** Absent until the cluster is ready. */
  readonly kubeconfig?: string;
  /** It does not belong to a test. */
  readonly stays: boolean;
}

/** Takes the lock of a slot, and answers questions; undefined when another process has it. */
export async function takeSlot(
  slot: number,
  answer: (question: Question) => Promise<KeeperState>,
): Promise<Server | undefined> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    void listen<{ readonly what: Question }>(socket, async ({ what }) => {
      socket.end(`${JSON.stringify(await answer(what))}\n`);
    });
  });
  server.listen(addressOf(slot));
  try {
    await once(server, "listening");
    return server;
  } catch {
    return undefined;
  }
}

/** Asks the keeper of a slot; undefined when there is none. "close" is answered when everything is gone. */
export async function askKeeper(slot: number, what: Question): Promise<KeeperState | undefined> {
  const socket = connect(addressOf(slot));
  try {
    await once(socket, "connect");
  } catch {
    return undefined;
  }
  socket.write(`${JSON.stringify({ what })}\n`);
  let state: KeeperState | undefined;
  await listen<KeeperState>(socket, (message) => {
    state = message;
  });
  return state;
}
