import { createHash, type X509Certificate } from "node:crypto";
import { TimeSlice } from "@sallyport/async";
import { edgeCtrlPb } from "@sallyport/wire";
import { sql } from "kysely";
import { Membership, type MembershipChange, type PolicySide } from "../../policy/membership.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ChangeKind } from "../../store/changes/logged-write.ts";
import type { Db, ModelContext } from "../context.ts";
import { Policies, type PolicyRecord, SERVICE_POLICY, selectionOf } from "../policy/policies.ts";
import {
  asDelete,
  asUpdate,
  type EncodedEvent,
  policyChangeEvents,
  policyEvent,
  publicKeyEvent,
  type RelatedKind,
} from "./events.ts";
import { foreignAuthorities, type ImageEntity, type ImageEntityKind, readEntities } from "./rows.ts";

/** In the order in which routers get to know them: what is named comes before what names it, and what is refused before what is allowed. */
const ENTITY_KINDS = ["revocation", "config_type", "config", "identity", "service", "posture_check"] as const;
const RELATED_KINDS = ["service", "posture_check", "identity"] as const;
/** Reading more rows at once would hold everything else up. */
const PAGE = 500;

/** The certificates that routers are given, besides those of foreign CAs. */
export interface NetworkCertificates {
  /** Signs enrollment tokens. */
  readonly server: X509Certificate;
  /** Sign the tokens of sessions, or will. */
  readonly tokenKeys: readonly X509Certificate[];
  readonly authorities: readonly X509Certificate[];
}

/** Kinds of change-log rows that can change the image. */
export const IMAGE_KINDS: readonly ChangeKind[] = [...ENTITY_KINDS, "service_policy", "identity_service_config", "ca"];

/**
 * The whole network as routers get it, spelled out and encoded: {@link read} it from one snapshot, {@link select} what the policies select, and
 * {@link apply} changes, which answers the events that say what is different. Calls must not overlap.
 */
