import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { NoClusterError } from "../tools.ts";
import { AttachedCluster } from "./attached.ts";
import { limits } from "./container/podman.ts";
import { dockerSocket } from "./docker.ts";
import { UnableError, WAYS } from "./handle.ts";
import { kindConfig } from "./kind.ts";
import { openCluster, wayOf } from "./open.ts";

describe("the way to a cluster", () => {
  test("is what E2E_CLUSTER names, and the machine's namespaces when it names none", () => {
    expect(WAYS.map((name) => wayOf({ E2E_CLUSTER: name }))).toEqual(WAYS);
    expect([wayOf({}), wayOf({ E2E_CLUSTER: "" })]).toEqual(["local", "local"]);
  });

  test("that is none is refused with those that there are", async () => {
    await expect(openCluster("minikube")).rejects.toThrow(
      "expected E2E_CLUSTER to be one of local, container, kind, k3s, existing, got minikube",
    );
  });

  describe("on a machine that has not got what it needs", () => {
    let folder: string;
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), "sallyport-ways-"));
      vi.stubEnv("DOCKER_HOST", `unix://${folder}/none.sock`);
      vi.stubEnv("KUBECONFIG", "");
    });
    afterEach(() => {
      vi.unstubAllEnvs();
      rmSync(folder, { recursive: true, force: true });
    });
    const program = (name: string, text: string) =>
      writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    const refusal = async (way: string) => {
      const error = await openCluster(way).then(
        () => undefined,
        (found: unknown) => found,
      );
      expect(error).toBeInstanceOf(NoClusterError);
      return error instanceof Error ? error.message : "";
    };

    test("says what is missing: an engine", async () => {
      program("kind", "exit 1");
      program("kubectl", "exit 1");
      vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
      for (const way of ["kind", "k3s"])
        expect(await refusal(way)).toBe(
          `E2E_CLUSTER=${way} needs a Docker engine on this machine, and none answers: start it`,
        );
    });

    test("says what is missing: a kubeconfig, and a cluster that answers", async () => {
      expect(await refusal("existing")).toMatch(/needs KUBECONFIG/);
      program("kubectl", "echo refused >&2; exit 1");
      vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
      vi.stubEnv("KUBECONFIG", join(folder, "kubectl"));
      expect(await refusal("existing")).toMatch(/does not answer: refused$/);
    });

    test("an engine elsewhere is none: it has no folder of this machine", async () => {
      expect(await dockerSocket("tcp://198.51.100.1:2375")).toBeUndefined();
      expect(await dockerSocket(`unix://${folder}/none.sock`)).toBeUndefined();
    });
  });

  test("gives what it cannot do as an error that names the question to ask", async () => {
    const cluster = new AttachedCluster({
      ...{ way: "kind", kubeconfig: "", kubectl: "", folder: "", reachable: false, imagePrefix: "" },
      abilities: [],
    });
    expect(cluster.can("components")).toBe(false);
    await expect(cluster.stopComponent("etcd")).rejects.toThrow(UnableError);
    await expect(cluster.compact()).rejects.toThrow('ask can("compact") first');
  });
});

test("kind starts as many nodes as requested, one of which has the control plane", () => {
  const roles = (nodes: number) => (kindConfig(nodes) as { nodes: { role: string }[] }).nodes.map(({ role }) => role);
  expect([0, 1, 3].map(roles)).toEqual([["control-plane"], ["control-plane"], ["control-plane", "worker", "worker"]]);
});

test("containers are given no more than the process has itself", () => {
  const table = (files: string, processes: string) =>
    `Limit                     Soft Limit           Hard Limit           Units\nMax processes             ${processes}                ${processes}                processes\nMax open files            1024                 ${files}                files\n`;
  expect(limits(table("20000", "90000"))).toEqual({ files: 20_000, processes: 32_768 });
  expect(limits(table("unlimited", "500"))).toEqual({ files: 1_048_576, processes: 500 });
});
