import {
  ApiFilterError,
  type CompareOperator,
  type FilterNode,
  type FilterOperand,
  type FilterValue,
  type ParsedFilter,
  type SortField,
} from "./ast.ts";

const KEYWORDS =
  "and or not in between contains icontains true false null none sort by skip limit asc desc anyof allof count isempty from where";
const WORDS = new Set(KEYWORDS.split(" "));
const MAX_DEPTH = 1000;
const MAX_SORT_FIELDS = 5;
/** Searches in texts and sets are worked through row by row: hundreds of them in one filter would hold the store for minutes. */
const MAX_SEARCHES = 100;

/**
 * Parses a whole query.
 * `and` and `or` have no precedence between them and group to the right; `not` takes everything to its right.
 * @throws ApiFilterError with the offset of the first character that does not fit
 */
export function parseFilter(text: string): ParsedFilter {
  const parser = new Parser(text);
  const parsed = parser.query();
  parser.end();
  return parsed;
}

/** Parses what may follow `sort by`. */
export function parseSort(text: string): readonly SortField[] {
  const parser = new Parser(text);
  parser.space();
  const fields = parser.sortFields();
  parser.end();
  return fields;
}

class Parser {
  private at = 0;
  private depth = 0;
  private searches = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  query(): ParsedFilter {
    this.space();
    const start = this.at;
    let where: FilterNode | undefined;
    if (!this.peekTrailer()) where = this.expression();
    const sort: SortField[] = [];
    let skip: number | undefined;
    let limit: number | "none" | undefined;
    const separated = () => this.at === start || /[ \t\r\n]/.test(this.text[this.at - 1] ?? "");
    this.space();
    if (separated() && this.word("sort")) {
      this.required();
      if (!this.word("by")) this.fail();
      this.required();
      sort.push(...this.sortFields());
      this.space();
    }
    if (separated() && this.word("skip")) {
      this.required();
      skip = this.wholeNumber();
      this.space();
    }
    if (separated() && this.word("limit")) {
      this.required();
      limit = this.word("none") ? "none" : this.wholeNumber();
      this.space();
    }
    return { where, sort, skip, limit };
  }

  sortFields(): SortField[] {
    const fields: SortField[] = [];
    do {
      this.space();
      const name = this.identifier();
      let descending = false;
      const mark = this.at;
      if (this.space()) {
        if (this.word("desc")) descending = true;
        else if (!this.word("asc")) this.at = mark;
      }
      fields.push({ name, descending });
      const before = this.at;
      this.space();
      if (this.text[this.at] !== ",") {
        this.at = before;
        break;
      }
      this.at++;
    } while (fields.length <= MAX_SORT_FIELDS);
    if (fields.length > MAX_SORT_FIELDS)
      throw new ApiFilterError(`at most ${MAX_SORT_FIELDS} sort fields are allowed`, this.at);
    return fields;
  }

  end(): void {
    this.space();
    if (this.at < this.text.length) this.fail();
  }

  /** expr := term [ _ (and|or) _ expr ], `not _ expr`; right-nesting falls out of the recursion. */
  private expression(): FilterNode {
    if (++this.depth > MAX_DEPTH) throw new ApiFilterError(`filters may nest at most ${MAX_DEPTH} deep`, this.at);
    const left = this.term();
    const mark = this.at;
    let node = left;
    if (this.space()) {
      const kind = this.word("and") ? "and" : this.word("or") ? "or" : undefined;
      if (kind === undefined) this.at = mark;
      else {
        this.required();
        node = { kind, left, right: this.expression() };
      }
    }
    this.depth--;
    return node;
  }

  private term(): FilterNode {
    if (this.word("not")) {
      this.required();
      return { kind: "not", node: this.expression() };
    }
    if (this.text[this.at] === "(") {
      this.at++;
      this.space();
      const inner = this.expression();
      this.space();
      this.take(")");
      return inner;
    }
    if (this.word("true")) return { kind: "constant", value: true };
    if (this.word("false")) return { kind: "constant", value: false };
    if (this.call("isempty")) return { kind: "isEmpty", ...this.setArgument(true) };
    return this.operation(this.operand());
  }

