import { Pool } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import type { Database } from "../../store/schema.ts";
import type { EventSink, TerminatorEvent } from "../event.ts";

type EventType = TerminatorEvent["event_type"];

interface TerminatorState {
  readonly id: string;
  readonly service_id: string;
  readonly router_id: string;
  readonly host_id: string;
  readonly instance_id: string;
  readonly precedence: string;
  readonly cost: number;
}

interface ServiceTotals {
  total: number;
  usableDefault: number;
  usableRequired: number;
}

interface ChangedTerminator {
  readonly id: string;
  readonly type: "created" | "updated" | "deleted";
  /** What is known of a terminator that is gone. */
  readonly before?: { readonly routerId?: string; readonly serviceId?: string } | null;
}

interface TerminatorSourceParts {
  readonly db: Kysely<Database>;
  readonly sink: EventSink;
  readonly isRouterOnline: (routerId: string) => boolean;
  readonly dynamicCost: (terminatorId: string) => number;
  readonly log: Logger;
}

const PAGE = 1_000;
/** Routers that came or went and whose terminators wait for their events. */
const MAX_ROUTERS_WAITING = 10_000;

/** Emits terminators that changed, and those whose router came or went. */
export class TerminatorSource {
  readonly #parts: TerminatorSourceParts;
  readonly #routers = new Pool({ concurrency: 1, capacity: MAX_ROUTERS_WAITING });

  constructor(parts: TerminatorSourceParts) {
    this.#parts = parts;
  }

  /** A router came or went: emits its terminators, one router after the other. */
  routerChanged(routerId: string, type: "router-online" | "router-offline"): void {
    const { log } = this.#parts;
    const isTaken = this.#routers.offer(() =>
      this.#ofRouter(routerId, type).catch((err: unknown) =>
        log.warn({ routerId, err }, "events of a router's terminators are left out"),
      ),
    );
    if (!isTaken)
      log.warn({ routerId, type }, "too many routers come and go: events of this one's terminators are left out");
  }

  /** Resolves when the terminators of all routers so far have been emitted. */
  idle(): Promise<void> {
    return this.#routers.idle();
  }

  async changed(changes: readonly ChangedTerminator[]): Promise<void> {
    const { db } = this.#parts;
    const rows = await terminators(db, sql`t.id = ANY (${changes.map((change) => change.id)}::text[])`);
    const present = new Map(rows.map((row) => [row.id, row]));
    const known = changes.map((change) => ({ change, row: present.get(change.id) ?? goneRow(change) }));
    const totals = await this.#totals(known.map(({ row }) => row.service_id));
    for (const { change, row } of known) this.#emit(change.type, row, totals);
  }

  async #ofRouter(routerId: string, type: EventType): Promise<void> {
    const { db, sink } = this.#parts;
    for (let after = ""; sink.wants("terminator"); ) {
      const page = await terminators(db, sql`t.router_id = ${routerId} AND t.id > ${after}`);
      const totals = await this.#totals(page.map((row) => row.service_id));
      for (const row of page) this.#emit(type, row, totals);
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return;
      after = last.id;
    }
  }

  async #totals(serviceIds: readonly string[]): Promise<Map<string, ServiceTotals>> {
    const { db, isRouterOnline } = this.#parts;
    const ids = [...new Set(serviceIds)].filter((id) => id !== "");
    const totals = new Map<string, ServiceTotals>();
    if (ids.length === 0) return totals;
    const { rows } = await sql<{
      service_id: string;
      router_id: string | null;
      precedence: string | null;
      count: number;
    }>`
      SELECT s.id AS service_id, t.router_id, t.precedence, count(t.id)::int AS count
      FROM service s LEFT JOIN terminator t ON t.service_id = s.id WHERE s.id = ANY (${ids}::text[])
      GROUP BY s.id, t.router_id, t.precedence`.execute(db);
    for (const { service_id, router_id, precedence, count } of rows) {
      const sum = totals.get(service_id) ?? { total: 0, usableDefault: 0, usableRequired: 0 };
      totals.set(service_id, sum);
      sum.total += count;
      if (router_id === null || !isRouterOnline(router_id)) continue;
      if (precedence === "default") sum.usableDefault += count;
      if (precedence === "required") sum.usableRequired += count;
    }
    return totals;
  }

  #emit(type: EventType, row: TerminatorState, totals: ReadonlyMap<string, ServiceTotals>): void {
    const { sink, isRouterOnline, dynamicCost } = this.#parts;
    const sums = totals.get(row.service_id);
    sink.emit({
      namespace: "terminator",
      event_type: type,
      service_id: row.service_id,
      terminator_id: row.id,
      router_id: row.router_id,
      host_id: row.host_id,
      instance_id: row.instance_id,
      router_online: isRouterOnline(row.router_id),
      precedence: row.precedence,
      static_cost: row.cost,
      dynamic_cost: dynamicCost(row.id),
      total_terminators: sums?.total ?? -1,
      usable_default_terminators: sums?.usableDefault ?? -1,
      usable_required_terminators: sums?.usableRequired ?? -1,
    });
  }
}

async function terminators(
  db: Kysely<Database>,
  condition: ReturnType<typeof sql<boolean>>,
): Promise<TerminatorState[]> {
  const { rows } = await sql<TerminatorState>`
    SELECT t.id, t.service_id, t.router_id, t.host_id, t.instance_id, t.precedence, t.cost
    FROM terminator t WHERE ${condition} ORDER BY t.id LIMIT ${PAGE}`.execute(db);
  return rows;
}

function goneRow({ id, before }: ChangedTerminator): TerminatorState {
  const { serviceId: service_id = "", routerId: router_id = "" } = before ?? {};
  return { id, service_id, router_id, host_id: "", instance_id: "", precedence: "", cost: 0 };
}
