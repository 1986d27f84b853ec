import { isDeepStrictEqual } from "node:util";
import { SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { ModelStore } from "../model/context.ts";
import type { Enrollments } from "../model/identity/enrollments.ts";
import type { Lifetimes } from "../pki/issue.ts";
import { type PkiMaterial, renew, retire } from "../pki/material.ts";
import type { ApiCertificates, Pki } from "../pki/pki.ts";
import { type ReplicaMaterial, renewReplica } from "../pki/replica-material.ts";
import { KeyVault, type Secrets } from "../store/secrets.ts";
import { changeNetworkKeys, loadNetworkKeys, NETWORK_KEYS_KIND } from "./network-keys.ts";
import { changeReplicaKeys, loadReplicaKeys, replicasBehind } from "./replica-keys.ts";
import { countFormerLeaves, isNone, reservedRouterNames } from "./stored-certificates.ts";

const CHECK_MS = 3_600_000;
/** Longer than any request takes: what was signed with the former key just before the change is stored by then. */
const STRAGGLERS_MS = 15_000;
const TAKE_OVER_AGAIN_MS = 2_000;

interface CertificateUpkeepParts {
  readonly pki: Pki;
  readonly store: Pick<ModelStore, "db" | "transaction"> & {
    readonly changes: Pick<ModelStore["changes"], "subscribe">;
  };
  readonly secrets: Secrets;
  readonly lifetimes: Lifetimes;
  /** Hosts that the network's own certificate covers. */
  readonly hosts: readonly string[];
  /** Who this process is, and what its own certificate covers, unless it has the network's id and certificate. */
  readonly replica?: { readonly id: string; readonly hosts: readonly string[] } | undefined;
  readonly now?: () => Date;
  readonly log: Logger;
}

/**
 * Keeps the controller's own certificates valid while it runs: renews them in time, takes over what another process has changed (`pki rotate`), and ends the
 * trust in a former authority when nothing of it is in use. Signs enrollment tokens again when another certificate serves them (docs/protocol/pki.md).
 */
export class CertificateUpkeep {
  readonly #parts: CertificateUpkeepParts;
  readonly #now: () => Date;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #stopping = new AbortController();
  readonly #work = new SerialQueue();
  #unsubscribe: () => void = () => undefined;
  #onIdentity: () => void = () => undefined;
  #enrollments: Pick<Enrollments, "reissue"> | undefined;

  constructor(parts: CertificateUpkeepParts) {
    this.#parts = parts;
    this.#now = parts.now ?? (() => new Date());
  }

  /** Renews what is due, before anything is served. */
  async renew(): Promise<void> {
    await this.#takeOver();
    const { store, secrets, lifetimes, hosts, log } = this.#parts;
    const request = { lifetimes, hosts, now: this.#now() };
    const renewed = await changeNetworkKeys(store, secrets, (material) => renew(material, request));
    if (renewed !== undefined) {
      this.#adopt(renewed);
      const until = this.#parts.pki.networkCertificate.validTo;
      log.info({ hosts, until }, "the controller's certificates were renewed");
    }
    await this.#renewReplica();
  }

  /** The same for the certificates of this process, which no other one renews. */
  async #renewReplica(): Promise<void> {
    const { store, secrets, lifetimes, replica, pki, log } = this.#parts;
    if (replica === undefined) return;
    const { id, hosts } = replica;
    const request = { id, hosts, lifetimes, now: this.#now() };
    const renewed = await changeReplicaKeys(store, secrets, id, (network, own) => renewReplica(network, own, request));
    if (renewed === undefined) return;
    await this.#takeOver();
    const until = pki.serverIdentity.leaf.validTo;
    log.info({ id, hosts, until }, "the certificates of this replica were issued");
  }

  /**
   * Checks now, every hour, and whenever the keys in the store are changed.
   * @param onIdentity is called each time there is another identity to serve with
   */
  start(enrollments: Pick<Enrollments, "reissue">, onIdentity: () => void): void {
    this.#enrollments = enrollments;
    this.#onIdentity = onIdentity;
    this.#unsubscribe = this.#parts.store.changes.subscribe({
      name: "certificates",
      onChanges: (rows) => {
        if (rows.some(({ kind }) => kind === NETWORK_KEYS_KIND)) this.#keysChanged();
        // One that the retirement waits for may have its certificate now, or be no member any more.
        if (rows.some(({ kind }) => kind === "replica")) this.#run("retire", () => this.#retireUnused());
      },
      onReset: () => this.#keysChanged(),
    });
    this.#timers.add(setInterval(() => void this.check(), CHECK_MS).unref());
    void this.check();
    this.#run("names of routers", () => this.#warnOfReservedNames());
  }

  /** The API is served with other certificates of the operator's from now on. */
  serveApiWith(certificates: ApiCertificates): void {
    this.#change(() => this.#parts.pki.serveApiWith(certificates));
  }

  /** Does all that is due; resolves when it is done. What fails is logged, and tried again at the next time. */
  check(): Promise<void> {
    this.#run("renew", () => this.renew());
    this.#run("retire", () => this.#retireUnused());
    this.#run("reissue", () => this.#reissue());
    return this.#work.idle();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#unsubscribe();
    for (const timer of this.#timers) clearTimeout(timer);
    await this.#work.idle();
  }

  /** Takes over what another process has changed; when that fails, again soon: what it trusts no longer must not be trusted here for an hour more. */
  #keysChanged(): void {
    this.#run(
      "take over",
      async () => {
        await this.#takeOver();
        await this.#renewReplica();
      },
      () => this.#later(TAKE_OVER_AGAIN_MS, () => this.#keysChanged()),
    );
  }

  #run(what: string, work: () => Promise<void>, onFailure: () => void = () => undefined): void {
    void this.#work.run(async () => {
      if (this.#stopping.signal.aborted) return;
      try {
        await work();
      } catch (error) {
        this.#parts.log.error({ error, what }, "the upkeep of the certificates failed; it will be tried again");
        if (!this.#stopping.signal.aborted) onFailure();
      }
    });
  }

  #later(milliseconds: number, work: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, milliseconds).unref();
    this.#timers.add(timer);
  }

  async #takeOver(): Promise<void> {
    const { store, secrets, log, pki } = this.#parts;
    const vault = new KeyVault(store.db, secrets);
    const [material, replicas] = [await loadNetworkKeys(vault), await loadReplicaKeys(vault)];
    if (material === undefined) return;
    const isChanged = !isDeepStrictEqual(material, pki.material);
    if (!isChanged && isDeepStrictEqual(replicas, pki.replicas)) return;
    this.#adopt(material, replicas);
    if (!isChanged) return;
    log.info({ anchors: pki.trustAnchors.map(({ subject }) => subject) }, "changed keys were taken over");
    await this.#reissue();
  }

  async #retireUnused(): Promise<void> {
    const { store, secrets, log, pki } = this.#parts;
    const { former } = pki.material;
    if (former === undefined || !isNone(await countFormerLeaves(store.db, former.intermediatePem))) return;
    let behind: readonly string[] = [];
    const retired = await changeNetworkKeys(store, secrets, async (material, trx) => {
      if (material.former?.rootPem !== former.rootPem) return undefined;
      behind = await replicasBehind(trx, secrets, material);
      return behind.length === 0 ? retire(material, true, this.#now()) : undefined;
    });
    if (behind.length > 0) {
      const message =
        "the former authority stays trusted until these controllers have certificates of the present one, or have been away for ten minutes";
      log.info({ replicas: behind }, message);
    }
    if (retired === undefined) return;
    this.#adopt(retired);
    log.info({}, "nothing that the former authority issued is in use: it is trusted no more");
  }

  /** Certificates from before routers were refused such names, or before the controller had them: better read of now than at their end. */
  async #warnOfReservedNames(): Promise<void> {
    const { store, pki, log } = this.#parts;
    for (const router of await reservedRouterNames(store.db, pki)) {
      log.warn(
        { ...router },
        "a router has a certificate for a host of the controller, and will get no other one: take the host out of its csr.sans, or list it in edge.enrollment.sharedHosts",
      );
    }
  }

  async #reissue(): Promise<void> {
    const signed = await this.#enrollments?.reissue(this.#stopping.signal);
    if (signed) this.#parts.log.info({ signed }, "enrollment tokens were signed with the key that is served now");
  }

  #adopt(material: PkiMaterial, replicas?: ReadonlyMap<string, ReplicaMaterial>): void {
    this.#change(() => this.#parts.pki.adopt(material, replicas));
  }

  #change(change: () => void): void {
    const { pki } = this.#parts;
    const signer = pki.jwtSigner;
    change();
    this.#onIdentity();
    if (pki.jwtSigner === signer || this.#enrollments === undefined) return;
    this.#run("reissue", () => this.#reissue());
    this.#later(STRAGGLERS_MS, () => this.#run("reissue", () => this.#reissue()));
  }
}
