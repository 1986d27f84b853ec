import { Listeners } from "@sallyport/async";
import { type Identity, silentLogger, TlsPort } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { ReplicaCalls } from "../replica-calls.ts";
import type { KnownReplica, ReplicaDirectory } from "../replica-port.ts";

export interface TestReplica {
  readonly id: string;
  readonly identity: Identity;
  readonly port: TlsPort;
  readonly calls: ReplicaCalls;
}

/** Replicas in one process that know each other by a list that the test changes; their certificates and connections are real. */
export class TestReplicas {
  readonly authority: TestAuthority;
  readonly #known: KnownReplica[] = [];
  readonly #changed = new Listeners();
  readonly #replicas: TestReplica[] = [];

  private constructor(authority: TestAuthority) {
    this.authority = authority;
  }

  static async create(authority?: TestAuthority): Promise<TestReplicas> {
    return new TestReplicas(authority ?? (await TestAuthority.create()));
  }

  readonly directory: ReplicaDirectory = {
    replicas: () => this.#known,
    onChange: (listener) => this.#changed.add(listener),
  };

  /** @param silentMs long: tests run on busy machines */
  async start(id: string, silentMs = 15_000): Promise<TestReplica> {
    const identity = await this.authority.identity(id);
    const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    const apiAddress = `localhost:${port.port}`;
    this.set({
      ...{ id, apiAddress, ctrlAddress: `tls:${apiAddress}` },
      fingerprint: identity.leafFingerprint,
      isLive: true,
    });
    const calls = new ReplicaCalls({
      ownId: id,
      ports: [port],
      identity: () => identity,
      directory: this.directory,
      silentMs,
      log: silentLogger,
    });
    const replica = { id, identity, port, calls };
    this.#replicas.push(replica);
    return replica;
  }

  /** Changes what is known of a replica. */
  set(replica: Partial<KnownReplica> & { readonly id: string }): void {
    const at = this.#known.findIndex(({ id }) => id === replica.id);
    const before = { apiAddress: "", ctrlAddress: "", fingerprint: "", isLive: true };
    if (at < 0) this.#known.push({ ...before, ...replica });
    else this.#known[at] = { ...before, ...this.#known[at], ...replica };
    this.#changed.emit();
  }

  /** Ends a replica as a process that ends. */
  async stop({ id, calls, port }: TestReplica): Promise<void> {
    this.set({ id, isLive: false });
    calls.close();
    await port.close();
  }

  async close(): Promise<void> {
    for (const replica of this.#replicas) await this.stop(replica);
  }
}
