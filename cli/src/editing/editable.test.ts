import { describe, expect, it } from "vitest";
import { nameKey } from "../entities/names.ts";
import { kindOf } from "../kinds/find-kind.ts";
import { differences, editableOf, editableText, editedValues } from "./editable.ts";

const POLICY = {
  id: "p",
  name: "dial",
  type: "Dial",
  semantic: "AnyOf",
  identityRoles: ["#clients"],
  serviceRoles: ["@s1"],
  postureCheckRoles: null,
  tags: { a: 1 },
  createdAt: "2026-01-01T00:00:00.000Z",
};
const kind = kindOf("service-policy");
const before = editableOf(kind, POLICY, new Map([[nameKey("service", "s1"), "web"]]));
const changed = async (change: (text: string) => string) =>
  Object.fromEntries(
    differences(before, await editedValues(kind, change(await editableText(before, ["head"])), before)),
  );

describe("an entity to edit", () => {
  it("has the fields that a change takes, with names in place of ids", async () => {
    const text = await editableText(before, ["service-policy dial"]);
    expect(text).toMatch(/^# service-policy dial\n/);
    expect(text).toContain('"@web"');
    expect(text).not.toContain("createdAt");
    expect(await changed((same) => same)).toEqual({});
  });

  it("changes what was edited, and empties what was removed", async () => {
    expect(await changed((text) => text.replace("Dial", "Bind"))).toEqual({ type: "Bind" });
    expect(await changed((text) => text.replace(/tags:\n {2}a: 1\n/, ""))).toEqual({ tags: {} });
    expect(await changed((text) => text.replace(/identityRoles:\n.*\n/, "identityRoles:\n"))).toEqual({
      identityRoles: [],
    });
  });

  it("has no types of their own: nested fields are where the API has them", async () => {
    const auth = kindOf("auth-policy");
    const entity = { id: "1", name: "a", primary: { cert: { allowed: true } }, secondary: { requireTotp: false } };
    const editable = editableOf(auth, entity, new Map());
    const text = await editableText(editable, []);
    const values = await editedValues(auth, text.replace("allowed: true", "allowed: false"), editable);
    expect(differences(editable, values)).toEqual(new Map([["primary.cert.allowed", false]]));
  });

  it.each([
    ["type: Dial", "type: Dail", /^line 7, column 1: type: expected one of Dial, Bind, found "Dail"$/],
    ["semantic:", "semantc:", /^line \d+, column 1: service-policy has no field 'semantc': did you mean 'semantic'\?$/],
    ["type: Dial", "type: Dial\ntype: Bind", /^line 8, column 1: Map keys must be unique/],
    ["type: Dial", "type: Dial\ncreatedAt: 1", /^line 8, column 1: createdAt cannot be changed$/],
    ["type: Dial", "type: [", /^line \d+, column \d+: /],
    ['identityRoles:\n  - "#clients"', "identityRoles: x", /identityRoles: expected list of @identity/],
  ])("with %j as %j is refused", async (from, to, message) => {
    await expect(changed((text) => text.replace(from, to))).rejects.toThrow(message);
  });

  it("that is no map is refused", async () => {
    await expect(changed(() => "- a\n")).rejects.toThrow("line 1: expected fields with values");
  });
});
