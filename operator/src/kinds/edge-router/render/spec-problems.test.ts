import { describe, expect, test } from "vitest";
import { edgeRouter } from "../testing/edge-router.ts";
import { podProblems } from "./spec-problems.ts";

describe("what the pod is made for", () => {
  // biome-ignore format: a table
  test.each<[string, object, string]>([
    ["a container", { containers: [{ name: "x" }, { name: "router" }] }, "spec.template.spec.containers[1].name"],
    ["a first container", { initContainers: [{ name: "enroll" }] }, "spec.template.spec.initContainers[0].name"],
    ["a volume", { volumes: [{ name: "data" }] }, "spec.template.spec.volumes[0].name"],
    ["a mount", { volumeMounts: [{ name: "x", mountPath: "/etc/sallyport" }] }, "spec.template.spec.volumeMounts[0].mountPath"],
    ["a variable", { env: [{ name: "HOST_IP", value: "x" }] }, "spec.template.spec.env[0].name"],
  ])("may not lose %s to the template", (_name, spec, path) => {
    expect(podProblems(edgeRouter({ template: { spec } }))).toEqual([
      { path, message: expect.stringContaining("the operator's own") },
    ]);
  });

  const proxying = (proxyServices: readonly string[], more: object = {}) =>
    podProblems(edgeRouter({ ...more, tunneler: { enabled: true, mode: "proxy", proxyServices } }));

  test.each<[string, readonly string[], number, string]>([
    ["of the edge listener", ["web:3022"], 0, "port TCP 3022 is that of the edge listener (spec.edge.port)"],
    ["of the probes", ["db:5432", "web:8081"], 1, "port TCP 8081 is that of the probes"],
    ["of another service", ["a:80", "dns:80:udp", "b:80:tcp"], 2, "port TCP 80 is that of a:80"],
  ])("a service may not have the port %s", (_what, services, index, message) => {
    const path = `spec.tunneler.proxyServices[${index}]`;
    expect(proxying(services)).toEqual([{ path, message: `${message}: choose another` }]);
  });

  test("services may have the ports that others have of another protocol, and that others have left", () => {
    expect(proxying(["dns:53", "dns:53:udp", "x:3022:udp"])).toEqual([]);
    expect(proxying(["web:3022"], { edge: { port: 443 } })).toEqual([]);
  });
});
