import { Listeners } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { sql } from "kysely";
import type { LinkSetting, LinkSettings } from "../../fabric/replicas.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { Store } from "../../store/database.ts";

const KIND = "link_setting";

/** What is set of links, in the database: every controller has all of it in memory. Source: docs/protocol/replicas.md, "Links". */
export class StoredLinkSettings implements LinkSettings {
  readonly #store: Pick<Store, "db" | "changes" | "transaction">;
  readonly #log: Logger;
  readonly #settings = new Map<string, LinkSetting>();
  readonly #changed = new Listeners<[linkId: string, setting: LinkSetting]>();
  readonly #stop: () => void;
  /** What is being read may be older than what was heard meanwhile. */
  #isChanged = false;

  constructor(store: Pick<Store, "db" | "changes" | "transaction">, log: Logger) {
    this.#store = store;
    this.#log = log;
    this.#stop = store.changes.subscribe({
      name: "settings of links",
      isPrompt: true,
      onChanges: (rows) => {
        for (const row of rows) if (row.kind === KIND) this.#apply(row);
      },
      onReset: () => this.#load(),
    });
    this.#load().catch((err: unknown) => this.#log.error({ err }, "what is set of links could not be read"));
  }

  of(linkId: string): LinkSetting | undefined {
    return this.#settings.get(linkId);
  }

  async set(linkId: string, setting: LinkSetting | undefined): Promise<void> {
    if (setting === undefined && !this.#settings.has(linkId)) return;
    await this.#store.transaction(async (trx) => {
      if (setting === undefined) {
        await sql`DELETE FROM link_setting WHERE link_id = ${linkId}`.execute(trx);
        await appendChange(trx, { kind: KIND, key: linkId, op: "delete" });
        return;
      }
      const { staticCost, isDown } = setting;
      await sql`INSERT INTO link_setting (link_id, static_cost, is_down) VALUES (${linkId}, ${staticCost}, ${isDown})
        ON CONFLICT (link_id) DO UPDATE SET static_cost = excluded.static_cost, is_down = excluded.is_down`.execute(
        trx,
      );
      await appendChange(trx, { kind: KIND, key: linkId, op: "update", before: { staticCost, isDown } });
    });
  }

  onChange(listener: (linkId: string, setting: LinkSetting) => void): () => void {
    return this.#changed.add(listener);
  }

  close(): void {
    this.#stop();
  }

  /** The log has the setting itself: a reader of the log knows it. */
  #apply({ key, op, before }: ChangeRow): void {
    this.#isChanged = true;
    const { staticCost, isDown } = before ?? {};
    if (op === "delete" || typeof staticCost !== "number" || typeof isDown !== "boolean") {
      this.#settings.delete(key);
      return;
    }
    this.#put(key, { staticCost, isDown });
  }

  async #load(): Promise<void> {
    let rows: readonly (LinkSetting & { linkId: string })[];
    do {
      this.#isChanged = false;
      const all = sql<LinkSetting & { linkId: string }>`
        SELECT link_id AS "linkId", static_cost AS "staticCost", is_down AS "isDown" FROM link_setting`;
      ({ rows } = await all.execute(this.#store.db));
    } while (this.#isChanged);
    const linkIds = new Set(rows.map(({ linkId }) => linkId));
    for (const id of this.#settings.keys()) if (!linkIds.has(id)) this.#settings.delete(id);
    for (const { linkId, ...setting } of rows) this.#put(linkId, setting);
  }

  #put(linkId: string, setting: LinkSetting): void {
    this.#settings.set(linkId, setting);
    this.#changed.emit(linkId, setting);
  }
}
