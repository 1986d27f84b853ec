import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import type { Check } from "./check.ts";
import { explain } from "./explain.ts";
import { CASES, dialled, none, noPolicy } from "./testing/cases.ts";
import { AT, facts, router, servicePolicy, terminator, WORKING } from "./testing/facts.ts";

const codesOf = (checks: readonly Check[]): string[] =>
  checks.flatMap(({ code, checks: parts }) => [...(code === undefined ? [] : [code]), ...codesOf(parts ?? [])]);

describe("what stands in the way first", () => {
  it.each(CASES)("$what: $code", ({ given, code, allowed = false, says, command, advises }) => {
    const answer = explain(given);
    expect(answer).toMatchObject({ allowed, firstProblem: { code } });
    if (says !== undefined) expect(answer.firstProblem?.message).toContain(says);
    if (command !== undefined) expect(answer.firstProblem?.remedies?.map((each) => each.command)).toContain(command);
    if (advises !== undefined) expect(answer.firstProblem?.remedies?.[0]?.text).toContain(advises);
  });

  it("is nothing when all is well", () => {
    const answer = explain(WORKING);
    expect(answer).toMatchObject({ allowed: true, type: "Dial", lastFailedDials: [] });
    expect(answer.firstProblem).toBeUndefined();
    expect(codesOf(answer.checks)).toEqual([]);
  });

  it("always has a remedy", () => {
    for (const { what, given, code } of CASES) {
      if (code === "POSTURE_AT_ROUTERS") continue;
      expect([what, explain(given).firstProblem?.remedies?.length ?? 0]).not.toEqual([what, 0]);
    }
  });

  it("is a failure before what the last dial met, and that before a warning", () => {
    const refused = { failed: [{ at: AT, code: "ROUTER_ERR_CONN_REFUSED", message: "refused", count: 1 }] };
    const idle = { apiSessions: [] };
    const both = explain(facts({ dials: refused, authentication: idle, routers: { ofIdentity: none, common: [] } }));
    expect(both.firstProblem?.code).toBe("NO_EDGE_ROUTER_POLICY");
    expect(explain(facts({ dials: refused, authentication: idle })).firstProblem?.code).toBe("ROUTER_ERR_CONN_REFUSED");
  });

  it("is not a failed dial of the past that succeeded since, or that another check covers", () => {
    expect(explain(dialled("ROUTER_ERR_CONN_REFUSED", true)).firstProblem).toBeUndefined();
    expect(explain(dialled("NO_TERMINATORS")).firstProblem).toBeUndefined();
    expect(explain(dialled("NO_TERMINATORS")).lastFailedDials).toHaveLength(1);
  });
});

test.each([
  ["connecting to tcp:127.0.0.1:80 failed: connect ECONNREFUSED 127.0.0.1:80", "correct its port"],
  ["dial tcp 127.0.0.1:80: connect: connection refused", "correct its port"],
  ["getaddrinfo ENOTFOUND web.invalid", "Correct the host name"],
  ["dial tcp: lookup web.invalid: no such host", "Correct the host name"],
  ["no reason given", "Look at the host's log"],
])("a host that refuses with the words %s is advised on", (message, advice) => {
  const { firstProblem } = explain(
    facts({ dials: { failed: [{ at: AT, code: "ROUTER_ERR_GENERIC", message, count: 1 }] } }),
  );
  expect(firstProblem?.remedies?.[0]?.text).toContain(advice);
});

test("docs/why.md explains every code", () => {
  const page = readFileSync(new URL("../../../../docs/why.md", import.meta.url), "utf8");
  const codes = new Set(CASES.flatMap(({ given }) => codesOf(explain(given).checks)));
  expect([...codes].filter((code) => !code.startsWith("ROUTER_ERR") && !page.includes(`\`${code}\``))).toEqual([]);
});

test("a tunneling router needs no login and no listener for applications", () => {
  const given = facts({
    identity: { isRouter: true },
    authentication: { authenticators: [], apiSessions: [] },
    routers: { common: [{ ...router, isOnline: true, hasListener: false }] },
  });
  expect(explain(given)).toMatchObject({ allowed: true });
  expect(explain(given).firstProblem).toBeUndefined();
});

test("an administrator keeps a session without a policy", () => {
  expect(explain(noPolicy({ isKeptAlive: true })).allowed).toBe(true);
});

test("an identity that hosts sees its terminators, and no others", () => {
  const other = { ...terminator, id: "t2", host: { id: "i9", name: "other" } };
  const own = { ...terminator, host: { id: "i1", name: "laptop" } };
  const given = facts({ type: "Bind", hosting: { terminators: [own, other], routes: [] } });
  const hosting = explain(given).checks.find(({ check }) => check === "hosting");
  expect(hosting).toMatchObject({ status: "ok", checks: [{ entities: [{ id: "t1" }] }] });
});

describe("names that would change a command or a terminal", () => {
  const named = (name: string) =>
    explain(facts({ identity: { name }, routers: { ofIdentity: none, common: [] } })).firstProblem;

  it.each([
    ["it's", "'@it'\\''s'"],
    ["$(reboot)", "'@$(reboot)'"],
    ["a b", "'@a b'"],
    ["a;b", "'@a;b'"],
    ["-rf", "'@-rf'"],
  ])("%s is one word", (name, word) => {
    expect(named(name)?.remedies?.[0]?.command).toContain(` --identity-roles ${word} `);
  });

  it("are replaced by ids in commands, and escaped in sentences", () => {
    const problem = named("evil\u001b[2J\u202e");
    expect(problem?.remedies?.[0]?.command).toContain("--identity-roles '@i1' ");
    expect(problem?.message).toContain("evil\\u{1b}[2J\\u{202e}");
  });

  it("are replaced by ids where they would be options", () => {
    const lacking = noPolicy({ missingIdentity: [servicePolicy("p", { identities: ["x"] })] });
    const answer = explain({ ...lacking, identity: { ...lacking.identity, name: "--all" } });
    expect(answer.firstProblem?.remedies?.[0]?.command).toBe("sallyport patch identity i1 --role-attributes staff,x");
  });

  it("are left out of commands whose lists they would split", () => {
    const lacking = noPolicy({ missingIdentity: [servicePolicy("p", { identities: ["a,b"] })] });
    expect(explain(lacking).firstProblem?.remedies?.[0]?.command).toBeUndefined();
  });
});
