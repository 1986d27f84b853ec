/** What the command line knows of the kinds of entities. The tables in `generated/` are made from the contract of the APIs. */

/** What can be done with the entities of a kind. */
export type Action = "list" | "detail" | "create" | "replace" | "patch" | "delete";

/** One kind, such as `service-policy`. */
export interface Kind {
  readonly name: string;
  readonly plural: string;
  /** Further words for it. */
  readonly aliases: readonly string[];
  /** Where the collection is served, such as `/edge/management/v1/service-policies`. */
  readonly path: string;
  readonly summary: string;
  readonly actions: readonly Action[];
  /** Entities have an `id`; without one only the list can be asked for. */
  readonly hasId: boolean;
  readonly hasName: boolean;
  /** The list takes `limit`, `offset`, `filter` and `sort`. */
  readonly isPaged: boolean;
  /** Lists below an entity: the last part of the path, such as `identities` of `/service-policies/{id}/identities`. */
  readonly related: readonly string[];
}

export type FieldType = "text" | "integer" | "number" | "boolean" | "time" | "map" | "object" | "reference" | "any";

/** One field of a kind. */
export interface Field {
  /** With the names of the objects around it, such as `primary.cert.allowed`. */
  readonly name: string;
  /** Of each entry, where it is a list. `map`: any keys, each with a value of `of`. */
  readonly type: FieldType;
  readonly isList?: true;
  readonly of?: FieldType;
  /** The only values that it has. */
  readonly values?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** Answers have it. */
  readonly isShown?: true;
  /** Whether a creation takes it. */
  readonly creation?: "required" | "optional";
  /** What a creation without it gives. */
  readonly standard?: unknown;
  /** A change takes it. */
  readonly isChangeable?: true;
  /** The kind whose entities it names by id; of a map the keys do. */
  readonly refersTo?: string;
  /** Entries are `@id`, `#attribute` or `#all`. */
  readonly isSelector?: true;
  readonly isSecret?: true;
  /** Only entities with one of these values of `typeId` have it. */
  readonly only?: readonly string[];
}
