/**
 * List filters as SQL. An entity's {@link EntityFields} names its public symbols and where each is read;
 * {@link filterSql} compiles a parsed filter into one condition with bound parameters, {@link fetchPage} runs a list.
 * Nothing of the filter's text ever becomes SQL text.
 */
import {
  apiError,
  type FilterNode,
  type FilterOperand,
  fieldCause,
  type ListQuery,
  NO_LIMIT,
  type ParsedFilter,
  unhandledCause,
} from "@sallyport/api";
import { type Expression, type RawBuilder, type SelectQueryBuilder, type SqlBool, sql } from "kysely";
import { cancellable } from "../request-signal.ts";
import {
  type FieldType,
  isNotTrue,
  Mismatch,
  type SqlOperand,
  scalarOperand,
  tagOperand,
  wordOperand,
} from "./filter-operand.ts";

/** One value per row. `sql` is a column or any expression of the type. */
export interface ScalarField {
  readonly kind: "scalar";
  readonly type: FieldType;
  readonly sql: Expression<unknown>;
  /** Nulls sort before values. Said only where there can be some: an index on the column then serves no order. */
  readonly nullable: boolean;
  /** No two rows have the same value: what comes after it in a sort changes nothing. */
  readonly unique: boolean;
  /** The word for a number, which operands may name instead. */
  readonly word?: Expression<unknown>;
}

/** A `text[]` column, such as role attributes: equality goes through `@>` and so through a GIN index. */
export interface ArrayField {
  readonly kind: "array";
  readonly sql: Expression<unknown>;
}

/**
 * Values of other rows. `rows` is a SELECT, correlated with the outer row, of one column named `value` (text).
 * `linked` lets `count(from … where …)` and `isEmpty(from … where …)` look at the linked rows themselves.
 */
export interface RowsField {
  readonly kind: "rows";
  readonly rows: Expression<unknown>;
  readonly linked?: LinkedRows;
}
export interface LinkedRows {
  /** Tables and joins, as after FROM. */
  readonly from: RawBuilder<unknown>;
  /** What ties them to the outer row. */
  readonly where: RawBuilder<SqlBool>;
  readonly fields: EntityFields;
  readonly id: Expression<unknown>;
}

/** A `jsonb` object of free keys: `tags` itself is not comparable, `tags.<key>` is, with the type of the other side. */
export interface TagsField {
  readonly kind: "tags";
  readonly sql: Expression<unknown>;
}

export type FilterField = ScalarField | ArrayField | RowsField | TagsField;
export type EntityFields = Readonly<Record<string, FilterField>>;

/** A column such as `identity.name`, or an expression. */
type At = string | Expression<unknown>;
type ScalarOptions = { readonly nullable?: boolean; readonly unique?: boolean };

const at = (where: At): Expression<unknown> => (typeof where === "string" ? sql.ref(where) : where);
const scalar = (type: FieldType, where: At, o: ScalarOptions): ScalarField => ({
  kind: "scalar",
  type,
  sql: at(where),
  nullable: o.nullable ?? false,
  unique: o.unique ?? false,
});

/** Makers of fields. */
export const field = {
  string: (where: At, o: ScalarOptions = {}) => scalar("string", where, o),
  number: (where: At, o: ScalarOptions = {}) => scalar("number", where, o),
  boolean: (where: At, o: ScalarOptions = {}) => scalar("boolean", where, o),
  datetime: (where: At, o: ScalarOptions = {}) => scalar("datetime", where, o),
  /** A column of words, each of which has a number, too: clients write either. It is sorted by the numbers. */
  word: (where: At, numbers: Readonly<Record<string, number>>): ScalarField => {
    const word = at(where);
    const cases = Object.entries(numbers).map(([name, value]) => sql`WHEN ${name}::text THEN ${sql.lit(value)}`);
    return { ...scalar("number", sql`(CASE ${word} ${sql.join(cases, sql` `)} END)`, {}), word };
  },
  array: (where: At): ArrayField => ({ kind: "array", sql: at(where) }),
  rows: (rows: Expression<unknown>, linked?: LinkedRows): RowsField =>
    linked === undefined ? { kind: "rows", rows } : { kind: "rows", rows, linked },
  tags: (where: At): TagsField => ({ kind: "tags", sql: at(where) }),
};

