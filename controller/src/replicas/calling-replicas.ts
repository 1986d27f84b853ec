import { errorText } from "@sallyport/async";
import {
  acceptChannels,
  type Channel,
  type ChannelPort,
  HandshakeError,
  type Hello,
  type Logger,
  type Message,
  type Peer,
} from "@sallyport/wire";
import { z } from "zod";
import {
  type Answer,
  answer,
  type Call,
  CallType,
  callOf,
  failure,
  jsonOf,
  nameOf,
  notice,
  part,
  REPLICA_ALPN,
} from "./calls.ts";
import type { ReplicaDirectory } from "./replica-port.ts";

/** Questions of one replica that are worked on at a time; further ones fail. */
const MAX_AT_ONCE = 64;
/** Entries of a list that go in one message. */
const PART_ITEMS = 500;
const MAX_QUESTION_BYTES = 1024 * 1024;
const HEARTBEATS = { sendIntervalMs: 1_000, checkIntervalMs: 500, closeUnresponsiveMs: 5_000 };
const HELLO_MS = 1_000;
const MAX_HELLOS = 64;

/** The replica that asks, as long as its channel is open. */
export interface Asker {
  readonly id: string;
  /** Bytes that wait to be written to it. */
  readonly queuedBytes: number;
  notify(name: string, json: string): void;
  onClose(listener: () => void): void;
}

type Handler = (question: unknown, asker: Asker) => Promise<Answer<unknown, unknown>>;

interface CallingParts {
  readonly ownId: string;
  /** Where the others find this process. */
  readonly ports: readonly ChannelPort[];
  readonly directory: ReplicaDirectory;
  readonly log: Logger;
}

/** The answering side: takes channels of the live replicas of this network alone. Source: docs/protocol/replicas.md, "Calls". */
export class CallingReplicas {
  readonly #parts: CallingParts;
  readonly #handlers = new Map<string, Handler>();
  readonly #channels = new Set<Channel>();
  #stop: (() => void) | undefined;

  constructor(parts: CallingParts) {
    this.#parts = parts;
  }

  /** Answers a call from now on. */
  serve<Q, A, I>(call: Call<Q, A, I>, handler: (question: Q, asker: Asker) => Promise<Answer<A, I>>): void {
    this.#handlers.set(call.name, (value, asker) => handler(call.question.parse(value), asker));
  }

  /** The set of replicas is another one: there may be others to listen for, and channels of former ones. */
  changed(): void {
    const { directory, ownId } = this.#parts;
    if (this.#stop === undefined && directory.replicas().some(({ id }) => id !== ownId)) this.#stop = this.#listen();
    for (const channel of this.#channels) {
      if (!this.#isReplica(channel.remoteId, channel.peer)) channel.close(new Error("it is no live replica any more"));
    }
  }

  close(): void {
    this.#stop?.();
    for (const channel of this.#channels) channel.close();
  }

  #listen(): () => void {
    const { ports, ownId, log } = this.#parts;
    const stops = ports.map((port) =>
      acceptChannels(port, {
        name: "replica",
        protocols: [REPLICA_ALPN],
        acceptsNoAlpn: false,
        id: ownId,
        authorize: async (hello, peer) => this.#authorize(hello, peer),
        onChannel: (channel) => this.#accepted(channel),
        helloTimeoutMs: HELLO_MS,
        maxHellos: MAX_HELLOS,
        maxBody: MAX_QUESTION_BYTES,
        log,
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }

  /** @throws HandshakeError: the connection is closed without an answer */
  #authorize({ idToken }: Hello, peer: Peer): void {
    if (this.#isReplica(idToken, peer)) return;
    throw new HandshakeError("NO_REPLICA", `${peer.address} is no live replica of this network`);
  }

  #isReplica(replicaId: string, { fingerprint }: Peer): boolean {
    const { directory, ownId } = this.#parts;
    if (fingerprint === undefined || replicaId === ownId) return false;
    return directory
      .replicas()
      .some((known) => known.isLive && known.id === replicaId && known.fingerprint === fingerprint);
  }

  #accepted(channel: Channel): void {
    this.#channels.add(channel);
    channel.onClose(() => this.#channels.delete(channel));
    const asker: Asker = {
      id: channel.remoteId,
      get queuedBytes() {
        return channel.queuedBytes;
      },
      notify: (name, json) => {
        if (!channel.isClosed) channel.send(notice(name, json));
      },
      onClose: (listener) => channel.onClose(listener),
    };
    let running = 0;
    channel.handle(CallType.Question, async (message) => {
      const id = callOf(message);
      if (running >= MAX_AT_ONCE) {
        channel.send(failure(id, `more than ${MAX_AT_ONCE} questions at once`));
        return;
      }
      running += 1;
      try {
        await this.#answer(channel, asker, id, message);
      } finally {
        running -= 1;
      }
    });
    channel.enableHeartbeats(HEARTBEATS);
  }

  async #answer(channel: Channel, asker: Asker, id: number, message: Message): Promise<void> {
    const name = nameOf(message);
    const handler = this.#handlers.get(name);
    let last: ReturnType<typeof answer>;
    try {
      if (handler === undefined) throw new Error(`this version knows no call ${name}`);
      const { value, items } = await handler(jsonOf(message), asker);
      for (let at = 0; at < items.length; at += PART_ITEMS) {
        if (channel.isClosed) return;
        channel.send(part(id, items.slice(at, at + PART_ITEMS)));
        // Writing a long list must not hold up other work.
        await new Promise((resolve) => setImmediate(resolve));
      }
      last = answer(id, value);
    } catch (error) {
      const reason = error instanceof z.ZodError ? z.prettifyError(error) : errorText(error);
      this.#parts.log.warn({ replica: asker.id, call: name, reason }, "a call of another controller failed");
      last = failure(id, reason);
    }
    if (!channel.isClosed) channel.send(last);
  }
}
