/** The left side of a filter's operators as SQL: scalar expressions and keys of `jsonb` maps. */
import type { CompareOperator, FilterValue } from "@sallyport/api";
import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";

export type FieldType = "string" | "number" | "boolean" | "datetime";

/** The left side of an operator in SQL. A method throws {@link Mismatch} where it has no meaning for the operand. */
export interface SqlOperand {
  flag(): RawBuilder<SqlBool>;
  compare(operator: CompareOperator, value: FilterValue): RawBuilder<SqlBool>;
  contains(text: string, ignoreCase: boolean, negated: boolean): RawBuilder<SqlBool>;
  in(values: readonly FilterValue[]): RawBuilder<SqlBool>;
  between(low: FilterValue, high: FilterValue): RawBuilder<SqlBool>;
}

/** An operator that does not fit the types on its sides. */
export class Mismatch extends Error {
  constructor(left: string, right: string) {
    super(`operands types ${left}, ${right}`);
  }
}

const SQL_TYPES: Readonly<Record<FieldType, string>> = {
  string: "text",
  number: "float8",
  boolean: "boolean",
  datetime: "timestamptz",
};

/** The negation of a condition, which is true where the condition is null. */
export function isNotTrue(condition: Expression<SqlBool>): RawBuilder<SqlBool> {
  return sql<SqlBool>`((${condition}) is not true)`;
}

function bound(type: FieldType, value: FilterValue): RawBuilder<unknown> {
  // Text is compared with a number's decimal form.
  if (type === "string" && value.type === "number") return sql`${String(value.value)}::text`;
  if (value.type !== type) throw new Mismatch(type, value.type);
  if (value.type === "datetime") return sql`${new Date(value.value)}::timestamptz`;
  // A whole number stays one, so that an index on an integer column can be used.
  const cast = value.type === "number" && Number.isSafeInteger(value.value) ? "bigint" : SQL_TYPES[type];
  return sql`${value.value}::${sql.raw(cast)}`;
}

/** An expression of one type. */
export function scalarOperand(type: FieldType, value: Expression<unknown>): SqlOperand {
  return {
    flag() {
      if (type !== "boolean") throw new Mismatch(type, "boolean");
      return sql<SqlBool>`${value}`;
    },
    compare(operator, right) {
      if (right.type === "null") return sql<SqlBool>`${value} is ${sql.raw(operator === "=" ? "null" : "not null")}`;
      if (operator === "!=") return sql<SqlBool>`${value} is distinct from ${bound(type, right)}`;
      return sql<SqlBool>`${value} ${sql.raw(operator)} ${bound(type, right)}`;
    },
    contains(text, ignoreCase, negated) {
      if (type !== "string" && type !== "number") throw new Mismatch(type, "string");
      const found = containsSql(type === "number" ? sql`${value}::text` : value, text, ignoreCase);
      return negated ? isNotTrue(found) : found;
    },
    in(values) {
      if (type === "number" && values[0]?.type === "string") {
        return scalarOperand("string", sql`${value}::text`).in(values);
      }
      return sql<SqlBool>`${value} in (${sql.join(values.map((each) => bound(type, each)))})`;
    },
    between(low, high) {
      if (type === "string") throw new Mismatch(type, low.type);
      return sql<SqlBool>`(${value} >= ${bound(type, low)} and ${value} < ${bound(type, high)})`;
    },
  };
}

const DECIMAL = /^\d+$/;

/**
 * A value that some clients write as a number and others as a word. Digits mean the number, any other text the word; everything else is compared with the
 * number.
 */
export function wordOperand(number: Expression<unknown>, word: Expression<unknown>): SqlOperand {
  const numbers = scalarOperand("number", number);
  const words = scalarOperand("string", word);
  const isWord = (value: FilterValue | undefined) => value?.type === "string" && !DECIMAL.test(value.value);
  return {
    flag: () => numbers.flag(),
    compare: (operator, right) => (isWord(right) ? words : numbers).compare(operator, right),
    contains: (text, ignoreCase, negated) => (DECIMAL.test(text) ? numbers : words).contains(text, ignoreCase, negated),
    in: (values) => (isWord(values[0]) ? words : numbers).in(values),
    between: (low, high) => numbers.between(low, high),
  };
}

/**
 * From three characters on a trigram index serves LIKE; with fewer the planner would read the whole index, so `strpos`.
 * Case folding beyond ASCII needs a collation that knows it, which costs the index.
 */
function containsSql(value: Expression<unknown>, text: string, ignoreCase: boolean): RawBuilder<SqlBool> {
  const isAscii = /^[\p{ASCII}]*$/u.test(text);
  const isShort = [...text].length < 3;
  if (ignoreCase && (!isAscii || isShort)) {
    return sql<SqlBool>`strpos(fold_case(${value}), fold_case(${text}::text)) > 0`;
  }
  if (isShort) return sql<SqlBool>`strpos(${value}, ${text}::text) > 0`;
  const pattern = `%${text.replace(/[\\%_]/g, "\\$&")}%`;
  return sql<SqlBool>`${value} ${sql.raw(ignoreCase ? "ilike" : "like")} ${pattern}::text`;
}

/** A key of a `jsonb` map: equality by containment, which a GIN index serves; everything else by the value's own type. */
export function tagOperand(map: Expression<unknown>, key: string): SqlOperand {
  const typed = (type: FieldType): SqlOperand => {
    if (type === "datetime") return scalarOperand(type, sql`null::timestamptz`);
    const text = sql`(${map} ->> ${key}::text) collate "C"`;
    const read = type === "string" ? text : sql`(${map} ->> ${key}::text)::${sql.raw(SQL_TYPES[type])}`;
    return scalarOperand(type, sql`(case when jsonb_typeof(${map} -> ${key}::text) = ${type}::text then ${read} end)`);
  };
  const has = (value: unknown) => sql<SqlBool>`${map} @> ${JSON.stringify({ [key]: value })}::jsonb`;
  return {
    flag: () => has(true),
    compare(operator, right) {
      if (right.type === "null") {
        return sql<SqlBool>`(${map} ->> ${key}::text) is ${sql.raw(operator === "=" ? "null" : "not null")}`;
      }
      if (right.type !== "datetime" && operator === "=") return has(right.value);
      if (right.type !== "datetime" && operator === "!=") return isNotTrue(has(right.value));
      return typed(right.type).compare(operator, right);
    },
    contains: (text, ignoreCase, negated) => typed("string").contains(text, ignoreCase, negated),
    in: (values) => typed(typeOf(values[0])).in(values),
    between: (low, high) => typed(typeOf(low)).between(low, high),
  };
}

function typeOf(value: FilterValue | undefined): FieldType {
  return value === undefined || value.type === "null" ? "string" : value.type;
}
