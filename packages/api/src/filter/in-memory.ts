/**
 * The filter language over records that no table holds, such as links and circuits: same symbols, types, rules and errors
 * as in SQL (`docs/api.md`, "Filters"). Tables are never filtered here.
 */
import { apiError, unhandledCause } from "../errors.ts";
import { type ListQuery, NO_LIMIT } from "../list-query.ts";
import type { CompareOperator, FilterNode, FilterOperand, FilterValue } from "./ast.ts";

type Scalar = string | number | boolean | null;

/** A symbol: its type, and how it is read. Datetimes are milliseconds since 1970. */
export type MemoryField<T> =
  | { readonly type: "string"; read(record: T): string | null }
  | { readonly type: "number" | "datetime"; read(record: T): number | null }
  | { readonly type: "boolean"; read(record: T): boolean | null }
  | { readonly type: "tags"; read(record: T): Readonly<Record<string, unknown>> };

/** Public symbols by name; ties are ordered by `id`, where there is one. */
export type MemoryFields<T> = Readonly<Record<string, MemoryField<T>>>;

type Predicate<T> = (record: T) => boolean;

/**
 * One page of `records` as `list` asks for it.
 * @throws ApiError 400 `INVALID_FILTER` or `INVALID_SORT_IDENTIFIER`
 */
export function selectPage<T>(
  records: readonly T[],
  fields: MemoryFields<T>,
  list: ListQuery,
): { data: T[]; totalCount: number } {
  const matches = list.filter === undefined ? () => true : compile(fields, list.filter);
  const order = comparison(fields, list);
  const matching = records.filter(matches).sort(order);
  const end = list.limit === NO_LIMIT ? undefined : list.offset + list.limit;
  return { data: matching.slice(list.offset, end), totalCount: matching.length };
}

function compile<T>(fields: MemoryFields<T>, node: FilterNode): Predicate<T> {
  switch (node.kind) {
    case "constant":
      return () => node.value;
    case "and":
    case "or": {
      const [left, right] = [compile(fields, node.left), compile(fields, node.right)];
      return node.kind === "and"
        ? (record) => left(record) && right(record)
        : (record) => left(record) || right(record);
    }
    case "not":
      return negated(compile(fields, node.node));
    case "flag": {
      const { read, type } = operand(fields, { kind: "symbol", name: node.name });
      if (type !== "boolean" && type !== "any") throw mismatch("is", type, "boolean");
      return (record) => read(record) === true;
    }
    case "compare":
      return comparing(operand(fields, node.left), node.operator, node.value);
    case "contains":
      return containing(operand(fields, node.left), node);
    case "in": {
      const given = operand(fields, node.left);
      const left = given.type === "number" && node.values[0]?.type === "string" ? asText(given) : given;
      const each = node.values.map((value) => comparing(left, "=", value));
      const found: Predicate<T> = (record) => each.some((equals) => equals(record));
      return node.negated ? negated(found) : found;
    }
    case "between": {
      const left = operand(fields, node.left);
      if (left.type === "string") throw mismatch("between", left.type, node.low.type);
      const [from, to] = [comparing(left, ">=", node.low), comparing(left, "<", node.high)];
      const inside: Predicate<T> = (record) => from(record) && to(record);
      return node.negated ? negated(inside) : inside;
    }
    case "isEmpty":
      throw notASet(fields, node.set);
  }
}

function negated<T>(predicate: Predicate<T>): Predicate<T> {
  return (record) => !predicate(record);
}

interface MemoryOperand<T> {
  /** `any`: a tag, which takes the type of the other side. */
  readonly type: "string" | "number" | "boolean" | "datetime" | "any";
  read(record: T): Scalar;
}

function operand<T>(fields: MemoryFields<T>, left: FilterOperand): MemoryOperand<T> {
  if (left.kind !== "symbol") throw notASet(fields, left.set);
  const field = Object.hasOwn(fields, left.name) ? fields[left.name] : undefined;
  if (field !== undefined && field.type !== "tags") return field;
  const dot = left.name.indexOf(".");
  const map = Object.hasOwn(fields, left.name.slice(0, dot)) ? fields[left.name.slice(0, dot)] : undefined;
  if (field?.type === "tags") {
    throw invalid(`symbol '${left.name}' is a map: name one of its keys, as in ${left.name}.key`);
  }
  if (map?.type !== "tags") throw invalid(`unknown symbol '${left.name}'`);
  const key = left.name.slice(dot + 1);
  return {
    type: "any",
    read: (record) => scalar(Object.entries(map.read(record)).find(([name]) => name === key)?.[1]),
  };
}

