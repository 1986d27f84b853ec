import { Resolver } from "node:dns/promises";
import { errorText } from "@sallyport/async";
import type { OverlayConnection, OverlayHandler } from "../overlay.ts";
import type { Relay } from "../relay/relays.ts";
import type { AllowedAddresses } from "./addresses.ts";

/** Questions that are being answered at the same time; further ones wait in the circuit. */
const MAX_OPEN = 32;

/** A circuit of questions for this machine's name server, one message each. */
export class ResolverRelay implements OverlayHandler, Relay {
  readonly #connection: OverlayConnection;
  readonly #allowed: AllowedAddresses | undefined;
  readonly #server: HostResolver | undefined;
  readonly #onEnd: (reason: string) => void;
  #open = 0;
  #isBlocked = false;
  /** The dialer has room for answers. */
  #hasRoom = true;
  #isOver = false;

  /** @param allowed the names that may be asked for; undefined: none */
  constructor(
    connection: OverlayConnection,
    allowed: AllowedAddresses | undefined,
    onEnd: (reason: string) => void,
    server?: HostResolver,
  ) {
    this.#connection = connection;
    this.#allowed = allowed;
    this.#onEnd = onEnd;
    this.#server = server;
  }

  start(): void {
    this.#connection.start(this);
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#connection.close(reason);
    this.#onEnd(reason);
  }

  data(buffer: Buffer, start: number, end: number): boolean {
    if (this.#open >= MAX_OPEN || !this.#hasRoom) {
      this.#isBlocked = true;
      return false;
    }
    this.#open++;
    void answerQuestion(buffer.toString("utf8", start, end), this.#allowed, this.#server).then((text) => {
      this.#open--;
      if (this.#isOver) return;
      const answer = Buffer.from(text);
      this.#hasRoom = this.#connection.write(answer, 0, answer.length) && this.#hasRoom;
      this.#unblock();
    });
    return true;
  }

  endOfData(): void {
    this.close("the other end has ended");
  }

  writable(): void {
    this.#hasRoom = true;
    this.#unblock();
  }

  closed(error?: Error): void {
    this.close(error?.message ?? "the circuit ended");
  }

  /** A dialer that takes no answers gets no further questions read. */
  #unblock(): void {
    if (!this.#isBlocked || !this.#hasRoom) return;
    this.#isBlocked = false;
    this.#connection.resume();
  }
}

/** Response codes of DNS, as far as they are used here. */
const Status = { ok: 0, formatError: 1, serverFailure: 2, noSuchName: 3, notImplemented: 4 } as const;
const RecordType = { mx: 15, txt: 16, srv: 33 } as const;
const TTL_SECONDS = 86_400;

interface DnsRecord {
  readonly name: string;
  readonly type: number;
  readonly ttl: number;
  readonly data: string;
  readonly port?: number;
  readonly priority?: number;
  readonly weight?: number;
}

/** The part of `node:dns` that is asked. */
export type HostResolver = Pick<Resolver, "resolveMx" | "resolveTxt" | "resolveSrv">;

/** Always answers a JSON question of a resolver connection with JSON (docs/protocol/tunneler.md, "Names by the host's resolver"). */
export async function answerQuestion(
  text: string,
  allowed: AllowedAddresses | undefined,
  server: HostResolver = new Resolver({ timeout: 2_000, tries: 2 }),
): Promise<string> {
  const request = parse(text);
  const respond = (status: number, more: object = {}) =>
    JSON.stringify({ id: request?.id ?? 0, status, question: request?.question ?? [], ...more });
  const question = request?.question.length === 1 ? request.question[0] : undefined;
  if (question === undefined) return respond(Status.formatError, { comment: "expected exactly one question" });
  const name = question.name.replace(/\.$/, "");
  if (allowed?.hasName(name) !== true) return respond(Status.noSuchName);
  const look = lookUp(server, question.type, question.name, name);
  if (look === undefined) return respond(Status.notImplemented);
  try {
    return respond(Status.ok, { answer: await look });
  } catch (error) {
    return respond(Status.serverFailure, { comment: errorText(error) });
  }
}

function lookUp(server: HostResolver, type: number, owner: string, name: string): Promise<DnsRecord[]> | undefined {
  const base = { name: owner, type, ttl: TTL_SECONDS };
  switch (type) {
    case RecordType.mx:
      return server
        .resolveMx(name)
        .then((all) => all.map(({ exchange, priority }) => ({ ...base, data: exchange, priority })));
    case RecordType.txt:
      return server.resolveTxt(name).then((all) => all.map((parts) => ({ ...base, data: parts.join("") })));
    case RecordType.srv:
      return server.resolveSrv(name).then((all) =>
        all.map((each) => ({
          ...base,
          data: each.name,
          port: each.port,
          priority: each.priority,
          weight: each.weight,
        })),
      );
    default:
      return undefined;
  }
}

interface ResolverQuestion {
  readonly name: string;
  readonly type: number;
}

function parse(text: string): { id: number; question: ResolverQuestion[] } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    const { id, question } = value as { id?: unknown; question?: unknown };
    const questions = Array.isArray(question) ? question : [];
    const isWhole = questions.every((each) => typeof each?.name === "string" && Number.isInteger(each?.type));
    return {
      id: typeof id === "number" ? id : 0,
      question: isWhole ? questions.map(({ name, type }: ResolverQuestion) => ({ name, type })) : [],
    };
  } catch {
    return undefined;
  }
}
