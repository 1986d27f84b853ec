import type { ChangeRow } from "../store/change-log.ts";
import type { PolicyBefore, Semantic } from "../store/schema.ts";
import type { Attributed } from "./access.ts";
import type { ModelContext } from "./context.ts";
import type { Policies } from "./policies.ts";
import { selectorOf } from "./policies.ts";
import { matches, type RoleSelector } from "./role-selector.ts";

/** The parts of the model that stamps are derived with. */
interface StampSources {
  readonly servicePolicies: Policies;
}

const MOST_OWN = 100_000;

/**
 * When an identity's services last changed, for clients that poll for it. Derived from the change log:
 * a changed policy stamps the attributes (and ids) that its identity selectors name, before and after; a changed service stamps the
 * selectors of the policies that grant it, before and after; an identity's own change stamps it. Nothing is stored per identity and
 * service. Clients only ask whether the value differs.
 *
 * Source: docs/protocol/service-updates.md.
 */
export class ServiceUpdates {
  readonly #ctx: ModelContext;
  readonly #sources: StampSources;
  readonly #startedAt: number;
  readonly #byAttribute = new Map<string, number>();
  readonly #byIdentity = new Map<string, number>();
  #everybody = 0;
  #unsubscribe: (() => void) | undefined;

  constructor(ctx: ModelContext, sources: StampSources) {
    this.#ctx = ctx;
    this.#sources = sources;
    this.#startedAt = ctx.now().getTime();
  }

  /** Follows the change log until {@link stop}. */
  start(): void {
    this.#unsubscribe = this.#ctx.store.changes.subscribe({
      name: "service-updates",
      onChanges: (rows) => this.#apply(rows),
      onReset: () => {
        this.#everybody = this.#ctx.now().getTime();
      },
    });
  }

  stop(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** The newest stamp of the identity; without any the later of `since` (its session's beginning) and our start. */
  async lastChange(identity: Attributed, since: Date): Promise<Date> {
    await this.#ctx.store.changes.caughtUp();
    const stamps = identity.attrs.map((attr) => this.#byAttribute.get(attr) ?? 0);
    const newest = Math.max(this.#everybody, this.#byIdentity.get(identity.id) ?? 0, ...stamps);
    return new Date(newest > 0 ? newest : Math.max(this.#startedAt, since.getTime()));
  }

  async #apply(rows: readonly ChangeRow[]): Promise<void> {
    for (const row of rows) {
      const at = row.at.getTime();
      switch (row.kind) {
        case "service_policy":
          await this.#policyChanged(row, at);
          break;
        case "service":
          await this.#serviceChanged(row, at);
          break;
        case "identity":
        case "identity_service_config":
          this.#own(row.key, at);
          break;
      }
    }
  }

  async #policyChanged(row: ChangeRow, at: number): Promise<void> {
    const before = row.before as PolicyBefore | null;
    const old = before?.sides.identity;
    if (old !== undefined) this.#stamp(old, before?.semantic ?? "AnyOf", at);
    const [now] = await this.#sources.servicePolicies.byIds(this.#ctx.store.db, [row.key]);
    if (now !== undefined) this.#stamp(selectorOf(now, "identity"), now.semantic, at);
  }

  async #serviceChanged(row: ChangeRow, at: number): Promise<void> {
    const { db } = this.#ctx.store;
    const present = await db.selectFrom("service").select(["id", "attrs"]).where("id", "=", row.key).executeTakeFirst();
    const oldAttrs = (row.before as { attrs?: string[] } | null)?.attrs;
    const versions: Attributed[] = [];
    if (present !== undefined) versions.push(present);
    if (oldAttrs !== undefined) versions.push({ id: row.key, attrs: oldAttrs });
    const ids = await db.selectFrom("service_policy").select("id").execute();
    const policies = await this.#sources.servicePolicies.byIds(
      db,
      ids.map((policy) => policy.id),
    );
    for (const policy of policies) {
      const services = selectorOf(policy, "service");
      if (versions.some((service) => matches(services, policy.semantic, service))) {
        this.#stamp(selectorOf(policy, "identity"), policy.semantic, at);
      }
    }
  }

  /** Every identity that the selector takes has one of what is stamped here; under AllOf one attribute is enough. */
  #stamp(selector: RoleSelector, semantic: Semantic, at: number): void {
    if (selector.all) this.#everybody = at;
    for (const id of selector.ids) this.#own(id, at);
    const attrs = semantic === "AllOf" ? selector.attrs.slice(0, 1) : selector.attrs;
    for (const attr of attrs) this.#byAttribute.set(attr, at);
  }

  #own(identityId: string, at: number): void {
    this.#byIdentity.delete(identityId);
    this.#byIdentity.set(identityId, at);
    if (this.#byIdentity.size <= MOST_OWN) return;
    // What is forgotten here might matter to somebody: let everybody look once.
    this.#byIdentity.clear();
    this.#everybody = at;
  }
}
