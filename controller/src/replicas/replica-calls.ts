import { errorText } from "@sallyport/async";
import {
  boundedLog,
  type ChannelPort,
  type Identity,
  identityFromPem,
  type Logger,
  type Message,
} from "@sallyport/wire";
import { CalledReplica, SILENT_MS } from "./called-replica.ts";
import { type Asker, CallingReplicas } from "./calling-replicas.ts";
import type { Answer, Call } from "./calls.ts";
import type { ReplicaDirectory } from "./replica-port.ts";

/** What one replica answered. */
export interface ReplicaAnswer<A, I> extends Answer<A, I> {
  readonly replicaId: string;
}

export interface Answers<A, I> {
  readonly answers: readonly ReplicaAnswer<A, I>[];
  /** Ids of live replicas that gave no answer in time. */
  readonly silent: readonly string[];
}

/** How often replicas that have to be connected are looked after. */
const LOOK_MS = 500;

interface ReplicaCallsParts {
  readonly ownId: string;
  /** Where the others find this process: its control address, and, for those of earlier versions, that of its API. */
  readonly ports: readonly ChannelPort[];
  /** Of this process, as it is now: its server certificate is what the others know it by. */
  readonly identity: () => Identity;
  readonly directory: ReplicaDirectory;
  /** How long another replica may be silent while it is reached or asked; 1 s when not given. */
  readonly silentMs?: number;
  readonly log: Logger;
}

/**
 * Calls between the replicas of a network: each asks each other one over a channel with mutual TLS. Without another replica nothing is listened for, and asking
 * all of them costs nothing. Source: docs/protocol/replicas.md, "Calls".
 */
export class ReplicaCalls {
  readonly ownId: string;
  readonly #parts: ReplicaCallsParts;
  readonly #log: Logger;
  readonly #calling: CallingReplicas;
  readonly #called = new Map<string, CalledReplica>();
  readonly #notices = new Map<string, (json: string, replicaId: string) => void>();
  readonly #onConnected: ((replicaId: string) => void)[] = [];
  readonly #stopFollowing: () => void;
  readonly #isKept: (() => boolean)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #dialing: { readonly of: Identity; readonly as: Identity } | undefined;

  constructor(parts: ReplicaCallsParts) {
    this.ownId = parts.ownId;
    this.#parts = parts;
    this.#log = boundedLog(parts.log);
    this.#calling = new CallingReplicas({ ...parts, log: this.#log });
    this.#stopFollowing = parts.directory.onChange(() => this.#changed());
    this.#changed();
  }

  /** Are there other live replicas? */
  get hasOthers(): boolean {
    return this.#called.size > 0;
  }

  /** Answers a call of others from now on. */
  serve<Q, A, I = never>(call: Call<Q, A, I>, handler: (question: Q, asker: Asker) => Promise<Answer<A, I>>): void {
    this.#calling.serve(call, handler);
  }

  /** Asks every other live replica at once. Never rejects: a replica that does not answer in time is left out, and named. */
  async askAll<Q, A, I = never>(call: Call<Q, A, I>, question: Q): Promise<Answers<A, I>> {
    const answers: ReplicaAnswer<A, I>[] = [];
    const silent: string[] = [];
    await Promise.all(
      [...this.#called.values()].map(async (replica) => {
        try {
          answers.push({ replicaId: replica.id, ...(await replica.ask(call, question)) });
        } catch (error) {
          silent.push(replica.id);
          this.#log.warn(
            { replica: replica.id, call: call.name, reason: errorText(error) },
            "another controller did not answer: what it knows is left out",
          );
        }
      }),
    );
    answers.sort((a, b) => (a.replicaId < b.replicaId ? -1 : 1));
    return { answers, silent: silent.sort() };
  }

  /** Asks one replica. @throws ReplicaSilentError; undefined when it is no live one */
  async ask<Q, A, I = never>(replicaId: string, call: Call<Q, A, I>, question: Q): Promise<Answer<A, I> | undefined> {
    return this.#called.get(replicaId)?.ask(call, question);
  }

  /** Takes what others tell under `name` because they were asked to. */
  onNotice(name: string, listener: (json: string, replicaId: string) => void): void {
    this.#notices.set(name, listener);
  }

  /** Calls `listener` for each new channel to another replica. */
  onConnected(listener: (replicaId: string) => void): void {
    this.#onConnected.push(listener);
  }

  /** While `isKept`, channels to all live replicas are there, and made again when they are lost; otherwise when something is asked. */
  keepConnected(isKept: () => boolean): void {
    this.#isKept.push(isKept);
    this.look();
  }

  /** Makes channels that are missing, if they have to be there. */
  look(): void {
    const isNeeded = this.#called.size > 0 && this.#isKept.some((isKept) => isKept());
    if (isNeeded) for (const replica of this.#called.values()) void replica.reach();
    if (!isNeeded) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else {
      this.#timer ??= setInterval(() => this.look(), LOOK_MS).unref();
    }
  }

  close(): void {
    this.#stopFollowing();
    this.#isKept.length = 0;
    clearInterval(this.#timer);
    this.#calling.close();
    for (const replica of this.#called.values()) replica.close();
    this.#called.clear();
  }

  #changed(): void {
    const { directory } = this.#parts;
    const live = new Map(
      directory
        .replicas()
        .filter(({ id, isLive }) => isLive && id !== this.ownId)
        .map((replica) => [replica.id, replica]),
    );
    for (const [id, replica] of this.#called) {
      if (live.has(id)) continue;
      this.#called.delete(id);
      replica.close();
    }
    for (const [id, replica] of live) {
      const known = this.#called.get(id);
      if (known === undefined) this.#called.set(id, this.#replica(replica));
      else known.update(replica);
    }
    this.#calling.changed();
    this.look();
  }

  #replica(replica: ConstructorParameters<typeof CalledReplica>[0]): CalledReplica {
    const { id } = replica;
    return new CalledReplica(replica, {
      ownId: this.ownId,
      identity: () => this.#dialingIdentity(),
      onNotice: (name, message: Message) => this.#notices.get(name)?.(message.body.toString("utf8"), id),
      onConnected: () => {
        for (const listener of this.#onConnected) listener(id);
      },
      silentMs: this.#parts.silentMs ?? SILENT_MS,
      log: this.#log,
    });
  }

  /** It presents the certificate that the registry of replicas names, which is the one for its addresses. */
  #dialingIdentity(): Identity {
    const of = this.#parts.identity();
    if (this.#dialing?.of !== of) {
      this.#dialing = { of, as: identityFromPem({ ...of.defaultServerCertificate, caPem: of.caPem }) };
    }
    return this.#dialing.as;
  }
}
