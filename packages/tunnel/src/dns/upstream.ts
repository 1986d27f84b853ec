import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";
import type { Logger } from "@sallyport/wire";
import { answers, type DnsQuestion, encodeError, payloadLimit, ResponseCode, truncated } from "./message.ts";

export interface UpstreamOptions {
  readonly host: string;
  readonly port: number;
  readonly log: Logger;
  /** Queries under way at a time; further ones are answered with "server failure" at once. 256 when absent. */
  readonly maxOutstanding?: number | undefined;
  /** Of one client; 64 when absent. */
  readonly maxPerClient?: number | undefined;
  /** 4000 when absent. */
  readonly timeoutMs?: number | undefined;
}

/** Ends a query under way. */
type Finish = (answer: Buffer) => void;

/**
 * Asks another name server. Every query goes out under a random id from a port of its own, and only an answer to this very
 * question counts, so that answers cannot be forged from afar. An answer is never larger than the client's query allowed.
 */
export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #outstanding = new Set<Finish>();
  readonly #perClient = new Map<string, number>();
  #closed = false;

  constructor(options: UpstreamOptions) {
    this.#options = options;
  }

  /** Resolves with the bytes for the client, always. */
  async ask(query: Buffer, question: DnsQuestion, client: string): Promise<Buffer> {
    const failure = (): Buffer => encodeError(query, ResponseCode.ServerFailure, question);
    const ofClient = this.#perClient.get(client) ?? 0;
    const { maxOutstanding = 256, maxPerClient = 64 } = this.#options;
    if (this.#closed || this.#outstanding.size >= maxOutstanding || ofClient >= maxPerClient) return failure();
    this.#perClient.set(client, ofClient + 1);
    try {
      return (await this.#exchange(query, question)) ?? failure();
    } finally {
      const left = (this.#perClient.get(client) ?? 1) - 1;
      if (left > 0) this.#perClient.set(client, left);
      else this.#perClient.delete(client);
    }
  }

  close(): void {
    this.#closed = true;
    for (const finish of this.#outstanding) finish(Buffer.alloc(0));
  }

  async #exchange(query: Buffer, question: DnsQuestion): Promise<Buffer | undefined> {
    const { host, port, log, timeoutMs = 4000 } = this.#options;
    const id = randomInt(0x10000);
    const asked = Buffer.from(query);
    asked.writeUInt16BE(id, 0);
    const limit = payloadLimit(query, question);
    const answer = await new Promise<Buffer>((resolve) => {
      const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
      const finish: Finish = (bytes) => {
        if (!this.#outstanding.delete(finish)) return;
        clearTimeout(timer);
        socket.close();
        resolve(bytes);
      };
      this.#outstanding.add(finish);
      const timer = setTimeout(() => {
        log.debug({ upstream: host, name: question.name }, "the upstream name server does not answer");
        finish(Buffer.alloc(0));
      }, timeoutMs);
      socket.on("error", (error) => {
        log.debug({ upstream: host, err: error }, "the upstream name server cannot be asked");
        finish(Buffer.alloc(0));
      });
      socket.on("message", (bytes) => {
        if (answers(bytes, id, query, question)) finish(bytes);
      });
      // Connected: the kernel drops what comes from any other address.
      socket.once("connect", () => socket.send(asked));
      socket.connect(port, host);
    });
    if (answer.length === 0) return undefined;
    const whole = answer.length <= limit ? Buffer.from(answer) : truncated(answer, question.end);
    query.copy(whole, 0, 0, 2);
    return whole;
  }
}
