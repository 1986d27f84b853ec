import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type CheckOptions, ConfigError, checkConfig, type Dialect, nearestName, readDocument } from "./index.ts";

const schema = z.object({
  name: z.string().optional(),
  listeners: z
    .array(
      z.discriminatedUnion("kind", [
        z.object({ kind: z.literal("a"), port: z.int() }).transform(({ port }) => port),
        z.object({ kind: z.literal("b"), path: z.string() }),
      ]),
    )
    .default([]),
  limits: z.object({ queue: z.int().default(4) }).prefault({}),
  labels: z.record(z.string(), z.string()).default({}),
});

const words: CheckOptions["words"] = {
  expected: (issue) => issue.message,
  found: (value) => JSON.stringify(value) ?? "nothing",
};

function check(source: string, form: Dialect["form"] = "strict") {
  const dialect = { form, scalar: ({ value }: { value: unknown }) => value ?? undefined };
  const document = readDocument(source, { dialect, file: "f.yml", content: "settings" });
  return { ...checkConfig(schema, document.root, { document, file: "f.yml", words }), document };
}

const failure = (source: string, form?: Dialect["form"]) => {
  try {
    check(source, form);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
};

describe("a file is checked", () => {
  it("with every problem at its place, in the order of the file", () => {
    expect(failure("limits: { queue: many }\nname: 3\nlisteners:\n  - { kind: a, port: 1.5 }\n")).toEqual([
      expect.stringMatching(/^f\.yml:1:11: limits\.queue: expected .*, found "many"$/),
      expect.stringMatching(/^f\.yml:2:1: name: expected .*, found 3$/),
      expect.stringMatching(/^f\.yml:4:16: listeners\[0\]\.port: expected .*, found 1\.5$/),
    ]);
  });

  it("ignoring unknown keys with a warning that names the nearest one, whatever wraps their schema", () => {
    const source = "nam: x\nlisteners:\n  - { kind: b, path: p, port: 1 }\nlimits: { queu: 1 }\nlabels: { any: x }\n";
    const { config, warnings } = check(source);
    expect(config).toEqual({ listeners: [{ kind: "b", path: "p" }], limits: { queue: 4 }, labels: { any: "x" } });
    expect(warnings).toEqual([
      {
        ...{ path: "nam", line: 1, column: 1, expected: "a known key, perhaps name" },
        ...{ found: "the unknown key nam", isIgnored: true },
      },
      expect.objectContaining({ path: "listeners[0].port", line: 3, column: 25, expected: "one of kind, path" }),
      expect.objectContaining({ path: "limits.queu", line: 4, expected: "a known key, perhaps queue" }),
    ]);
  });

  it("naming unknown keys together with what they break", () => {
    expect(failure("naem: x\nlisteners:\n  - { kind: a, prot: 1 }\n")).toEqual([
      "f.yml:1:1: naem: expected a known key, perhaps name, found the unknown key naem, which is ignored",
      expect.stringMatching(/^f\.yml:3:5: listeners\[0\]\.port: expected .*, found nothing$/),
      "f.yml:3:16: listeners[0].prot: expected a known key, perhaps port, found the unknown key prot, which is ignored",
    ]);
    // A key that its schema refuses is named once.
    const strict = z.object({ type: z.strictObject({ kind: z.string() }) });
    expect(() => checkConfig(strict, { type: { kind: "a", kid: 1 } }, { words })).toThrow(/^type: expected [^\n]*$/);
  });

  it("without places for values that a program made", () => {
    expect(() => checkConfig(schema, { name: 3 }, { words })).toThrow(/^name: expected .*, found 3$/);
  });
});

describe("YAML", () => {
  it("has the places of keys and of values", () => {
    const { document } = check("name: x\nlisteners:\n  - kind: a\n    port: 2\nlimits:\n");
    expect(document.keyPlace(["listeners", 0, "port"])).toEqual({ line: 4, column: 5 });
    expect(document.valuePlace(["listeners", 0, "port"])).toEqual({ line: 4, column: 11 });
    expect(document.keyPlace(["listeners", 0, "missing", "below"])).toEqual({ line: 3, column: 5 });
    expect(document.emptyKeys).toEqual([["limits"]]);
  });

  it("is read strictly, or as Go programs read it", () => {
    const twice = "name: x\nname: y\n";
    expect(failure(twice)).toEqual([expect.stringMatching(/^f\.yml:2:1: expected valid YAML, found .*unique/)]);
    expect(check(twice, "lenient")).toMatchObject({
      config: { name: "y" },
      warnings: [{ path: "name", line: 2, column: 1, expected: "each key once" }],
    });
    expect(failure("name: x\n---\nname: y\n")).toEqual(["f.yml: expected one document, found several"]);
  });

  it.each(["strict", "lenient"] as const)("refuses aliases of nothing and without end (%s)", (form) => {
    expect(failure("name: *nowhere\n", form)).toEqual([
      "f.yml:1:7: name: expected an alias (*name) of something above it, found *nowhere",
    ]);
    expect(failure("listeners: &all [*all]\n", form)).toEqual([expect.stringMatching(/32 levels deep, found more$/)]);
  });
});

it("a name is near when few letters differ, whatever their case", () => {
  expect(nearestName("adress", ["address", "api"])).toBe("address");
  expect(nearestName("apiSessionTimeOut", ["apiSessionTimeout"])).toBe("apiSessionTimeout");
  expect(nearestName("foo", ["address", "api"])).toBeUndefined();
  expect(nearestName("x".repeat(100), ["x".repeat(99)])).toBeUndefined();
});
