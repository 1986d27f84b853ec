import stringWidth from "string-width";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { kindOf } from "../kinds/find-kind.ts";
import { testContext } from "../testing/test-context.ts";
import { cell, lineOf } from "./cell.ts";
import { description } from "./description.ts";
import { entityTable } from "./entity-table.ts";
import { documentText, formatOf } from "./format.ts";
import { table } from "./table.ts";

const HOSTILE = "web\u001b[2J\u0007\u009b31m\u202egnp.exe\nnext";
const text = (value: unknown, format: string) =>
  documentText(value, formatOf(format) as Parameters<typeof documentText>[1], true);

describe("tables", () => {
  it("shorten the widest columns until they fit", async () => {
    const made = await table(
      ["NAME", "ROLES"],
      [
        ["a", "x".repeat(50)],
        ["b".repeat(12), "short"],
      ],
      { width: 30 },
    );
    const lines = made.trimEnd().split("\n");
    expect(lines.map((line) => stringWidth(line)).every((width) => width <= 30)).toBe(true);
    expect(made).toContain("bbbbbbbbbbbb  short");
    expect(made).toContain("…");
  });

  it("keep names distinguishable, whether they differ in the end or in the middle", async () => {
    const others = ["x".repeat(60), "y".repeat(60)];
    for (const names of [
      ["very-long-prefix-of-names-1", "very-long-prefix-of-names-2"],
      ["very-long-prefix-one-of-all-names", "very-long-prefix-two-of-all-names"],
      ["東京都千代田区一丁目一番", "東京都千代田区二丁目一番"],
    ]) {
      const made = await table(
        ["NAME", "ROLES"],
        [...names, ...names].map((name, row) => [name, others[row % 2] ?? ""]),
        {
          width: 44,
        },
      );
      const [, ...lines] = made.trimEnd().split("\n");
      expect(new Set(lines.map((line) => line.split("  ")[0])).size).toBe(2);
      expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(44);
    }
  });

  it("keep everything where there is no terminal", async () => {
    expect(await table(["A"], [["x".repeat(500)]])).toContain("x".repeat(500));
  });

  it("count the columns of wide characters and of emoji", async () => {
    const [first = "", second = ""] = (
      await table(
        ["N", "X"],
        [
          ["東京", "1"],
          ["👩‍👩‍👧", "2"],
        ],
        { hasHeading: false },
      )
    ).split("\n");
    expect([stringWidth(first), stringWidth(second)]).toEqual([7, 7]);
    expect(await table(["N"], [["東京都千代田区"]], { width: 9, hasHeading: false })).toBe("東京…田区\n");
  });

  it("are marked on terminals only, and not against NO_COLOR", async () => {
    const rows = [{ name: "web", id: "1" }];
    const made = (env: Record<string, string>, terminal?: { columns: number }) =>
      entityTable(kindOf("service"), rows, { isWide: false, hasHeading: true }, testContext(env, terminal));
    expect(await made({}, { columns: 80 })).toContain("\u001b[1m");
    expect(await made({ NO_COLOR: "1" }, { columns: 80 })).not.toContain("\u001b");
    expect(await made({})).not.toContain("\u001b");
  });
});

describe("text of servers", () => {
  it("never reaches a terminal with control characters", async () => {
    const entity = { id: "1", name: HOSTILE, tags: { [HOSTILE]: HOSTILE } };
    const kind = kindOf("service");
    const made = [
      await entityTable(kind, [entity], { isWide: true, hasHeading: true }, testContext()),
      await description(kind, entity, {
        names: new Map(),
        related: [{ name: "configs", titles: [HOSTILE], hasMore: false }],
      }),
      await text(entity, "json"),
      await text(entity, "yaml"),
      await text(entity, "jsonpath=$.name"),
      await text(entity, "jsonpath=$.tags"),
    ];
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    for (const each of made) expect(each).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });

  it("keeps its value in JSON and YAML", async () => {
    const value = { name: HOSTILE, pem: "-----BEGIN X-----\nabc\n-----END X-----\n" };
    expect(JSON.parse(await text(value, "json"))).toEqual(value);
    expect(parse(await text(value, "yaml"))).toEqual(value);
    expect(await documentText(value, formatOf("jsonpath=$.name") as { kind: "json" }, false)).toBe(`${HOSTILE}\n`);
  });
});

describe("values", () => {
  it("are shown with names in place of ids", async () => {
    const policy = {
      identityRoles: ["@1", "#all"],
      identityRolesDisplay: [
        { role: "@1", name: "@alice" },
        { role: "#all", name: "#all" },
      ],
      service: { _links: {}, entity: "services", id: "7", name: "web" },
      serviceId: "7",
    };
    expect(cell(policy, "identityRoles")).toBe("@alice,#all");
    expect(cell(policy, "service")).toBe("web");
    expect(cell(policy, "absent.path")).toBe("-");
    const names = new Map([["posture-check/9", "linux"]]);
    const shown = await description(
      kindOf("sp"),
      { ...policy, id: "5", name: "p", postureCheckRoles: ["@9"] },
      { names, related: [] },
    );
    expect(shown).toMatch(/^Name: +p\nId: +5$/m);
    expect(shown).toMatch(/^Posture check roles: +@linux$/m);
    expect(shown).toMatch(/^service: +web \(7\)$/m);
    expect(shown).not.toContain("serviceId");
  });

  it("of a service say whose permissions they are, and that there are none", async () => {
    const shown = (permissions: readonly string[]) =>
      description(kindOf("service"), { name: "web", id: "1", permissions }, { names: new Map(), related: [] });
    expect(await shown(["Invalid"])).toMatch(/^Your permissions: +-$/m);
    expect(await shown(["Bind", "Dial"])).toMatch(/^Your permissions: +Bind, Dial$/m);
    const identity = { name: "alice", id: "2", permissions: ["Invalid"] };
    expect(await description(kindOf("identity"), identity, { names: new Map(), related: [] })).toMatch(
      /^Permissions: +Invalid$/m,
    );
  });

  it("are short", () => {
    expect(lineOf("2026-01-02T03:04:05.678Z")).toBe("2026-01-02 03:04:05Z");
    expect(lineOf("0001-01-01T00:00:00.000Z")).toBe("-");
    expect(lineOf([])).toBe("-");
    expect(lineOf({ a: 1, b: [true, null] })).toBe("a=1,b=true,-");
  });
});

describe("-o jsonpath", () => {
  it("takes queries as kubectl's users write them, too", async () => {
    const value = [{ name: "a" }, { name: "b" }];
    for (const query of ["$[*].name", "{$[*].name}", "[*].name"])
      expect(await text(value, `jsonpath=${query}`)).toBe("a\nb\n");
    expect(await text({ a: { b: [1, "x"] } }, "jsonpath=.a.b")).toBe('[1,"x"]\n');
  });

  it("refuses what is no query in one line", async () => {
    await expect(text({}, "jsonpath=$[")).rejects.toThrow(/^the query '\$\[' cannot be read: .+$/);
    expect(() => formatOf("jsonpath=")).toThrow("-o jsonpath needs a query");
  });
});
