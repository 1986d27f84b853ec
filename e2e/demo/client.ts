import { createHash } from "node:crypto";
import { once } from "node:events";
import { type Agent, type IncomingMessage, request } from "node:http";
import { pseudoRandom } from "../network/bytes.ts";

/** Fetches `/` of the service through the overlay. */
export async function fetchPage(agent: Agent, service: string): Promise<string> {
  const outgoing = request({ agent, host: service, path: "/" });
  outgoing.end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  let page = "";
  for await (const chunk of response.setEncoding("utf8")) page += chunk;
  if (response.statusCode !== 200) throw new Error(`the page answered ${response.statusCode}: ${page}`);
  return page;
}

export interface Transfer {
  readonly bytes: number;
  readonly seconds: number;
  readonly megabytesPerSecond: number;
  readonly sha256: string;
}

/** Moves so many bytes to the echo and back, both ways at once, and compares their checksums; throws when they differ. */
export async function moveAndCompare(agent: Agent, service: string, bytes: number): Promise<Transfer> {
  const started = performance.now();
  const outgoing = request({
    agent,
    host: service,
    path: "/echo",
    method: "POST",
    headers: { "content-length": bytes },
  });
  const answered = once(outgoing, "response") as Promise<[IncomingMessage]>;
  const sent = createHash("sha256");
  const sending = (async () => {
    for (const chunk of pseudoRandom(1, bytes)) {
      sent.update(chunk);
      if (!outgoing.write(chunk)) await once(outgoing, "drain");
    }
    outgoing.end();
  })();
  const [response] = await answered;
  const received = createHash("sha256");
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    received.update(chunk);
  }
  await sending;
  const seconds = (performance.now() - started) / 1000;
  const [there, back] = [sent.digest("hex"), received.digest("hex")];
  if (length !== bytes || there !== back) {
    throw new Error(`${length} of ${bytes} bytes came back; checksum sent ${there}, received ${back}`);
  }
  return { bytes, seconds, megabytesPerSecond: (2 * bytes) / 1e6 / seconds, sha256: back };
}