/** What is sent as `meta.filterableFields`. */
export function fieldNames(fields: EntityFields): readonly string[] {
  return Object.keys(fields);
}

/**
 * The condition of a filter. It is true or not true; null counts as not true, so put it into WHERE as it is.
 * @throws ApiError 400 `INVALID_FILTER` for an unknown symbol or an operator that does not fit its operands
 */
export function filterSql(fields: EntityFields, node: FilterNode): RawBuilder<SqlBool> {
  switch (node.kind) {
    case "constant":
      return node.value ? sql<SqlBool>`true` : sql<SqlBool>`false`;
    case "and":
      return sql<SqlBool>`(${filterSql(fields, node.left)} and ${filterSql(fields, node.right)})`;
    case "or":
      return sql<SqlBool>`(${filterSql(fields, node.left)} or ${filterSql(fields, node.right)})`;
    case "not":
      return isNotTrue(filterSql(fields, node.node));
    case "flag":
      return leaf(fields, { kind: "symbol", name: node.name }, "is", (operand) => operand.flag());
    case "compare":
      return leaf(fields, node.left, node.operator, (operand) => operand.compare(node.operator, node.value));
    case "contains": {
      const name = `${node.negated ? "not " : ""}${node.ignoreCase ? "icontains" : "contains"}`;
      return leaf(fields, node.left, name, (operand) => operand.contains(node.value, node.ignoreCase, node.negated));
    }
    case "in":
      return negatable(
        node.negated,
        leaf(fields, node.left, "in", (operand) => operand.in(node.values)),
      );
    case "between":
      return negatable(
        node.negated,
        leaf(fields, node.left, "between", (operand) => operand.between(node.low, node.high)),
      );
    case "isEmpty":
      return isEmpty(fields, node.set, node.where);
  }
}

/**
 * The condition of `roleFilter` and `roleSemantic`: the semantic combines `#` values, `@id` adds entities, `#all` is everything. Undefined when there is
 * nothing to filter by. @throws ApiError 400 on a value that begins with neither
 */