  private operand(): FilterOperand {
    if (this.call("anyof")) return { kind: "anyOf", set: this.setArgument(false).set };
    if (this.call("allof")) return { kind: "allOf", set: this.setArgument(false).set };
    if (this.call("count")) return { kind: "count", ...this.setArgument(true) };
    return { kind: "symbol", name: this.identifier() };
  }

  private operation(left: FilterOperand): FilterNode {
    const mark = this.at;
    const spaced = this.space();
    const symbol = /^(?:!=|<=|>=|=|<|>)/.exec(this.text.slice(this.at, this.at + 2))?.[0];
    if (symbol !== undefined) {
      this.at += symbol.length;
      this.space();
      const operator = symbol as CompareOperator;
      const start = this.at;
      const value = this.value();
      const ordered = value.type === "string" || value.type === "number" || value.type === "datetime";
      if (operator !== "=" && operator !== "!=" && !ordered) this.fail(start);
      return { kind: "compare", left, operator, value };
    }
    if (spaced) {
      let negated = false;
      if (this.word("not")) {
        // Exactly one white-space character between `not` and what it negates.
        if (!/[ \t\r\n]/.test(this.text[this.at] ?? "")) this.fail();
        this.at++;
        negated = true;
      }
      if (this.word("icontains")) return this.contains(left, negated, true);
      if (this.word("contains")) return this.contains(left, negated, false);
      if (this.word("in")) return this.membership(left, negated);
      if (this.word("between")) return this.range(left, negated);
      if (negated) this.fail();
    }
    if (left.kind !== "symbol") this.fail();
    this.at = mark;
    return { kind: "flag", name: left.name };
  }

  private contains(left: FilterOperand, negated: boolean, ignoreCase: boolean): FilterNode {
    this.search();
    this.required();
    const start = this.at;
    const value = this.value();
    if (value.type !== "string" && (ignoreCase || value.type !== "number")) this.fail(start);
    return { kind: "contains", left, ignoreCase, negated, value: String(value.value) };
  }

  private membership(left: FilterOperand, negated: boolean): FilterNode {
    this.required();
    this.take("[");
    const values: FilterValue[] = [];
    do {
      this.space();
      const start = this.at;
      const value = this.value();
      if (value.type === "null" || value.type === "boolean") this.fail(start);
      if (values[0] !== undefined && values[0].type !== value.type) this.fail(start);
      values.push(value);
      this.space();
    } while (this.accept(","));
    this.take("]");
    return { kind: "in", left, negated, values };
  }

  private range(left: FilterOperand, negated: boolean): FilterNode {
    this.required();
    const start = this.at;
    const low = this.value();
    this.required();
    if (!this.word("and")) this.fail();
    this.required();
    const middle = this.at;
    const high = this.value();
    if (low.type !== "number" && low.type !== "datetime") this.fail(start);
    if (high.type !== low.type) this.fail(middle);
    return { kind: "between", left, negated, low, high };
  }

  private search(): void {
    if (++this.searches <= MAX_SEARCHES) return;
    throw new ApiFilterError(`at most ${MAX_SEARCHES} conditions of a filter may search texts or sets`, this.at);
  }

  private setArgument(subQuery: boolean): { set: string; where: ParsedFilter | undefined } {
    this.search();
    this.space();
    if (subQuery && this.word("from")) {
      this.required();
      const set = this.identifier();
      this.required();
      if (!this.word("where")) this.fail();
      this.required();
      if (++this.depth > MAX_DEPTH) throw new ApiFilterError(`filters may nest at most ${MAX_DEPTH} deep`, this.at);
      const where = this.query();
      this.depth--;
      this.space();
      this.take(")");
      return { set, where };
    }
    const set = this.identifier();
    this.space();
    this.take(")");
    return { set, where: undefined };
  }

