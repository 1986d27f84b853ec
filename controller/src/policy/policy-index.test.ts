import { Bitset } from "@sallyport/async";
import { describe, expect, it } from "vitest";
import { PolicyIndex, type PolicyRows, type ServicePolicy } from "./policy-index.ts";
import { matches, type RoleSelector, type Semantic } from "./selector.ts";
import { ServiceUpdates } from "./service-updates.ts";

const select = (...roles: string[]): RoleSelector => ({
  all: roles.includes("#all"),
  attrs: roles.filter((role) => role.startsWith("#") && role !== "#all").map((role) => role.slice(1)),
  ids: roles.filter((role) => role.startsWith("@")).map((role) => role.slice(1)),
});

describe("a role list", () => {
  it.each<[string[], Semantic, string[], boolean]>([
    [[], "AnyOf", ["a"], false],
    [[], "AllOf", ["a"], false],
    [["#all"], "AllOf", [], true],
    [["@me"], "AllOf", [], true],
    [["@other"], "AnyOf", ["other"], false],
    [["#a", "#b"], "AllOf", ["a"], false],
    [["#a", "#b"], "AllOf", ["b", "a", "c"], true],
    [["#a", "#b"], "AnyOf", ["b"], true],
    [["#a", "#b"], "AnyOf", ["c"], false],
    [["@me", "#a", "#b"], "AllOf", [], true],
    [["#A"], "AnyOf", ["a"], false],
  ])("%j under %s selects an entity with %j: %s", (roles, semantic, attrs, expected) => {
    expect(matches(select(...roles), semantic, { id: "me", attrs })).toBe(expected);
  });
});

it("a bit set grows and lists", () => {
  const set = new Bitset();
  for (const bit of [0, 31, 32, 1000]) set.set(bit, true);
  set.set(32, false);
  set.set(5000, false);
  const other = new Bitset(64);
  other.set(63, true);
  set.add(other);
  expect([...set]).toEqual([0, 31, 63, 1000]);
  expect(set.has(31)).toBe(true);
  expect(set.has(99_999)).toBe(false);
});

const policy = (
  id: string,
  type: "Dial" | "Bind",
  identities: RoleSelector,
  services: RoleSelector,
  semantic: Semantic = "AnyOf",
): ServicePolicy => ({
  id,
  type,
  semantic,
  identities,
  services,
  postureChecks: select(),
});

const NOTHING: PolicyRows = {
  services: [],
  routers: [],
  postureChecks: [],
  servicePolicies: [],
  edgeRouterPolicies: [],
  serviceEdgeRouterPolicies: [],
};

describe("the policy index", () => {
  const ann = { id: "ann", attrs: ["sales"] };

  it("lists an identity's services in the order of ids", () => {
    const services = ["d", "b", "a", "c"].map((name) => ({ id: `id-${name}`, attrs: name === "c" ? [] : ["web"] }));
    const index = PolicyIndex.build({
      ...NOTHING,
      services,
      servicePolicies: [
        policy("1", "Dial", select("#sales"), select("#web")),
        policy("2", "Bind", select("@ann"), select("@id-c")),
      ],
    });
    expect(index.servicesOf(ann)).toEqual(["id-a", "id-b", "id-c", "id-d"]);
    expect(index.servicesOf({ id: "bob", attrs: [] })).toEqual([]);
    expect(index.accessTo(ann, "id-c")).toEqual({ serviceId: "id-c", permissions: ["Bind"], policyIds: ["2"] });
    expect(index.accessTo(ann, "unknown")).toBeUndefined();
  });

  it("follows changed, removed and new services, whose places are used again", () => {
    const index = PolicyIndex.build({
      ...NOTHING,
      servicePolicies: [policy("1", "Dial", select("#all"), select("#web"))],
    });
    index.putService({ id: "1", attrs: ["web"] });
    index.putService({ id: "2", attrs: [] });
    index.removeService("1");
    index.putService({ id: "3", attrs: [] });
    expect(index.servicesOf(ann)).toEqual([]);
    index.putService({ id: "3", attrs: ["web"] });
    index.putService({ id: "2", attrs: ["web"] });
    expect(index.servicesOf(ann)).toEqual(["2", "3"]);
    index.removeServicePolicy("1");
    expect(index.accessTo(ann, "2")).toBeUndefined();
  });

  it("finds the routers both may use", () => {
    const index = PolicyIndex.build({
      ...NOTHING,
      services: [{ id: "s", attrs: ["web"] }],
      routers: ["r1", "r2", "r3"].map((id) => ({ id, attrs: [id === "r3" ? "private" : "public"] })),
      edgeRouterPolicies: [{ id: "e", semantic: "AnyOf", from: select("#sales"), routers: select("#public") }],
      serviceEdgeRouterPolicies: [{ id: "x", semantic: "AnyOf", from: select("#all"), routers: select("@r2", "@r3") }],
    });
    expect(index.routersOfIdentity(ann)).toEqual(["r1", "r2"]);
    expect(index.routersFor(ann, "s")).toEqual(["r2"]);
    index.putRouter({ id: "r4", attrs: ["public"] });
    index.removeRouter("r1");
    expect(index.routersOfIdentity(ann)).toEqual(["r2", "r4"]);
  });
});

