import { KeyObject } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { x509 } from "@sallyport/wire";
import { Program } from "../../e2e/network/program.ts";
import { usageOf } from "./usage.ts";

const CHUNK = Buffer.alloc(65_536, 0x33);

/** How long an acknowledgement waits for company, and how long one is that names some dozens of payloads. */
const ACK_MS = 3;
const ACK = Buffer.alloc(200, 0x11);

/** What passes the pipe. */
export interface PipeLoad {
  /** Bytes of a TLS record of the sender; absent: as many as fit. OpenZiti's tunnelers send 10 KB. */
  readonly recordBytes?: number;
  /** As a router with flow control, it carries acknowledgements the other way. */
  readonly isAcknowledged?: boolean;
}

/** CPU seconds per GB of the relay that does nothing but `a.pipe(b)` between two TLS connections: one hop at its cheapest in Node. */
export async function measurePipe(
  folder: string,
  bytes: number,
  load: PipeLoad = {},
): Promise<{ cpuSecondsPerGB: number; megabytesPerSecond: number }> {
  const { keyPem, certificate } = await selfSigned();
  const [certFile, keyFile] = [join(folder, "pipe.cert"), join(folder, "pipe.key")];
  writeFileSync(certFile, certificate);
  writeFileSync(keyFile, keyPem, { mode: 0o600 });

  let received = 0;
  const done = Promise.withResolvers<void>();
  const sink = createServer({ cert: readFileSync(certFile), key: keyPem, minVersion: "TLSv1.3" }, (socket) => {
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received >= bytes) done.resolve();
    });
    socket.on("error", () => socket.destroy());
    if (load.isAcknowledged !== true) return;
    let acknowledged = 0;
    const acks = setInterval(() => {
      if (received > acknowledged) socket.write(ACK);
      acknowledged = received;
    }, ACK_MS);
    socket.on("close", () => clearInterval(acks));
  });
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  const relay = new Program({
    name: "pipe",
    command: process.execPath,
    args: [join(import.meta.dirname, "pipe.ts"), certFile, keyFile, String((sink.address() as { port: number }).port)],
  });
  try {
    const port = Number((await relay.line(/^port /)).slice(5));
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
    await once(socket, "secureConnect");
    if (load.recordBytes !== undefined) socket.setMaxSendFragment(load.recordBytes);
    socket.on("data", () => {});
    const before = usageOf(relay.pid).cpuSeconds;
    const started = performance.now();
    for (let left = bytes; left > 0; left -= CHUNK.length) {
      if (!socket.write(left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left))) await once(socket, "drain");
    }
    await done.promise;
    const seconds = (performance.now() - started) / 1000;
    socket.destroy();
    return {
      cpuSecondsPerGB: (usageOf(relay.pid).cpuSeconds - before) / (bytes / 1e9),
      megabytesPerSecond: bytes / 1e6 / seconds,
    };
  } finally {
    await relay.stop();
    sink.close();
  }
}

async function selfSigned(): Promise<{ keyPem: string; certificate: string }> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: "CN=localhost",
    keys,
    signingAlgorithm: algorithm,
  });
  const keyPem = KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" }).toString();
  return { keyPem, certificate: certificate.toString("pem") };
}