function asText<T>({ read }: MemoryOperand<T>): MemoryOperand<T> {
  return {
    type: "string",
    read: (record) => {
      const found = read(record);
      return found === null ? null : String(found);
    },
  };
}

function scalar(value: unknown): Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null;
}

function comparing<T>(left: MemoryOperand<T>, operator: CompareOperator, right: FilterValue): Predicate<T> {
  const { read } = left;
  if (right.type === "null") return operator === "=" ? (r) => read(r) === null : (r) => read(r) !== null;
  // Text is compared with a number's decimal form.
  const value = left.type === "string" && right.type === "number" ? String(right.value) : right.value;
  const isDecimal = left.type === "string" && right.type === "number";
  if (left.type !== "any" && left.type !== right.type && !isDecimal) throw mismatch(operator, left.type, right.type);
  return (record) => {
    const found = read(record);
    // A tag of another type counts as missing; none is a datetime.
    const isMissing = typeof found !== typeof value || (left.type === "any" && right.type === "datetime");
    if (found === null || isMissing) return operator === "!=";
    const sign = order(found, value);
    switch (operator) {
      case "=":
        return sign === 0;
      case "!=":
        return sign !== 0;
      case "<":
        return sign < 0;
      case "<=":
        return sign <= 0;
      case ">":
        return sign > 0;
      case ">=":
        return sign >= 0;
    }
  };
}

function containing<T>(
  left: MemoryOperand<T>,
  node: { readonly value: string; readonly ignoreCase: boolean; readonly negated: boolean },
): Predicate<T> {
  if (left.type === "boolean" || left.type === "datetime") {
    throw mismatch(`${node.negated ? "not " : ""}${node.ignoreCase ? "icontains" : "contains"}`, left.type, "string");
  }
  const fold = node.ignoreCase ? (text: string) => text.toUpperCase() : (text: string) => text;
  const part = fold(node.value);
  return (record) => {
    const found = left.read(record);
    // A number is looked at as its decimal text, but a tag that is no text counts as missing.
    const isText = typeof found === "string" || (left.type === "number" && found !== null);
    return (isText && fold(String(found)).includes(part)) !== node.negated;
  };
}

/** Bytewise for text, false before true. */
function order(a: string | number | boolean, b: string | number | boolean): number {
  if (typeof a === "string" && typeof b === "string") return compareText(a, b);
  return Number(a) - Number(b);
}

/** The order of the UTF-8 forms, which is that of the code points. */
function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const [left, right] = [[...a], [...b]];
  for (const [index, character] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    if (character !== other) return (character.codePointAt(0) ?? 0) - (other.codePointAt(0) ?? 0);
  }
  return -1;
}

function comparison<T>(fields: MemoryFields<T>, list: ListQuery): (a: T, b: T) => number {
  const ties = Object.hasOwn(fields, "id") ? [{ name: "id", descending: false }] : [];
  const keys = [...list.sort, ...ties].map(({ name, descending }) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined || field.type === "tags") {
      const text = field === undefined ? `unknown symbol '${name}'` : `symbol '${name}' cannot be sorted by`;
      throw apiError(list.sortIn === "sort" ? "INVALID_SORT_IDENTIFIER" : "INVALID_FILTER", unhandledCause(text));
    }
    return { read: field.read as (record: T) => Scalar, sign: descending ? -1 : 1 };
  });
  return (a, b) => {
    for (const { read, sign } of keys) {
      const [left, right] = [read(a), read(b)];
      if (left === right) continue;
      if (left === null) return -sign;
      if (right === null) return sign;
      const between = order(left, right);
      if (between !== 0) return sign * between;
    }
    return 0;
  };
}

function notASet<T>(fields: MemoryFields<T>, name: string): Error {
  const text = Object.hasOwn(fields, name)
    ? `symbol '${name}' is not a set symbol but is used in set function context`
    : `unknown symbol '${name}'`;
  return invalid(text);
}

function mismatch(operator: string, left: string, right: string): Error {
  return invalid(`operation ${operator} is not supported with operands types ${left}, ${right}`);
}

function invalid(text: string): Error {
  return apiError("INVALID_FILTER", unhandledCause(text));
}