describe("the time of an identity's last service change", () => {
  const at = (seconds: number) => new Date(seconds * 1000);
  const start = at(0);
  const ann = { id: "ann", attrs: ["sales"] };

  it("moves for whom the old or the new selector names, and for no other identity", () => {
    const updates = new ServiceUpdates();
    updates.policyChanged([{ selector: select("#sales", "@bob"), semantic: "AnyOf" }], {
      xid: 1007n,
      at: new Date(5_900),
    });
    updates.advance("2000:2000:");
    expect(updates.lastChange(ann, [], start)).toEqual(new Date(5_009));
    expect(updates.lastChange({ id: "bob", attrs: [] }, [], start)).toEqual(new Date(5_009));
    expect(updates.lastChange({ id: "eve", attrs: ["it"] }, [], start)).toEqual(start);
  });

  it("moves in the very second of the start, too, whatever the number of the transaction", () => {
    const started = new Date(5_123);
    const shown = new Set<number>();
    for (let xid = 2_000n; xid < 2_999n; xid++) {
      const updates = new ServiceUpdates();
      shown.add(Number(updates.lastChange(ann, [], started)));
      updates.identityChanged("ann", { xid, at: new Date(5_900) });
      updates.advance("9999:9999:");
      shown.add(Number(updates.lastChange(ann, [], started)));
    }
    expect(shown.size).toBe(1_000);
  });

  it("moves with the services of the identity's policies", () => {
    const updates = new ServiceUpdates();
    updates.serviceChanged(["p1"], { xid: 5n, at: at(9) });
    updates.advance("6:6:");
    expect(updates.lastChange(ann, ["p1", "p2"], start)).toEqual(new Date(9_006));
    expect(updates.lastChange(ann, ["p2"], start)).toEqual(start);
  });

  it("waits for transactions that are still open, so that none is missed", () => {
    const updates = new ServiceUpdates();
    updates.identityChanged("ann", { xid: 12n, at: at(3) });
    updates.advance("11:13:11");
    expect(updates.lastChange(ann, [], start)).toEqual(start);
    updates.identityChanged("ann", { xid: 11n, at: at(4) });
    updates.advance("13:13:");
    expect(updates.lastChange(ann, [], start)).toEqual(new Date(3_013));
  });

  it("keeps a bounded number of stamps: past it every client looks once", () => {
    const updates = new ServiceUpdates(3);
    for (let i = 1; i <= 4; i++) updates.identityChanged(`id-${i}`, { xid: BigInt(i), at: at(i) });
    updates.advance("9:9:");
    expect(updates.lastChange({ id: "me", attrs: [] }, [], start)).toEqual(new Date(4_005));
  });
});
