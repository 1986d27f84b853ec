/**
 * Where a token says something: the name of a claim, or a JSON pointer (RFC 6901) into its payload, such as `/realm_access/roles`. A text that begins with `/` is
 * a pointer; any other is a name as it stands, such as `https://idp.example/roles`.
 */

type Payload = Readonly<Record<string, unknown>>;

/** Is it a name, or a well-formed pointer? */
export function isClaimSelector(selector: string): boolean {
  return !selector.startsWith("/") || /^(?:\/(?:[^~/]|~[01])*)+$/.test(selector);
}

/** The text of the claim; undefined when it is absent, empty or no text. */
export function textAt(payload: Payload, selector: string): string | undefined {
  const value = valueAt(payload, selector);
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** The texts of a claim that is a text or a list of texts; none when it is absent. Undefined for anything else. */
export function textsAt(payload: Payload, selector: string): readonly string[] | undefined {
  const value = valueAt(payload, selector) ?? [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.filter((each) => typeof each === "string");
  return texts.length < list.length ? undefined : texts.filter((each) => each !== "");
}

function valueAt(payload: Payload, selector: string): unknown {
  const keys = selector.startsWith("/") ? selector.split("/").slice(1) : undefined;
  const path = keys?.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")) ?? [selector];
  let value: unknown = payload;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}
