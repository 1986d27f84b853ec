/** The tree that a list filter is parsed into (`docs/api.md`, "Filters"). */

/** A literal of the filter language. `datetime` is milliseconds since 1970, UTC. */
export type FilterValue =
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "number"; readonly value: number }
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "datetime"; readonly value: number }
  | { readonly type: "null"; readonly value: null };

export type CompareOperator = "=" | "!=" | "<" | "<=" | ">" | ">=";

/** The left side of an operator: a symbol, or a function over a set symbol. */
export type FilterOperand =
  | { readonly kind: "symbol"; readonly name: string }
  | { readonly kind: "anyOf"; readonly set: string }
  | { readonly kind: "allOf"; readonly set: string }
  | { readonly kind: "count"; readonly set: string; readonly where?: ParsedFilter | undefined };

export type FilterNode =
  | { readonly kind: "constant"; readonly value: boolean }
  /** A bare symbol of boolean type. */
  | { readonly kind: "flag"; readonly name: string }
  | { readonly kind: "not"; readonly node: FilterNode }
  | { readonly kind: "and" | "or"; readonly left: FilterNode; readonly right: FilterNode }
  | {
      readonly kind: "compare";
      readonly left: FilterOperand;
      readonly operator: CompareOperator;
      readonly value: FilterValue;
    }
  | {
      readonly kind: "contains";
      readonly left: FilterOperand;
      readonly ignoreCase: boolean;
      readonly negated: boolean;
      readonly value: string;
    }
  | {
      readonly kind: "in";
      readonly left: FilterOperand;
      readonly negated: boolean;
      readonly values: readonly FilterValue[];
    }
  /** Lower bound inclusive, upper bound exclusive. */
  | {
      readonly kind: "between";
      readonly left: FilterOperand;
      readonly negated: boolean;
      readonly low: FilterValue;
      readonly high: FilterValue;
    }
  | { readonly kind: "isEmpty"; readonly set: string; readonly where?: ParsedFilter | undefined };

export interface SortField {
  readonly name: string;
  readonly descending: boolean;
}

/** A whole query: its condition and the trailing `sort by`, `skip` and `limit`. */
export interface ParsedFilter {
  readonly where: FilterNode | undefined;
  readonly sort: readonly SortField[];
  readonly skip?: number | undefined;
  readonly limit?: number | "none" | undefined;
}

/** A filter that cannot be read or applied. `position` is the 0-based offset in the text, where one is known. */
export class ApiFilterError extends Error {
  override readonly name = "ApiFilterError";
  readonly position: number | undefined;

  constructor(message: string, position?: number) {
    super(message);
    this.position = position;
  }
}