export class DataModelImage {
  readonly #ctx: ModelContext;
  readonly #certificates: () => NetworkCertificates;
  readonly #entities: Record<ImageEntityKind, Map<string, EncodedEvent>> = {
    revocation: new Map(),
    config_type: new Map(),
    config: new Map(),
    identity: new Map(),
    service: new Map(),
    posture_check: new Map(),
  };
  readonly #policies = new Map<string, EncodedEvent>();
  /** Read, and not yet looked at. */
  readonly #unselected: PolicyRecord[] = [];
  readonly #members: Record<RelatedKind, Membership> = {
    service: new Membership({ isSmall: true }),
    posture_check: new Membership({ isSmall: true }),
    identity: new Membership({ isSmall: false }),
  };
  /** Service to the identities that have configs of their own for it, and the other way round. */
  readonly #overriding = new Map<string, Set<string>>();
  readonly #overrides = new Map<string, readonly string[]>();
  readonly #disabledUntil = new Map<string, Date>();
  #keys = new Map<string, EncodedEvent>();

  constructor(ctx: ModelContext, certificates: () => NetworkCertificates) {
    this.#ctx = ctx;
    this.#certificates = certificates;
  }

  /** Fills an empty image from one snapshot, but for what the policies select: that takes no database, and a transaction must not wait for it. */
  async read(db: Db): Promise<void> {
    const slice = new TimeSlice();
    for (const kind of ENTITY_KINDS) {
      for (let after = ""; ; ) {
        const page = await readEntities(db, kind, { after, limit: PAGE }, this.#ctx.now());
        for (const entity of page) this.#put(kind, entity);
        const last = page.at(-1);
        if (last === undefined || page.length < PAGE) break;
        after = last.id;
        await slice.pause();
      }
    }
    const { rows } = await sql<{ id: string }>`SELECT id FROM service_policy ORDER BY id`.execute(db);
    for (let at = 0; at < rows.length; at += PAGE) {
      const ids = rows.slice(at, at + PAGE).map((row) => row.id);
      for (const policy of await this.#readPolicies(db, ids)) this.#unselected.push(policy);
    }
    this.#keys = await this.#readKeys(db);
  }

  /** Finds what the policies select that were read. */
  async select(): Promise<void> {
    const slice = new TimeSlice();
    const policies = this.#unselected.splice(0);
    for (const policy of policies) this.#putPolicy(policy);
    for (const kind of RELATED_KINDS) {
      const selecting = policies.map((policy) => sideOf(policy, kind));
      await this.#members[kind].addPolicies(selecting, slice);
    }
  }

  /** Reads what the rows name again and answers what is different now, in an order that routers can follow. */
  async apply(rows: readonly Pick<ChangeRow, "kind" | "key">[]): Promise<EncodedEvent[]> {
    const { db } = this.#ctx.store;
    const slice = new TimeSlice();
    const news: EncodedEvent[] = [];
    const ends: EncodedEvent[] = [];
    const members = new MembershipChanges();
    // A change of an identity's configs names the identity.
    const identities = keysOf(rows, "identity", "identity_service_config");
    for (const id of keysOf(rows, "service")) {
      for (const each of this.#overriding.get(id) ?? []) identities.add(each);
    }

    for (const kind of ENTITY_KINDS) {
      const ids = [...(kind === "identity" ? identities : keysOf(rows, kind))];
      const gone = new Set(ids);
      for (let at = 0; at < ids.length; at += PAGE) {
        const wanted = { ids: ids.slice(at, at + PAGE) };
        for (const entity of await readEntities(db, kind, wanted, this.#ctx.now())) {
          if (slice.isDue) await slice.pause();
          gone.delete(entity.id);
          const known = this.#entities[kind].get(entity.id);
          await members.add(kind, this.#put(kind, entity), slice);
          if (known === undefined) news.push(entity.event);
          else if (known !== entity.event) news.push(asUpdate(entity.event));
        }
      }
      const ended: EncodedEvent[] = [];
      for (const id of gone) {
        const known = this.#entities[kind].get(id);
        if (known === undefined) continue;
        await members.add(kind, this.#remove(kind, id), slice);
        ended.push(asDelete(known));
      }
      ends.unshift(...ended);
    }

    const gone = keysOf(rows, "service_policy");
    for (const policy of await this.#readPolicies(db, [...gone])) {
      gone.delete(policy.id);
      const known = this.#policies.get(policy.id);
      const now = this.#putPolicy(policy);
      for (const kind of RELATED_KINDS) {
        await members.add(kind, await this.#members[kind].putPolicy(sideOf(policy, kind), slice), slice);
      }
      if (known === undefined) news.push(now);
      else if (known !== now) news.push(asUpdate(now));
    }
    for (const id of gone) {
      const known = this.#policies.get(id);
      if (known === undefined) continue;
      this.#policies.delete(id);
      for (const kind of RELATED_KINDS) {
        await members.add(kind, await this.#members[kind].removePolicy(id, slice), slice);
      }
      ends.unshift(asDelete(known));
    }
    const keyEvents = rows.some(({ kind }) => kind === "ca") ? await this.refreshKeys() : [];
    return [...news, ...(await members.events(slice)), ...ends, ...keyEvents];
  }

  /** What changed about the certificates that routers check with. */
  async refreshKeys(): Promise<EncodedEvent[]> {
    const now = await this.#readKeys(this.#ctx.store.db);
    const before = this.#keys;
    this.#keys = now;
    const added = [...now].flatMap(([kid, event]) => {
      const known = before.get(kid);
      if (known === event) return [];
      return [known === undefined ? event : asUpdate(event)];
    });
    const removed = [...before].flatMap(([kid, event]) => (now.has(kid) ? [] : [asDelete(event)]));
    return [...added, ...removed];
  }

  /** A fingerprint of what changes without a row of the log: the certificates, and who is disabled for a time. */
  unlogged(): string {
    const parts = [...this.#keys.values(), ...this.#disabledUntil.keys()].sort();
    return createHash("sha256").update(parts.join("\n")).digest("base64url");
  }

  /** Identities that were disabled for a time which is over. */
  enabledAgain(now: Date): string[] {
    return [...this.#disabledUntil].flatMap(([id, until]) => (until <= now ? [id] : []));
  }

  /**
   * Everything, in an order that routers can follow. Who the policies select comes last: it is most of all, and of a large network it comes later than the
   * rest.
   */
  *events(): Generator<EncodedEvent> {
    yield* this.#keys.values();
    for (const kind of ENTITY_KINDS) yield* this.#entities[kind].values();
    for (const [policyId, event] of this.#policies) {
      yield event;
      yield* this.#selectionEvents(policyId, "service");
      yield* this.#selectionEvents(policyId, "posture_check");
    }
    for (const policyId of this.#policies.keys()) yield* this.#selectionEvents(policyId, "identity");
  }

  #selectionEvents(policyId: string, kind: RelatedKind): Generator<EncodedEvent> {
    return policyChangeEvents({ policyId, kind, ids: this.#members[kind].membersOf(policyId), isMember: true });
  }

  #put(kind: ImageEntityKind, entity: ImageEntity): MembershipChange[] {
    this.#entities[kind].set(entity.id, entity.event);
    if (kind === "identity") this.#follow(entity);
    return isRelated(kind) ? this.#members[kind].put(entity) : [];
  }

  #remove(kind: ImageEntityKind, id: string): MembershipChange[] {
    this.#entities[kind].delete(id);
    if (kind === "identity") this.#follow({ id, overrides: [], disabledUntil: undefined });
    if (kind === "service") this.#overriding.delete(id);
    return isRelated(kind) ? this.#members[kind].remove(id) : [];
  }

  #follow(identity: Pick<ImageEntity, "id" | "overrides" | "disabledUntil">): void {
    for (const serviceId of this.#overrides.get(identity.id) ?? [])
      this.#overriding.get(serviceId)?.delete(identity.id);
    if (identity.overrides.length === 0) this.#overrides.delete(identity.id);
    else this.#overrides.set(identity.id, identity.overrides);
    for (const serviceId of identity.overrides) {
      const identities = this.#overriding.get(serviceId) ?? new Set();
      this.#overriding.set(serviceId, identities.add(identity.id));
    }
    if (identity.disabledUntil === undefined) this.#disabledUntil.delete(identity.id);
    else this.#disabledUntil.set(identity.id, identity.disabledUntil);
  }

  #readPolicies(db: Db, ids: readonly string[]): Promise<PolicyRecord[]> {
    return new Policies(this.#ctx, SERVICE_POLICY).byIds(db, ids);
  }

  #putPolicy({ id, name, type = "Dial" }: PolicyRecord): EncodedEvent {
    const event = policyEvent({ id, name, type });
    this.#policies.set(id, event);
    return event;
  }

  async #readKeys(db: Db): Promise<Map<string, EncodedEvent>> {
    const { server, tokenKeys, authorities } = this.#certificates();
    const { ClientX509CertValidation, JwtValidation } = edgeCtrlPb.DataState_PublicKey_Usage;
    const keys = new Map<string, EncodedEvent>();
    const add = (certificate: X509Certificate, ...usages: edgeCtrlPb.DataState_PublicKey_Usage[]) => {
      const { kid, event } = publicKeyEvent(certificate, usages);
      keys.set(kid, event);
    };
    for (const certificate of [...authorities, ...(await foreignAuthorities(db))]) {
      add(certificate, ClientX509CertValidation);
    }
    // They certify no one: a router must not take them for an authority.
    for (const certificate of tokenKeys) add(certificate, JwtValidation);
    add(server, JwtValidation, ClientX509CertValidation);
    this.#ctx.log.debug({ keys: keys.size }, "certificates for routers read");
    return keys;
  }
}

function sideOf(policy: PolicyRecord, kind: RelatedKind): PolicySide {
  return { policyId: policy.id, ...selectionOf(policy, kind) };
}

/** Who came to be selected and who left, of several changes one after the other: only the difference between first and last counts. */
class MembershipChanges {
  readonly #net = new Map<string, MembershipChange & { readonly kind: RelatedKind }>();

  async add(kind: ImageEntityKind, changes: readonly MembershipChange[], slice: TimeSlice): Promise<void> {
    if (!isRelated(kind)) return;
    for (const change of changes) {
      if (slice.isDue) await slice.pause();
      const key = `${kind}/${change.policyId}/${change.entityId}`;
      const known = this.#net.get(key);
      // Each change is one of a state that was kept, so a second one undoes the first.
      if (known !== undefined && known.isMember !== change.isMember) this.#net.delete(key);
      else this.#net.set(key, { ...change, kind });
    }
  }

  async events(slice: TimeSlice): Promise<EncodedEvent[]> {
    const grouped = new Map<string, { policyId: string; kind: RelatedKind; isMember: boolean; ids: string[] }>();
    for (const { policyId, kind, isMember, entityId } of this.#net.values()) {
      if (slice.isDue) await slice.pause();
      const key = `${kind}/${policyId}/${isMember}`;
      const group = grouped.get(key) ?? { policyId, kind, isMember, ids: [] };
      group.ids.push(entityId);
      grouped.set(key, group);
    }
    const events: EncodedEvent[] = [];
    for (const group of grouped.values()) {
      for (const event of policyChangeEvents(group)) {
        events.push(event);
        if (slice.isOver) await slice.pause();
      }
    }
    return events;
  }
}

function isRelated(kind: ImageEntityKind): kind is RelatedKind {
  return kind === "service" || kind === "posture_check" || kind === "identity";
}

function keysOf(rows: readonly Pick<ChangeRow, "kind" | "key">[], ...kinds: readonly ChangeKind[]): Set<string> {
  return new Set(rows.flatMap((row) => (kinds.some((kind) => kind === row.kind) ? [row.key] : [])));
}
