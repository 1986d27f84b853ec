import { errorText } from "@sallyport/async";
import { type Channel, dialChannel, HandshakeError, type Identity, type Logger, type Message } from "@sallyport/wire";
import { z } from "zod";
import {
  type Answer,
  type Call,
  CallType,
  callOf,
  failureOf,
  jsonOf,
  nameOf,
  question,
  REPLICA_ALPN,
} from "./calls.ts";
import type { KnownReplica } from "./replica-port.ts";

/** How long a replica may take to be reached, and how long it may be silent while it is asked. */
export const SILENT_MS = 1_000;
/** How long a whole answer may take, in multiples of that. */
const WHOLE_FACTOR = 5;
/** A replica that could not be reached is not dialed again for this long: a question to all replicas must not wait for it each time. */
const REST_MS = 1_000;
/** Of one answer. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const HEARTBEATS = { sendIntervalMs: 1_000, checkIntervalMs: 500, closeUnresponsiveMs: 5_000 };

/** A replica gave no answer that can be used. */
export class ReplicaSilentError extends Error {
  override name = "ReplicaSilentError";
}

interface Pending {
  readonly parts: unknown[];
  bytes: number;
  heard(): void;
  done(value: unknown): void;
  failed(reason: string): void;
}

interface CalledParts {
  readonly ownId: string;
  /** What is dialed with now. */
  readonly identity: () => Identity;
  readonly onNotice: (name: string, message: Message) => void;
  /** A new channel is there: what the replica was asked to tell has to be asked again. */
  readonly onConnected: () => void;
  readonly silentMs: number;
  readonly log: Logger;
}

/** The asking side of one other replica: a channel that is dialed when it is needed, and kept. */
export class CalledReplica {
  readonly id: string;
  readonly #parts: CalledParts;
  #replica: KnownReplica;
  #channel: Promise<Channel> | undefined;
  #open: Channel | undefined;
  #restsUntil = Number.NEGATIVE_INFINITY;
  readonly #pending = new Map<number, Pending>();
  #count = 0;
  #isClosed = false;

  constructor(replica: KnownReplica, parts: CalledParts) {
    this.id = replica.id;
    this.#replica = replica;
    this.#parts = parts;
  }

  /** Takes note of what is known of it now. A channel to what it was before ends. */
  update(replica: KnownReplica): void {
    const before = this.#replica;
    this.#replica = replica;
    const isSame = (["ctrlAddress", "apiAddress", "fingerprint"] as const).every((key) => before[key] === replica[key]);
    if (isSame) return;
    this.#restsUntil = Number.NEGATIVE_INFINITY;
    this.#open?.close(new Error(`replica ${this.id} has another address or certificate`));
  }

  /** @throws ReplicaSilentError */
  async ask<Q, A, I>(call: Call<Q, A, I>, value: Q): Promise<Answer<A, I>> {
    try {
      const { value: found, parts } = await this.#ask(await this.#connected(), call.name, value);
      const items = call.item === undefined ? [] : z.array(call.item).parse(parts);
      return { value: call.answer.parse(found), items };
    } catch (error) {
      if (error instanceof ReplicaSilentError) throw error;
      const reason = error instanceof z.ZodError ? z.prettifyError(error) : errorText(error);
      throw new ReplicaSilentError(`replica ${this.id} did not answer: ${reason}`, { cause: error });
    }
  }

