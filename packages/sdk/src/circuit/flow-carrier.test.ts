import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { XgressType } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Binding } from "../binding.ts";
import { loadSodium } from "../crypto/load-sodium.ts";
import { dialThrough } from "../dial.ts";
import type { EdgeChannel } from "../edge-channel.ts";
import type { IncomingDial } from "../incoming-dial.ts";
import { TinyRouter } from "../testing/tiny-router.ts";
import { EdgeConnection } from "./connection.ts";
import type { MessageConnection } from "./message-connection.ts";

const MiB = 1024 * 1024;
const never = new AbortController().signal;

let router: TinyRouter;
let client: EdgeChannel;
let host: EdgeChannel;

beforeEach(async () => {
  router = await TinyRouter.start();
  router.flowControl = true;
  client = await router.connect("client");
  host = await router.connect("host");
});

afterEach(() => router.close());

async function serve(onDial: (dial: IncomingDial) => void, o: { encrypted?: boolean } = {}): Promise<void> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const crypto = sodium === undefined ? undefined : { sodium, keys: sodium.createKeyPair() };
  await new Promise<void>((resolve, reject) => {
    new Binding(
      host,
      { service: "svc", sessionToken: "svc", listenerId: "listener", identityName: "host", crypto },
      { established: resolve, ended: (text) => reject(new Error(text)), dialled: onDial },
    );
  });
}

/** Serves with streams. */
async function serveStreams(
  take: (connection: EdgeConnection) => void,
  o: { encrypted?: boolean } = {},
): Promise<void> {
  await serve(async (dial) => {
    const connection = new EdgeConnection(await dial.accept(), { allowHalfOpen: true });
    take(connection.on("error", () => {}));
  }, o);
}

async function connect(o: { encrypted?: boolean; datagrams?: boolean } = {}): Promise<MessageConnection> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const request = { service: "svc", sessionToken: "svc", callerId: "alice", sodium, datagrams: o.datagrams };
  return await dialThrough(client, request, never);
}

async function dial(o: { encrypted?: boolean } = {}): Promise<EdgeConnection> {
  return new EdgeConnection(await connect(o), { allowHalfOpen: true }).on("error", () => {});
}

async function hashOf(connection: EdgeConnection): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of connection.iterator({ destroyOnReturn: false })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

test.each([true, false])("bytes both ways, each direction ended by itself (encrypted: %s)", async (encrypted) => {
  await serveStreams((connection) => connection.pipe(connection), { encrypted });
  const connection = await dial({ encrypted });
  const bytes = randomBytes(12 * MiB);
  const hash = hashOf(connection);
  connection.end(bytes);
  expect(await hash).toBe(sha256(bytes));
  expect(router.messages(XgressType.Payload).length).toBeGreaterThan(1_000);
});
