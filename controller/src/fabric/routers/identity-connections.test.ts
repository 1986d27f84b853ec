import { expect, test } from "vitest";
import { IdentityConnections } from "./identity-connections.ts";

const report = (identityId: string, isConnected = true) => ({ identityId, isConnected });

test("a router cannot claim memory without end", () => {
  const connections = new IdentityConnections();
  connections.report(
    "r1",
    true,
    Array.from({ length: 100_001 }, (_, i) => report(`i${i}`)),
  );
  expect(connections.state("i99999")).toBe("online");
  expect(connections.state("i100000")).toBe("offline");
});

test("identities are online while any router says so", () => {
  const connections = new IdentityConnections();
  expect(connections.state("a")).toBe("unknown");
  connections.report("r1", true, [report("a"), report("b")]);
  connections.report("r2", true, []);
  connections.report("r2", false, [report("a")]);
  expect(connections.state("a")).toBe("online");
  connections.report("r1", false, [report("a", false)]);
  expect(connections.state("a")).toBe("online");
  connections.report("r2", true, []);
  expect(connections.state("a")).toBe("offline");
  expect(connections.state("b")).toBe("online");
  connections.forget("r1");
  expect(connections.state("b")).toBe("offline");
});

test("the identity of a tunneling router is online while the router is, whichever router reports it", () => {
  const connections = new IdentityConnections();
  expect(connections.tunneler("r1", true)).toEqual({ online: ["r1"], offline: [] });
  expect([connections.state("r1"), connections.state("a")]).toEqual(["online", "unknown"]);
  expect(connections.report("r1", true, [report("a")])).toEqual({ online: ["a"], offline: [] });
  expect(connections.state("r1")).toBe("online");
  connections.report("r2", true, [report("r1")]);
  expect(connections.tunneler("r1", false)).toEqual({ online: [], offline: [] });
  expect(connections.state("r1")).toBe("online");
  connections.tunneler("r1", true);
  connections.report("r2", true, []);
  expect(connections.tunneler("r1", false)).toEqual({ online: [], offline: ["r1"] });
  expect([...connections.of("r1")]).toEqual(["a"]);
});

test("texts that are too long for an id are no identities", () => {
  const connections = new IdentityConnections();
  connections.report("r1", true, [report("x".repeat(129))]);
  expect([...connections.of("r1")]).toEqual([]);
});
