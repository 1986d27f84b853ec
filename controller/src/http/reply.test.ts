import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { get, split, startTestApi, type TestApi, version } from "./testing/test-api.ts";

const SIZE = 8 * 1024 * 1024;
const TOO_LARGE = `POST /edge/client/v1/authenticate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${SIZE}\r\n\r\n`;
/** Of the one operation that reads the body of a GET. */
const STREAMED = `GET /edge/client/v1/current-identity/mfa/recovery-codes HTTP/1.1\r\nHost: x\r\nzt-session: full\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${SIZE.toString(16)}\r\n`;
const NEXT = get("/version");

/** Has a thread of its own: it sends while the server answers. */
const CALLER = `
  const { connect } = require("node:tls");
  const { parentPort, workerData } = require("node:worker_threads");
  const { options, parts } = workerData;
  let answer = "";
  const socket = connect(options, () => parts.forEach((part) => socket.write(part)));
  socket.on("data", (chunk) => (answer += chunk));
  socket.on("error", () => {});
  socket.on("close", () => parentPort.postMessage(answer));
`;

let api: TestApi;
let asked = 0;
afterEach(() => api.close());

async function start(): Promise<void> {
  asked = 0;
  const listVersion = async () => {
    asked++;
    return { data: version };
  };
  const limits = { requestTimeoutMs: 120_000, socketTimeoutMs: 120_000 };
  api = await startTestApi({ handlers: { client: { listVersion } }, limits });
}

async function answerTo(...parts: string[]): Promise<string> {
  const options = { host: "127.0.0.1", port: api.port, ca: api.authority.certPem, servername: "localhost" };
  const [answer] = await once(new Worker(CALLER, { eval: true, workerData: { options, parts } }), "message");
  return answer;
}

describe("a connection that ends before a request has arrived whole", () => {
  test("brings the answer to a caller that is still sending, and takes no request behind that one", async () => {
    await start();
    const body = "x".repeat(SIZE);
    for (let i = 0; i < 5; i++) expect(split(await answerTo(TOO_LARGE, body, NEXT)).status).toBe(413);
    for (let i = 0; i < 5; i++) expect(split(await answerTo(STREAMED, body, "\r\n0\r\n\r\n", NEXT)).status).toBe(413);
    expect(asked).toBe(0);
    expect(split(await answerTo(NEXT)).status).toBe(200);
    expect(asked).toBe(1);
  });

  test("is closed when its caller goes on sending", async () => {
    await start();
    const caller = await api.open();
    caller.on("error", () => {});
    await expect.poll(() => api.api.connections).toBe(1);
    // Who reads nothing does not see the end of it.
    caller.pause();
    caller.write(TOO_LARGE);
    const sending = setInterval(() => caller.write("x"), 10);
    await expect.poll(() => api.api.connections).toBe(0);
    clearInterval(sending);
    caller.destroy();
  });
});
