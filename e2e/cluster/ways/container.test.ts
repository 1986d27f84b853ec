import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { run } from "../box/processes.ts";
import { POD_IMAGE } from "../images.ts";
import { hasCluster, NoClusterError } from "../tools.ts";
import type { ClusterHandle } from "./handle.ts";
import { attachCluster, openCluster } from "./open.ts";

const WEB = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: kept }
spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Mi } } }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
        - name: web
          image: ${POD_IMAGE}
          imagePullPolicy: Never
          args: [serve, ":8080", /]
          readinessProbe: { httpGet: { path: /name, port: 8080 }, periodSeconds: 1 }
          volumeMounts: [{ name: kept, mountPath: /kept }]
      volumes: [{ name: kept, persistentVolumeClaim: { claimName: kept } }]
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
`;

describe.skipIf(!hasCluster)("a cluster in a container", () => {
  let cluster: ClusterHandle | undefined;
  let obstacle: string | undefined;
  beforeAll(async () => {
    try {
      cluster = await openCluster("container", { nodes: 1 });
    } catch (error) {
      if (!(error instanceof NoClusterError)) throw error;
      obstacle = error.message;
      console.warn(`\n*** A CLUSTER IN A CONTAINER IS SKIPPED: ${obstacle}\n`);
    }
  }, 600_000);
  afterAll(async () => await cluster?.close());

  test("runs pods with volumes, which a Service leads to from here", async (context) => {
    if (cluster === undefined) return context.skip(obstacle);
    expect(cluster.reachable).toBe(true);
    await cluster.apply(WEB);
    await cluster.kubectl(["rollout", "status", "deployment/web", "--timeout=150s"]);
    const { spec } = await cluster.get<{ spec: { clusterIP: string } }>("service", "web");
    const name = await eventually(
      "the answer",
      async () => await (await fetch(`http://${spec.clusterIP}/name`)).text(),
    );
    expect(name).toMatch(/^web-/);
  });

  test("lets components be stopped and started by every process that knows it", async (context) => {
    if (cluster === undefined) return context.skip(obstacle);
    const attached = attachCluster(cluster.describe());
    await attached.stopComponent("kube-scheduler");
    await expect(attached.stopComponent("kube-scheduler")).rejects.toThrow("kube-scheduler does not run");
    await attached.startComponent("kube-scheduler");
    expect(await attached.compact()).toBeGreaterThan(0);
    expect(await attached.log("kube-scheduler")).not.toBe("");
  });

  test("leaves nothing", async (context) => {
    if (cluster === undefined) return context.skip(obstacle);
    const { folder } = cluster.describe();
    const { spec } = await cluster.get<{ spec: { clusterIP: string } }>("service", "kubernetes");
    const routes = async () => await run("ip", "route", "get", spec.clusterIP);
    expect(await routes()).toContain("spcluster");
    await cluster.close();
    expect(existsSync(folder)).toBe(false);
    expect(await routes()).not.toContain("spcluster");
  });
});
