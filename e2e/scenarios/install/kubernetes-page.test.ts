/** The commands of docs/start/kubernetes.md, followed line by line on a fresh cluster. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toolPath } from "../../charts/helm.ts";
import type { ClusterHandle } from "../../cluster/ways/handle.ts";
import { openCluster, wayOf } from "../../cluster/ways/open.ts";
import { programArchives } from "../../images/program-archives.ts";
import { ROOT, VERSION } from "../root.ts";
import { canOpenCluster } from "../run-cluster.ts";

/** The blocks of commands, in their order. */
const [onThisMachine, quickstart, removal, elsewhere, ...more] = commandBlocks(
  readFileSync(join(ROOT, "docs/start/kubernetes.md"), "utf8"),
);

describe.skipIf(!canOpenCluster)("the page on Kubernetes", { timeout: 600_000 }, () => {
  let cluster: ClusterHandle;

  beforeAll(async () => {
    const images = await programArchives(join(ROOT, "dist", "images"));
    cluster = await openCluster(wayOf(process.env), { nodes: 1, images });
  }, 600_000);
  afterAll(async () => await cluster?.close(), 300_000);

  /** What the lines print, in one shell, which ends with the first that fails; what they leave running ends with it. */
  async function follow(lines: readonly string[]): Promise<string> {
    const { kubectl, kubeconfig } = cluster.describe();
    const folders = [dirname(kubectl), dirname(toolPath("helm")), process.env.PATH];
    const shell = spawn("bash", ["-euo", "pipefail", "-c", lines.join("\n")], {
      cwd: ROOT,
      env: { ...process.env, KUBECONFIG: kubeconfig, PATH: folders.join(delimiter) },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    try {
      const said = Promise.all([text(shell.stdout), text(shell.stderr)]);
      const [code] = (await once(shell, "exit")) as [number | null];
      endGroup(shell.pid);
      const [stdout, stderr] = await said;
      expect(code, `${stdout}\n${stderr}`).toBe(0);
      return stdout;
    } finally {
      endGroup(shell.pid);
    }
  }

  test("has the blocks that are followed here", () => {
    // The cluster of this test stands for the one that these lines start.
    expect(onThisMachine).toEqual(["make images", "make cluster", 'eval "$(make -s cluster)"']);
    expect(removal?.at(-1)).toBe("make cluster-down");
    expect(elsewhere).toHaveLength(2);
    expect(more).toEqual([]);
  });

  test("ends in a service that answers", async () => {
    const port = await freePort();
    // Tests run beside others, so the port is another one.
    const lines = quickstart!.map((line) =>
      line
        .replace("deployment/hello-client 8080", `deployment/hello-client ${port}:8080`)
        .replace(":8080/", `:${port}/`),
    );
    expect(lines.join("\n")).not.toBe(quickstart!.join("\n"));
    const began = performance.now();
    const printed = await follow(lines);
    console.log(
      JSON.stringify({ scenario: "kubernetes page", seconds: Math.round((performance.now() - began) / 100) / 10 }),
    );
    expect(printed).toMatch(/Phase:\s+Succeeded/);
    expect(printed).toMatch(/edgerouter\.sallyport\.dev\/edge +True +Online/);
    expect(printed).toMatch(/hello from the overlay\n$/);
  });

  test("on clusters with a registry: an API server takes what would be applied there", async () => {
    const registry = "registry.example.com/team/";
    const [install, network] = elsewhere!;
    const rendered = await follow([
      install!.replace("helm install", "helm template").replace(" --create-namespace --wait", ""),
    ]);
    const images = [...rendered.matchAll(/(?:image|_IMAGE\n +value): "?([^"\n]+)/g)];
    expect(images.length).toBeGreaterThan(2);
    for (const [, image] of images) expect(image).toContain(registry);
    const shown = await follow([network!.replace(/ \| kubectl apply -f -$/, "")]);
    expect(shown.match(/image: .*/g)).toEqual(Array(3).fill(`image: ${registry}sallyport/tunnel:${VERSION}`));
    const dryRun = ["apply", "--dry-run=server", "--filename=-"];
    const operator = await cluster.kubectl(
      [...dryRun, "--server-side", "--namespace=sallyport-system", "--force-conflicts"],
      rendered,
    );
    expect(operator).toMatch(/deployment\.apps\/sallyport-operator serverside-applied \(server dry run\)/);
    expect(await cluster.kubectl(dryRun, shown)).toMatch(
      /deployment\.apps\/hello-client configured \(server dry run\)/,
    );
  });

  test("and is removed as it came", async () => {
    await follow(removal!.slice(0, -1));
    const left = await cluster.kubectl(["get", "namespaces", "--output=name"]);
    expect(left).not.toContain("namespace/quickstart");
    const ofSystem = () => cluster.kubectl(["get", "all,secrets", "--namespace=sallyport-system", "--output=name"]);
    await expect.poll(ofSystem, { timeout: 120_000, interval: 1_000 }).toBe("");
  });
});

/** The blocks of commands on a page, without their comments. */
function commandBlocks(page: string): string[][] {
  return [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, block = ""]) =>
    block
      .split("\n")
      .map((line) => line.replace(/\s+#.*$/, ""))
      .filter((line) => line !== ""),
  );
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGTERM");
  } catch {
    // They have ended.
  }
}
