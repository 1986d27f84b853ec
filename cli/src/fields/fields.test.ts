import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kindOf } from "../kinds/find-kind.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import { KINDS } from "../kinds/generated/kinds.ts";
import type { Field } from "../kinds/kind.ts";
import { STANDARD_FIELDS, standardOf } from "../kinds/standards.ts";
import { testContext } from "../testing/test-context.ts";
import { optionName, settableFields } from "./field-option.ts";
import { fieldValues } from "./field-options.ts";
import { readValue } from "./read-value.ts";

const fieldOf = (kind: string, name: string): Field => {
  const field = FIELDS[kind]?.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${kind} has no ${name}`);
  return field;
};

describe("options of fields", () => {
  it("have a name each, which no other option of the command has", () => {
    for (const kind of KINDS) {
      for (const purpose of ["create", "patch"] as const) {
        const names = settableFields(kind, purpose).map(optionName);
        expect(names).toHaveLength(new Set(names).size);
        for (const name of ["network", "output", "help", "yes"]) expect(names, kind.name).not.toContain(name);
        const flags = names.map((name) => name.replace(/^no-/, ""));
        expect(flags, kind.name).toHaveLength(new Set(flags).size);
      }
    }
  });

  it("fill in only what the contract asks for", () => {
    for (const place of STANDARD_FIELDS) {
      const [kind = "", ...path] = place.split(".");
      const field = fieldOf(kind, path.join("."));
      expect(field.creation, place).toBe("required");
      const standard = standardOf(kindOf(kind), field);
      if (field.values !== undefined) expect(field.values, place).toContain(standard);
    }
  });
});

describe("values of fields", () => {
  const read = (kind: string, name: string, ...texts: string[]) => readValue(fieldOf(kind, name), texts);

  it.each([
    [["service-policy", "type", "dial"], "Dial"],
    [
      ["service", "roleAttributes", "a,b", "c"],
      ["a", "b", "c"],
    ],
    [
      ["service", "roleAttributes", "a\\,b, c"],
      ["a,b", "c"],
    ],
    [["service", "roleAttributes", ""], []],
    [["service", "tags", "a=1,b=true,c=x=y,d=null", "e=01"], { a: 1, b: true, c: "x=y", d: null, e: "01" }],
    [["service", "tags", '{"a,b": "1"}'], { "a,b": "1" }],
    [["identity", "serviceHostingCosts", "web=10"], { web: 10 }],
    [["terminator", "cost", "65535"], 65535],
    [["config", "data", "address: localhost\nport: 80"], { address: "localhost", port: 80 }],
    [["posture-check", "operatingSystems", "[{type: Linux}]"], [{ type: "Linux" }]],
    [["enrollment", "expiresAt", "2030-01-02T03:04:05Z"], "2030-01-02T03:04:05.000Z"],
  ])("%j is %j", async ([kind = "", name = "", ...texts], value) => {
    expect(await read(kind, name, ...texts)).toEqual(value);
  });

  it("of times may be durations from now on", async () => {
    const at = Date.parse(String(await read("enrollment", "expiresAt", "24h")));
    expect(Math.abs(at - Date.now() - 86_400_000)).toBeLessThan(60_000);
  });

  it.each([
    [["service-policy", "type", "dail"], "--type: expected one of Dial, Bind, found 'dail'; did you mean 'Dial'?"],
    [["terminator", "cost", "65536"], "--cost: expected whole number from 0 to 65535, found '65536'"],
    [["terminator", "cost", "1e3"], "--cost: expected whole number from 0 to 65535, found '1e3'"],
    [["service", "tags", "a"], "--tags: expected key=value, found 'a'"],
    [["identity", "serviceHostingCosts", "web=x"], "--service-hosting-costs: expected whole number, found 'x'"],
    [["config", "data", "[1]"], "--data: expected key=value, found '[1]'"],
    [["posture-check", "operatingSystems", "{"], "--operating-systems is neither JSON nor YAML"],
    [["service", "terminatorStrategy", "a", "b"], "--terminator-strategy was given twice"],
    [["enrollment", "expiresAt", "soon"], "--expires-at: expected time, found 'soon'"],
  ])("%j is refused", async ([kind = "", name = "", ...texts], message) => {
    await expect(read(kind, name, ...texts)).rejects.toThrow(message);
  });
});

describe("texts in files", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sallyport-fields-"));
    writeFileSync(join(folder, "text"), "from a file\nsecond line\n");
  });
  afterAll(async () => await rm(folder, { recursive: true }));
  const values = (kind: string, options: Record<string, unknown>) =>
    fieldValues(kindOf(kind), "create", options, testContext());

  it("take the place of @FILE where no entity can be meant", async () => {
    const file = `@${join(folder, "text")}`;
    expect((await values("ca", { certPem: [file] })).get("certPem")).toBe("from a file\nsecond line\n");
    expect((await values("ca", { identityNameFormat: ["@@x"] })).get("identityNameFormat")).toBe("@x");
    expect((await values("service-policy", { serviceRoles: ["@web"] })).get("serviceRoles")).toEqual(["@web"]);
    await expect(values("ca", { certPem: ["@/nonexistent"] })).rejects.toThrow("cannot read /nonexistent");
  });

  it("are the way of secrets, which are refused on the command line", async () => {
    const file = `@${join(folder, "text")}`;
    expect((await values("authenticator", { password: [file] })).get("password")).toBe("from a file");
    await expect(values("authenticator", { password: ["hunter2"] })).rejects.toThrow("--password is a secret");
    await expect(values("authenticator", { password: ["\u0000ask"] })).rejects.toThrow("there is no terminal");
  });
});
