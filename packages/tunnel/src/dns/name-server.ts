import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { isIPv6 } from "node:net";
import { boundedLog, type Logger, listenAdvice } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { parseIp } from "../ip-range.ts";
import { type DnsQuestion, encodeAnswer, encodeError, parseQuery, RecordType, ResponseCode } from "./message.ts";
import { ADDRESS_TTL_SECONDS, type Names } from "./names.ts";
import type { Upstream } from "./upstream.ts";

/** A name that every name server of a tunneler answers for, with this address: by it one finds out whether the system asks us. */
const TEST_NAME = "ziti-tunnel.resolver.test";
const TEST_ADDRESS = Buffer.from([19, 65, 28, 94]);

export interface NameServerOptions {
  /** A specific address: from a wildcard address, answers to intercepted addresses would leave from the wrong one. */
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly names: Names;
  /** Who is asked for what is not ours; without one that is refused, so that clients try their next name server. */
  readonly upstream?: Upstream | undefined;
  readonly log: Logger;
}

/**
 * The name server of the tunneler, over UDP: the addresses of intercepted names, "no such record" for IPv6 addresses,
 * and a refusal for everything else (docs/tunnel/interception.md, "Names").
 */
export class NameServer {
  readonly #socket: Socket;
  readonly #options: NameServerOptions;
  /** Bounded: any sender of datagrams can cause warnings. */
  readonly #log: Logger;
  readonly #shortage: Logger;
  #isClosed = false;

  private constructor(socket: Socket, options: NameServerOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#log = boundedLog(options.log);
    this.#shortage = boundedLog(options.log, { perReason: 1, perMessage: 1 });
    socket.on("message", (query, from) => {
      // Nothing can be sent to port 0, and trying to would be an error of this process.
      if (from.port !== 0) void this.#take(query, from);
    });
    socket.on("error", (err) => this.#log.warn({ err }, "name server"));
  }

  /** @throws InterceptError when the address cannot be had */
  static async listen(options: NameServerOptions): Promise<NameServer> {
    const { host, port } = options;
    if (["0.0.0.0", "::", ""].includes(host)) {
      const message = `the name server cannot listen on "${host}": give it one address of this host, e.g. udp://127.0.0.1:53`;
      throw new InterceptError("BAD_RESOLVER", message);
    }
    const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
    try {
      socket.bind(port, host);
      await once(socket, "listening");
    } catch (error) {
      socket.close();
      const message = `the name server cannot listen on ${host} port ${port} (resolver): ${listenAdvice(error)}`;
      throw new InterceptError("RESOLVER_ADDRESS", message, { cause: error });
    }
    return new NameServer(socket, options);
  }

  get port(): number {
    return this.#socket.address().port;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.upstream?.close();
    const closed = once(this.#socket, "close");
    this.#socket.close();
    await closed;
  }

  async #take(query: Buffer, from: RemoteInfo): Promise<void> {
    const answer = await this.#answer(query, from.address).catch((err: unknown) => {
      this.#log.warn({ err, client: from.address }, "a question could not be answered");
      return encodeError(query, ResponseCode.ServerFailure);
    });
    if (answer !== undefined && !this.#isClosed) this.#socket.send(answer, from.port, from.address);
  }

  async #answer(query: Buffer, client: string): Promise<Buffer | undefined> {
    const parsed = parseQuery(query);
    if (parsed.kind === "ignore") return undefined;
    if (parsed.kind === "error") return encodeError(query, parsed.code);
    const { question } = parsed;
    const { names, upstream, log } = this.#options;
    if (question.name === TEST_NAME && question.type === RecordType.A) {
      return encodeAnswer(query, question, TEST_ADDRESS, ADDRESS_TTL_SECONDS);
    }
    const isOurs = names.knows(question.name);
    if (!isOurs && upstream !== undefined) return await upstream.ask(query, question, client);
    if (question.type === RecordType.AAAA && question.name === TEST_NAME) {
      return encodeAnswer(query, question, undefined, ADDRESS_TTL_SECONDS);
    }
    // IPv6 addresses, too: resolvers ask for both families at once, and an empty answer for one ends the search for the other.
    if (!isOurs) return encodeError(query, ResponseCode.Refused, question);
    if (question.type === RecordType.AAAA) return await this.#addressAnswer(query, question, 6);
    if (question.type !== RecordType.A) return encodeError(query, ResponseCode.Refused, question);
    const answer = await this.#addressAnswer(query, question, 4);
    log.debug({ name: question.name, client }, "name asked for");
    return answer;
  }

  /** The address if it is of the family that was asked for; none otherwise, which is an answer, too. */
  async #addressAnswer(query: Buffer, question: DnsQuestion, family: 4 | 6): Promise<Buffer> {
    const { names } = this.#options;
    if (names.family !== family) return encodeAnswer(query, question, undefined, ADDRESS_TTL_SECONDS);
    const found = names.lookUp(question.name);
    if (found.kind === "exhausted") {
      this.#exhausted(question.name);
      return encodeError(query, ResponseCode.ServerFailure, question);
    }
    if (found.kind === "unknown") return encodeError(query, ResponseCode.Refused, question);
    await found.ready;
    return encodeAnswer(query, question, addressBytes(found.address), ADDRESS_TTL_SECONDS);
  }

  #exhausted(name: string): void {
    this.#shortage.warn(
      { name },
      "no address is left for names under wildcards, as all are used or were asked for in the last two minutes: widen dnsSvcIpRange, or narrow the wildcards",
    );
  }
}

function addressBytes(address: string): Buffer {
  const ip = parseIp(address);
  if (ip === undefined) throw new InterceptError("BAD_ADDRESS", `${address} is no IP address`);
  return Buffer.from(ip.value.toString(16).padStart(ip.family === 4 ? 8 : 32, "0"), "hex");
}