export function roleFilterSql(
  columns: { readonly id: string; readonly attributes: string },
  roles: readonly string[] | undefined,
  semantic: "AllOf" | "AnyOf" = "AllOf",
): RawBuilder<SqlBool> | undefined {
  if (roles === undefined || roles.length === 0 || roles.includes("#all")) return undefined;
  const bad = roles.find((role) => !/^[#@]/.test(role));
  if (bad !== undefined) {
    const reason = "role entries must prefixed with # (to indicate role attributes) or @ (to indicate a name or id)";
    throw apiError("COULD_NOT_VALIDATE", fieldCause("roleFilter", reason, bad));
  }
  const having = (mark: string) => roles.filter((role) => role.startsWith(mark)).map((role) => role.slice(1));
  const attributes = having("#");
  const ids = having("@");
  const byId = sql<SqlBool>`${sql.ref(columns.id)} = any(${ids}::text[])`;
  if (attributes.length === 0) return byId;
  const operator = sql.raw(semantic === "AllOf" ? "@>" : "&&");
  const byAttribute = sql<SqlBool>`${sql.ref(columns.attributes)} ${operator} ${attributes}::text[]`;
  return ids.length === 0 ? byAttribute : sql<SqlBool>`(${byAttribute} or ${byId})`;
}

export interface PageOptions {
  readonly fields: EntityFields;
  readonly list: ListQuery;
  /** The id column, by which ties are ordered. */
  readonly id: At;
  /** How many rows the query has without a filter, where that is known. */
  readonly count?: () => Promise<number>;
}

/**
 * Runs a list: `query` has its FROM, joins, own conditions and selections, and neither order nor limit.
 * The total is counted by a second statement, and only where the page does not tell it.
 */
export async function fetchPage<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
  { fields, list, id, count: known }: PageOptions,
): Promise<{ rows: O[]; totalCount: number }> {
  const matching = list.filter === undefined ? query : query.where(filterSql(fields, list.filter));
  let page = matching;
  for (const order of orderSql(fields, list, id)) page = page.orderBy(order);
  if (list.limit !== NO_LIMIT) page = page.limit(list.limit);
  if (list.offset > 0) page = page.offset(list.offset);
  const rows = await cancellable((options) => page.execute(options));
  const isLast = rows.length > 0 ? rows.length < list.limit : list.offset === 0;
  if (isLast) return { rows, totalCount: list.offset + rows.length };
  if (list.filter === undefined && known !== undefined) return { rows, totalCount: await known() };
  const count = sql<string>`count(*)`.as("count");
  const [counted] = await cancellable((options) => matching.clearSelect().select(count).execute(options));
  return { rows, totalCount: Number((counted as { count: string } | undefined)?.count ?? 0) };
}

/** ORDER BY of a list: its sort fields, then the id unless one of them decides alone. */
function orderSql(fields: EntityFields, list: Pick<ListQuery, "sort" | "sortIn">, id: At): RawBuilder<unknown>[] {
  const order = list.sort.map(({ name, descending }) => {
    const found = lookUp(fields, name);
    if (found?.kind !== "scalar") {
      const text = found === undefined ? `unknown symbol '${name}'` : `symbol '${name}' cannot be sorted by`;
      throw apiError(list.sortIn === "sort" ? "INVALID_SORT_IDENTIFIER" : "INVALID_FILTER", unhandledCause(text));
    }
    const nulls = found.nullable ? sql.raw(descending ? " nulls last" : " nulls first") : sql.raw("");
    return sql`${found.sql} ${sql.raw(descending ? "desc" : "asc")}${nulls}`;
  });
  const isComplete = list.sort.some(({ name }) => {
    const found = lookUp(fields, name);
    return found?.kind === "scalar" && found.unique;
  });
  return isComplete ? order : [...order, sql`${at(id)}`];
}

// --- symbols and sets ---------------------------------------------------------------------------------------------

function leaf(
  fields: EntityFields,
  operand: FilterOperand,
  operator: string,
  compile: (operand: SqlOperand) => RawBuilder<SqlBool>,
): RawBuilder<SqlBool> {
  try {
    switch (operand.kind) {
      case "symbol":
        return compile(symbolOperand(fields, operand.name));
      case "count":
        return compile(scalarOperand("number", countOf(fields, operand.set, operand.where)));
      case "anyOf":
      case "allOf": {
        const set = setField(fields, operand.set);
        if (operand.kind === "anyOf") {
          const indexed = set.kind === "array" ? compile(anyOfArray(set)) : undefined;
          return indexed ?? sql<SqlBool>`exists (select from ${elements(set)} where ${compile(ELEMENT)})`;
        }
        return sql<SqlBool>`not exists (select from ${elements(set)} where ${isNotTrue(compile(ELEMENT))})`;
      }
    }
  } catch (error) {
    if (error instanceof Mismatch) throw invalid(`operation ${operator} is not supported with ${error.message}`);
    throw error;
  }
}

/** `not in` and `not between` deny the whole, set functions included; `not contains` denies it for each element. */
function negatable(negated: boolean, condition: RawBuilder<SqlBool>): RawBuilder<SqlBool> {
  return negated ? isNotTrue(condition) : condition;
}

function symbolOperand(fields: EntityFields, name: string): SqlOperand {
  const found = lookUp(fields, name);
  if (found === undefined) throw invalid(`unknown symbol '${name}'`);
  if (found.kind === "array" || found.kind === "rows") {
    throw invalid(`symbol '${name}' is a set symbol but is used in non-set function context`);
  }
  if (found.kind === "scalar") {
    return found.word === undefined ? scalarOperand(found.type, found.sql) : wordOperand(found.sql, found.word);
  }
  const key = name.slice(name.indexOf(".") + 1);
  if (key === name) throw invalid(`symbol '${name}' is a map: name one of its keys, as in ${name}.key`);
  return tagOperand(found.sql, key);
}

const ELEMENT = scalarOperand("string", sql`element.value`);

/** `anyOf` over a `text[]` column: equality by array operators, the rest element by element. */
function anyOfArray(set: ArrayField): SqlOperand {
  const any = (condition: RawBuilder<SqlBool>) =>
    sql<SqlBool>`exists (select from ${elements(set)} where ${condition})`;
  return {
    flag: () => ELEMENT.flag(),
    compare: (operator, right) =>
      operator === "=" && right.type === "string"
        ? sql<SqlBool>`${set.sql} @> ${[right.value]}::text[]`
        : any(ELEMENT.compare(operator, right)),
    contains: (text, ignoreCase, negated) => any(ELEMENT.contains(text, ignoreCase, negated)),
    in(values) {
      const texts = values.flatMap((each) => (each.type === "string" ? [each.value] : []));
      return texts.length < values.length ? any(ELEMENT.in(values)) : sql<SqlBool>`${set.sql} && ${texts}::text[]`;
    },
    between: (low, high) => any(ELEMENT.between(low, high)),
  };
}

function elements(set: ArrayField | RowsField): RawBuilder<unknown> {
  return set.kind === "array" ? sql`unnest(${set.sql}) as element(value)` : sql`(${set.rows}) as element(value)`;
}

function setField(fields: EntityFields, name: string): ArrayField | RowsField {
  const found = lookUp(fields, name);
  if (found === undefined) throw invalid(`unknown symbol '${name}'`);
  if (found.kind !== "array" && found.kind !== "rows") {
    throw invalid(`symbol '${name}' is not a set symbol but is used in set function context`);
  }
  return found;
}

function isEmpty(fields: EntityFields, name: string, where: ParsedFilter | undefined): RawBuilder<SqlBool> {
  const set = setField(fields, name);
  if (where !== undefined) return sql<SqlBool>`not exists (${linkedRows(name, set, where)})`;
  if (set.kind === "array") return sql<SqlBool>`cardinality(${set.sql}) = 0`;
  return sql<SqlBool>`not exists (select from ${elements(set)})`;
}

function countOf(fields: EntityFields, name: string, where: ParsedFilter | undefined): RawBuilder<unknown> {
  const set = setField(fields, name);
  if (where !== undefined) return sql`(select count(*) from (${linkedRows(name, set, where)}) as matches)`;
  if (set.kind === "array") return sql`cardinality(${set.sql})`;
  return sql`(select count(*) from ${elements(set)})`;
}

function linkedRows(name: string, set: ArrayField | RowsField, query: ParsedFilter): RawBuilder<unknown> {
  const linked = set.kind === "rows" ? set.linked : undefined;
  if (linked === undefined) throw invalid(`symbol '${name}' cannot be queried with from … where …`);
  const condition = query.where === undefined ? sql`true` : filterSql(linked.fields, query.where);
  const order = sql.join(orderSql(linked.fields, { sort: query.sort, sortIn: "filter" }, linked.id));
  const limit = query.limit === undefined || query.limit === "none" || query.limit < 0 ? null : query.limit;
  return sql`select from ${linked.from} where ${linked.where} and ${condition} order by ${order}
    limit ${limit}::bigint offset ${Math.max(query.skip ?? 0, 0)}::bigint`;
}

function lookUp(fields: EntityFields, name: string): FilterField | undefined {
  if (Object.hasOwn(fields, name)) return fields[name];
  const map = name.slice(0, Math.max(name.indexOf("."), 0));
  const found = Object.hasOwn(fields, map) ? fields[map] : undefined;
  return found?.kind === "tags" ? found : undefined;
}

function invalid(text: string): Error {
  return apiError("INVALID_FILTER", unhandledCause(text));
}
