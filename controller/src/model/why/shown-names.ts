import { likely, Statement } from "../../store/driver/statement.ts";
import type { Db } from "../context.ts";

/** Kinds whose names an answer shows. A router and its system policy have the same id. */
const KINDS = ["service_policy", "edge_router_policy", "service_edge_router_policy", "router"] as const;
export type NamedKind = (typeof KINDS)[number];

const NAMES = new Statement<{ kind: NamedKind; id: string; name: string }>(
  KINDS.map((kind, at) => `SELECT '${kind}' AS kind, id, name FROM ${kind} WHERE id = ANY ($${at + 1}::text[])`).join(
    " UNION ALL ",
  ),
);

/** Names of entities of several kinds, by one statement. */
export class ShownNames {
  readonly #names: ReadonlyMap<string, string>;

  private constructor(names: ReadonlyMap<string, string>) {
    this.#names = names;
  }

  static async read(db: Db, ids: Readonly<Record<NamedKind, Iterable<string>>>): Promise<ShownNames> {
    const rows = await NAMES.rows(
      db,
      KINDS.map((kind) => likely([...new Set(ids[kind])])),
    );
    return new ShownNames(new Map(rows.map(({ kind, id, name }) => [`${kind} ${id}`, name])));
  }

  /** One that was removed meanwhile has its id as name. */
  of(kind: NamedKind, id: string): { readonly id: string; readonly name: string } {
    return { id, name: this.#names.get(`${kind} ${id}`) ?? id };
  }
}
