import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { OverlayConnection, OverlayHandler } from "../overlay.ts";
import { TcpRelay } from "./tcp-relay.ts";

let server: Server;
let application: Socket;
let relay: TcpRelay;
let circuit: OverlayHandler;
/** What the application saw last. */
let outcome: Promise<string>;
let received = "";

beforeEach(async () => {
  received = "";
  server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection");
  application = connect({ port: (server.address() as { port: number }).port, host: "127.0.0.1", allowHalfOpen: true });
  const [socket] = (await accepted) as [Socket];
  const connection: OverlayConnection = {
    circuitId: "c",
    maxMessage: 1_000,
    start: (handler) => {
      circuit = handler;
    },
    write: () => true,
    endWriting() {},
    resume() {},
    close() {},
  };
  relay = new TcpRelay(socket, connection, () => {});
  relay.start();
  outcome = new Promise((resolve) => {
    application.on("data", (bytes) => {
      received += bytes.toString();
    });
    application.on("end", () => resolve("end"));
    application.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
});

afterEach(() => {
  application.destroy();
  server.close();
});

function give(text: string): void {
  const bytes = Buffer.from(text);
  circuit.data(bytes, 0, bytes.length);
}

test("the end of data, and the close behind it, is an end for the application", async () => {
  give("all of it");
  circuit.endOfData();
  circuit.closed();
  expect(await outcome).toBe("end");
  expect(received).toBe("all of it");
});

test.each([
  ["with an error", () => circuit.closed(new Error("cut"))],
  ["without one", () => circuit.closed()],
  ["because the tunneler stops", () => relay.close("stopping")],
])("a circuit that is over before the end of its data, %s, resets the application's connection", async (_, end) => {
  give("a part");
  end();
  expect(await outcome).toBe("ECONNRESET");
});
