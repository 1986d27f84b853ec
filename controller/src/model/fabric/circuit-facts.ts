import { BoundedMap } from "@sallyport/async";
import type { Permission } from "@sallyport/wire";
import type { TerminatorRecord } from "../../fabric/ports.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ApiSessionKind } from "../../store/session-tables.ts";
import type { ModelStore } from "../context.ts";

/** What is read of a session, and of all that it hangs on, when a circuit is asked for under it. */
export interface Claimed {
  /** Empty, as is its token, when an API session asks for a service without a session. */
  session_id: string;
  session_token: string;
  type: Permission;
  api_session_id: string;
  api_token: string;
  kind: ApiSessionKind;
  last_activity_at: Date;
  expires_at: Date | null;
  access_until: Date | null;
  identity_id: string;
  identity_attrs: string[];
  is_admin: boolean;
  service_id: string;
  service_name: string;
  terminator_strategy: string;
  encryption_required: boolean;
  max_idle_time_millis: string;
}

const MAX_CLAIMS = 20_000;
const MAX_SERVICES = 10_000;
/** The change log tells of every change; this bounds what a writer could do that forgets to. */
const LIFE_MS = 600_000;

interface Kept<T> {
  readonly value: T;
  readonly until: number;
}

/**
 * What every circuit needs to know, kept in memory until the change log says that it may differ: claims by what names them, terminators by service. A
 * caller has waited for the change log before (`ChangeLog.caughtUp`), so it misses nothing that was committed before.
 */
export class CircuitFacts {
  readonly #claims = new BoundedMap<string, Kept<Claimed>>(MAX_CLAIMS, (key, { value }) =>
    this.#unlinkClaim(key, value),
  );
  /** Keys of the claims that hang on an entity, by kind and id. */
  readonly #keysOf = new Map<string, Set<string>>();
  readonly #terminators = new BoundedMap<string, Kept<readonly TerminatorRecord[]>>(MAX_SERVICES, (_, { value }) =>
    this.#unlinkTerminators(value),
  );
  readonly #serviceOf = new Map<string, string>();
  /** Grows with every change that could concern something which is being read at that time. */
  #version = 0;
  readonly #changes: ModelStore["changes"];
  #unsubscribe: (() => void) | undefined;

  constructor(changes: ModelStore["changes"]) {
    this.#changes = changes;
  }

  /** @param key of a session its id or its opaque token, of an API session that asks for a service both ids */
  async claim(key: string, load: () => Promise<Claimed | undefined>): Promise<Claimed | undefined> {
    return this.#find(this.#claims, key, load, (claim) => {
      for (const owner of ownersOf(claim)) this.#keysOf.getOrInsertComputed(owner, () => new Set()).add(key);
    });
  }

  forgetClaim(key: string): void {
    const kept = this.#claims.get(key);
    if (kept === undefined) return;
    this.#claims.delete(key);
    this.#unlinkClaim(key, kept.value);
  }

  async terminators(
    serviceId: string,
    load: () => Promise<readonly TerminatorRecord[]>,
  ): Promise<readonly TerminatorRecord[]> {
    return this.#find(this.#terminators, serviceId, load, (terminators) => {
      for (const { id } of terminators) this.#serviceOf.set(id, serviceId);
    });
  }

  /** A terminator was changed or removed here: the next circuit must not wait for the change log to know. */
  forgetTerminator(id: string): void {
    this.#version += 1;
    const serviceId = this.#serviceOf.get(id);
    if (serviceId !== undefined) this.#forgetTerminators(serviceId);
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#forgetAll();
  }

  async #find<T>(
    kept: Map<string, Kept<T>>,
    key: string,
    load: () => Promise<T>,
    onKeep: (value: NonNullable<T>) => void,
  ): Promise<T> {
    this.#follow();
    const known = kept.get(key);
    if (known !== undefined && performance.now() < known.until) return known.value;
    const version = this.#version;
    const value = await load();
    if (value === undefined || value === null || version !== this.#version) return value;
    onKeep(value);
    kept.set(key, { value, until: performance.now() + LIFE_MS });
    return value;
  }

  #follow(): void {
    this.#unsubscribe ??= this.#changes.subscribe({
      name: "circuit facts",
      isPrompt: true,
      onChanges: (rows) => {
        for (const row of rows) this.#apply(row);
      },
      onReset: () => this.#forgetAll(),
    });
  }

  #apply({ kind, key, op, before }: ChangeRow): void {
    switch (kind) {
      case "session":
      case "api_session":
      case "identity":
      case "service":
        if (op === "create") return;
        this.#version += 1;
        for (const claimed of [...(this.#keysOf.get(`${kind} ${key}`) ?? [])]) this.forgetClaim(claimed);
        if (kind === "service") this.#forgetTerminators(key);
        return;
      case "terminator": {
        this.#version += 1;
        const serviceId = before?.serviceId;
        if (typeof serviceId === "string") this.#forgetTerminators(serviceId);
        this.forgetTerminator(key);
        return;
      }
      // Whether a session's factors are complete depends on these.
      case "auth_policy":
      case "ext_jwt_signer":
      case "mfa":
        this.#forgetAll();
    }
  }

  #unlinkClaim(key: string, claim: Claimed): void {
    for (const owner of ownersOf(claim)) {
      const keys = this.#keysOf.get(owner);
      keys?.delete(key);
      if (keys?.size === 0) this.#keysOf.delete(owner);
    }
  }

  #forgetTerminators(serviceId: string): void {
    this.#unlinkTerminators(this.#terminators.get(serviceId)?.value ?? []);
    this.#terminators.delete(serviceId);
  }

  #unlinkTerminators(terminators: readonly TerminatorRecord[]): void {
    for (const { id } of terminators) this.#serviceOf.delete(id);
  }

  #forgetAll(): void {
    this.#version += 1;
    this.#claims.clear();
    this.#keysOf.clear();
    this.#terminators.clear();
    this.#serviceOf.clear();
  }
}

function ownersOf(claim: Claimed): string[] {
  return [
    ...(claim.session_id === "" ? [] : [`session ${claim.session_id}`]),
    `api_session ${claim.api_session_id}`,
    `identity ${claim.identity_id}`,
    `service ${claim.service_id}`,
  ];
}
