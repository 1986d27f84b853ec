import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { forgedCertificate, forgedRsaKey, pemOf } from "./forged-certificate.ts";

/** Nearly what OpenSSL takes in a handshake: 100 KiB. */
export const MAX_PRESENTED_BYTES = 98_000;

/** A certificate with its key, for TLS, and a chain above it, as long as `bytes` allow, whose signatures take long to verify. */
export function costlyChain(bytes: number = MAX_PRESENTED_BYTES): { certPem: string; keyPem: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const slow = forgedRsaKey(3_072, 3_000);
  const leaf = publicKey.export({ type: "spki", format: "der" });
  const chain = [forgedCertificate({ subject: "leaf", issuer: "x0", publicKey: leaf, signature: "rsa" })];
  for (let size = 0; size < bytes; ) {
    const place = chain.length - 1;
    const names = { subject: `x${place}`, issuer: `x${place + 1}` };
    const next = forgedCertificate({ ...names, publicKey: slow, isCa: true, signature: "rsa" });
    size += next.length;
    if (size < bytes) chain.push(next);
  }
  return {
    certPem: chain.map((der) => pemOf(der)).join(""),
    keyPem: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

export interface ClientOptions extends Pick<ConnectionOptions, "maxVersion" | "ca" | "servername"> {
  readonly port: number;
  readonly localAddress?: string;
  readonly certPem: string;
  readonly keyPem: string;
  /** Called before the certificates are sent, which waits for what it returns. */
  readonly beforeCertificates?: () => Promise<void>;
}

/** A TLS client that never proves it has the key: nothing follows its certificates. Resolves once they are sent. */
export async function abandonedHandshake(options: ClientOptions): Promise<Socket> {
  const { certPem, keyPem, port, localAddress, beforeCertificates, ...tls } = options;
  const below = connectTcp({ host: "127.0.0.1", port, ...(localAddress === undefined ? {} : { localAddress }) });
  below.on("error", () => {});
  await once(below, "connect");
  const way = new WithoutShortRecords(below, beforeCertificates);
  const client = connect({ ...tls, socket: way, cert: certPem, key: keyPem, rejectUnauthorized: false });
  client.on("error", () => {});
  await Promise.race([way.leftOut, new Promise((resolve) => below.once("close", resolve))]);
  return below;
}

/** Whether the other end served a client: `served` once it says something, else how the connection ended. */
export async function outcome(options: ClientOptions): Promise<string> {
  const { certPem, keyPem, port, localAddress, ...tls } = options;
  const at = { host: "127.0.0.1", port, ...(localAddress === undefined ? {} : { localAddress }) };
  const client: TLSSocket = connect({
    ...tls,
    ...at,
    cert: certPem,
    key: keyPem,
    rejectUnauthorized: false,
  } as ConnectionOptions);
  try {
    return await new Promise((resolve) => {
      client.once("data", () => resolve("served"));
      client.once("error", ({ message }) => resolve(message));
      client.once("close", () => resolve("closed"));
    });
  } finally {
    client.on("error", () => {}).destroy();
  }
}

const RECORD_PREFIX = 5;
/** Longer than a proof of a key and what ends a handshake, shorter than a certificate. */
const SHORT_RECORD = 256;

/** Passes on what a TLS client writes but for short records behind the first one. */
class WithoutShortRecords extends Duplex {
  readonly leftOut: Promise<void>;
  readonly #below: Socket;
  readonly #onLeftOut: () => void;
  readonly #before: () => Promise<void>;
  #rest: Buffer = Buffer.alloc(0);
  #written = 0;

  constructor(below: Socket, before: () => Promise<void> = async () => {}) {
    super();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.leftOut = promise;
    this.#onLeftOut = resolve;
    this.#below = below;
    this.#before = before;
    below.on("data", (bytes: Buffer) => void this.push(bytes));
    below.once("close", () => this.destroy());
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    this.#pass().then(() => done(), done);
  }

  async #pass(): Promise<void> {
    while (this.#rest.length >= RECORD_PREFIX) {
      const end = RECORD_PREFIX + this.#rest.readUInt16BE(3);
      if (this.#rest.length < end) return;
      const record = this.#rest.subarray(0, end);
      this.#rest = this.#rest.subarray(end);
      if (this.#written++ === 1) await this.#before();
      if (this.#written === 1 || record.length >= SHORT_RECORD) this.#below.write(record);
      else if (record.length > 2 * RECORD_PREFIX) this.#onLeftOut();
    }
  }
}