  private value(): FilterValue {
    const rest = this.text.slice(this.at);
    if (rest.startsWith('"')) return { type: "string", value: this.string() };
    const time =
      /^datetime\([ \t\r\n]*(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d))[ \t\r\n]*\)/.exec(rest);
    if (time?.[1] !== undefined) {
      const value = Date.parse(time[1].toUpperCase());
      if (Number.isNaN(value)) this.fail();
      this.at += time[0].length;
      return { type: "datetime", value };
    }
    const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/.exec(rest);
    if (number !== null) {
      this.at += number[0].length;
      return { type: "number", value: Number(number[0]) };
    }
    if (this.word("true")) return { type: "boolean", value: true };
    if (this.word("false")) return { type: "boolean", value: false };
    if (this.word("null")) return { type: "null", value: null };
    return this.fail();
  }

  private string(): string {
    const literal = /^"(?:[^"\\]|\\["\\fnrt])*"/.exec(this.text.slice(this.at))?.[0];
    const control = [...(literal ?? "")].findIndex((character) => character < " ");
    if (literal === undefined || control >= 0) return this.fail(this.at + Math.max(control, 0));
    this.at += literal.length;
    return JSON.parse(literal) as string;
  }

  private wholeNumber(): number {
    const digits = /^-?\d+(?![\w.])/.exec(this.text.slice(this.at))?.[0];
    if (digits === undefined) return this.fail();
    this.at += digits.length;
    return Number(digits);
  }

  private identifier(): string {
    const quoted = this.text[this.at] === "'";
    const rest = this.text.slice(quoted ? this.at + 1 : this.at);
    const name = /^[A-Za-z][A-Za-z_]*(?:\.[A-Za-z][A-Za-z_-]*)*/.exec(rest)?.[0];
    if (name === undefined || WORDS.has(name.toLowerCase())) return this.fail();
    if (quoted && rest[name.length] !== "'") this.fail(this.at + 1 + name.length);
    const end = this.at + name.length + (quoted ? 2 : 0);
    if (!quoted && /[\w.'-]/.test(this.text[end] ?? "")) this.fail(end);
    this.at = end;
    return name;
  }

  /** Keywords are case-insensitive and end where a word ends. */
  private word(keyword: string): boolean {
    const end = this.at + keyword.length;
    if (this.text.slice(this.at, end).toLowerCase() !== keyword) return false;
    if (/[\w.-]/.test(this.text[end] ?? "")) return false;
    this.at = end;
    return true;
  }

  private call(name: string): boolean {
    const mark = this.at;
    if (this.word(name)) {
      this.space();
      if (this.accept("(")) return true;
    }
    this.at = mark;
    return false;
  }

  private peekTrailer(): boolean {
    const mark = this.at;
    const found = this.word("sort") || this.word("skip") || this.word("limit");
    this.at = mark;
    return found;
  }

  space(): boolean {
    const start = this.at;
    while (/[ \t\r\n]/.test(this.text[this.at] ?? "")) this.at++;
    return this.at > start;
  }

  private required(): void {
    if (!this.space()) this.fail();
  }

  private accept(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private take(character: string): void {
    if (!this.accept(character)) this.fail();
  }

  private fail(at = this.at): never {
    const found = this.text[at] === undefined ? "<EOF>" : (/^(?:\w+|.)/s.exec(this.text.slice(at))?.[0] ?? "");
    const before = this.text.slice(0, at).split("\n");
    const line = before.length;
    const column = before.at(-1)?.length ?? 0;
    throw new ApiFilterError(
      `Unexpected symbol: "${found}" at line: ${line} column: ${column}. line: ${line}, column: ${column}, symbol: ${found}`,
      at,
    );
  }
}