  /** Has a channel made if there is none. Never rejects. */
  async reach(): Promise<void> {
    await this.#connected().catch((error: unknown) =>
      this.#parts.log.debug({ replica: this.id, reason: errorText(error) }, "another controller cannot be reached"),
    );
  }

  close(): void {
    this.#isClosed = true;
    this.#open?.close();
  }

  #connected(): Promise<Channel> {
    if (this.#channel !== undefined) return this.#channel;
    if (this.#isClosed || performance.now() < this.#restsUntil) {
      return Promise.reject(new ReplicaSilentError(`replica ${this.id} could not be reached a moment ago`));
    }
    const made = this.#dial();
    this.#channel = made;
    made.then(
      (channel) => {
        if (this.#isClosed) channel.close();
      },
      () => {
        this.#restsUntil = performance.now() + REST_MS;
        if (this.#channel === made) this.#channel = undefined;
      },
    );
    return made;
  }

  async #dial(): Promise<Channel> {
    const { onNotice, onConnected } = this.#parts;
    const { ctrlAddress, apiAddress } = this.#replica;
    const channel = await this.#dialAt(ctrlAddress).catch((error: unknown) => {
      // Replicas of version 0.2 answer at the address of their API alone. Or only one of the two can be reached.
      if (`tls:${apiAddress}` === ctrlAddress) throw error;
      return this.#dialAt(`tls:${apiAddress}`);
    });
    const settle = (message: Message, settled: (pending: Pending) => void) => {
      const pending = this.#pending.get(callOf(message));
      if (pending !== undefined) settled(pending);
    };
    channel.handle(CallType.Part, (message) => settle(message, (pending) => take(pending, message)));
    channel.handle(CallType.Answer, (message) =>
      settle(message, (pending) => {
        const reason = failureOf(message);
        if (reason === undefined) pending.done(jsonOf(message));
        else pending.failed(reason);
      }),
    );
    channel.handle(CallType.Notice, (message) => onNotice(nameOf(message), message));
    channel.enableHeartbeats(HEARTBEATS);
    this.#open = channel;
    channel.onClose((reason) => {
      this.#channel = undefined;
      this.#open = undefined;
      for (const pending of [...this.#pending.values()]) pending.failed(reason?.message ?? "the channel was closed");
    });
    // When the asker's turn is over: what it asks goes first.
    setImmediate(onConnected);
    return channel;
  }

  async #dialAt(address: string): Promise<Channel> {
    const { ownId, identity, silentMs, log } = this.#parts;
    const { fingerprint } = this.#replica;
    const channel = await dialChannel({
      address,
      identity: identity(),
      // Not by its dates: the clock of one of the two may be wrong.
      peerFingerprint: fingerprint,
      alpn: REPLICA_ALPN,
      hello: { idToken: ownId },
      timeoutMs: silentMs,
      log,
    });
    const { remoteId } = channel;
    if (remoteId === this.id) return channel;
    channel.close();
    throw new HandshakeError("WRONG_PEER", `expected replica ${this.id} at ${address}, found ${remoteId}`);
  }

  #ask(channel: Channel, name: string, value: unknown): Promise<{ value: unknown; parts: readonly unknown[] }> {
    this.#count = (this.#count + 1) % 2 ** 32;
    const id = this.#count;
    const { silentMs } = this.#parts;
    const wholeMs = WHOLE_FACTOR * silentMs;
    return new Promise((resolve, reject) => {
      const failed = (reason: string) => {
        end();
        reject(new ReplicaSilentError(`replica ${this.id}: ${reason}`));
      };
      const silence = setTimeout(() => failed(`no answer within ${silentMs} ms`), silentMs);
      const whole = setTimeout(() => failed(`no whole answer within ${wholeMs} ms`), wholeMs);
      const end = () => {
        clearTimeout(silence);
        clearTimeout(whole);
        this.#pending.delete(id);
      };
      const pending: Pending = {
        parts: [],
        bytes: 0,
        heard: () => silence.refresh(),
        done: (found) => {
          end();
          resolve({ value: found, parts: pending.parts });
        },
        failed,
      };
      this.#pending.set(id, pending);
      try {
        channel.send(question(id, name, value));
      } catch (error) {
        failed(errorText(error));
      }
    });
  }
}

function take(pending: Pending, message: Message): void {
  pending.bytes += message.body.length;
  const items = jsonOf(message);
  if (pending.bytes > MAX_ANSWER_BYTES || !Array.isArray(items)) {
    pending.failed(`its answer is no list of at most ${MAX_ANSWER_BYTES} bytes`);
    return;
  }
  for (const item of items) pending.parts.push(item);
  pending.heard();
}
