/** A router whose tunneler intercepts, in a namespace that allows it; before, it hosted only. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasCluster, type Stage } from "../stage.ts";
import { Routers, stageWithNetwork } from "./routers.ts";

describe.skipIf(!hasCluster)("a router that intercepts", () => {
  let stage: Stage;
  let gate: Routers;

  beforeAll(async () => {
    stage = await stageWithNetwork("gate", { security: "privileged" });
    gate = new Routers(stage, "gate", { drainSeconds: 2 });
  });
  afterAll(async () => await stage?.close());

  test("is root of its pod with two capabilities, and can read what it kept when it only hosted", async () => {
    const resource = (kind: string, name: string, spec: object) => ({
      apiVersion: "sallyport.dev/v1alpha1",
      kind,
      metadata: { name },
      spec: { networkRef: { name: "main" }, ...spec },
    });
    const config = (name: string, data: object) => resource("ServiceConfig", name, { type: name, data });
    const allOf = (kind: string, side: string) =>
      resource(kind, "all", { semantic: "AnyOf", edgeRouterRoles: ["#all"], [side]: ["#all"] });
    const policy = (type: string) => {
      const rule = { type, semantic: "AnyOf", edgeRouterRefs: [{ name: "gate" }], serviceRefs: [{ name: "health" }] };
      return resource("ServicePolicy", type.toLowerCase(), rule);
    };
    await gate.declare({ tunneler: { enabled: true, mode: "host" } });
    const configRefs = [{ name: "intercept.v1" }, { name: "host.v1" }];
    await stage.apply([
      config("intercept.v1", { protocols: ["tcp"], addresses: ["10.99.0.1"], portRanges: [{ low: 80, high: 80 }] }),
      // The router answers about its health on that port.
      config("host.v1", { protocol: "tcp", address: "127.0.0.1", port: 8081 }),
      resource("OverlayService", "health", { configRefs }),
      policy("Dial"),
      policy("Bind"),
      allOf("EdgeRouterPolicy", "identityRoles"),
      allOf("ServiceEdgeRouterPolicy", "serviceRoles"),
    ]);
    await stage.ready();
    await gate.declare({ tunneler: { enabled: true, mode: "tproxy" } });
    const script = `
      const [, effective] = /^CapEff:\\s*(\\w+)/m.exec(require("node:fs").readFileSync("/proc/1/status", "utf8"));
      const asked = { host: "10.99.0.1", port: 80, path: "/health-checks/live", rejectUnauthorized: false, timeout: 5000 };
      const request = require("node:https").get(asked, ({ statusCode }) => {
        console.log(process.getuid(), BigInt("0x" + effective).toString(2), statusCode);
        process.exit();
      });
      request.on("timeout", () => request.destroy());`;
    const seen = async () => {
      try {
        return (await stage.node("gate-0-0", "router", script)).trim();
      } catch {
        return "not yet";
      }
    };
    // NET_BIND_SERVICE is the bit 10, NET_ADMIN the bit 12.
    await stage.explain(expect.poll(seen, { timeout: 300_000, interval: 1_000 }).toBe("0 1010000000000 200"));
    await gate.current();
  });
});
