import { describe, expect, it } from "vitest";
import { columnsOf } from "./columns.ts";
import { kindOf, wordsOf } from "./find-kind.ts";
import { FIELDS } from "./generated/fields.ts";
import { KINDS } from "./generated/kinds.ts";

describe("the kinds", () => {
  it("are those of the contract", () => {
    const names = KINDS.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining([
        ...["identity", "service", "service-policy", "edge-router-policy", "service-edge-router-policy", "edge-router"],
        ...["transit-router", "terminator", "config", "config-type", "ca", "external-jwt-signer", "auth-policy"],
        ...["authenticator", "enrollment", "posture-check", "api-session", "session", "controller", "circuit", "link"],
      ]),
    );
    expect(Object.keys(FIELDS)).toEqual(names);
  });

  it("have words that mean one kind each", () => {
    const words = KINDS.flatMap(wordsOf);
    expect(words).toHaveLength(new Set(words).size);
    for (const word of words) expect(wordsOf(kindOf(word))).toContain(word);
    expect(kindOf("Service_Policies").name).toBe("service-policy");
    expect(kindOf("ext-jwt-signers").name).toBe("external-jwt-signer");
  });

  it("have columns that the contract has", () => {
    for (const kind of KINDS) {
      const shown = (FIELDS[kind.name] ?? []).filter(({ isShown }) => isShown).map(({ name }) => name);
      for (const path of columnsOf(kind, true)) {
        expect(shown, `${kind.name}.${path}`).toContain(path);
      }
    }
  });

  it("refuse what the API cannot do with them", () => {
    expect(() => kindOf("circuit", "create")).toThrow("the API has no operation to create circuits");
    expect(() => kindOf("polcy", "create")).toThrow("unknown kind 'polcy'");
  });

  it("know which fields refer to which kinds", () => {
    const refersTo = (kind: string, name: string) => FIELDS[kind]?.find((field) => field.name === name)?.refersTo;
    expect(refersTo("service-policy", "identityRoles")).toBe("identity");
    expect(refersTo("service", "configs")).toBe("config");
    expect(refersTo("identity", "authPolicyId")).toBe("auth-policy");
    expect(refersTo("terminator", "router")).toBe("router");
    expect(refersTo("terminator", "identity")).toBeUndefined();
    expect(refersTo("ca", "identityRoles")).toBeUndefined();
    expect(refersTo("identity", "externalId")).toBeUndefined();
  });
});
