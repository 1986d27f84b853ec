/** Interception in a pod, by the manifests of examples/sidecar-tproxy in a namespace of their own. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { ROOT } from "../root.ts";
import { hasCluster, Stage } from "../stage.ts";

const EXAMPLE = "examples/sidecar-tproxy";
/** Of other clusters than this one: what the manifest says, and README.md to put right. */
const WRITTEN_NAME_SERVER = "10.96.0.10";
/** More than ten times what a quiet machine needs. */
const PATIENCE_S = 300;
const PATIENCE_MS = PATIENCE_S * 1_000;

describe.skipIf(!hasCluster)(
  "a tunneler that intercepts, beside an application that knows nothing of the network",
  () => {
    let stage: Stage;

    beforeAll(async () => {
      stage = Stage.of("interception");
      const { cluster } = stage;
      const service = await cluster.get<{ spec: { clusterIP: string } }>("service", "kube-dns", "kube-system");
      const manifests = await cluster.kubectl(["kustomize", join(ROOT, EXAMPLE)]);
      await cluster.apply(
        manifests
          .replace(WRITTEN_NAME_SERVER, service.spec.clusterIP)
          .replaceAll("image: sallyport/", `image: ${cluster.imagePrefix}sallyport/`),
      );
      await stage.ready(PATIENCE_S);
      await stage.wait("condition=Available", "deployment/hello", PATIENCE_S);
      await stage.wait("condition=Available", "deployment/browser", PATIENCE_S);
    });
    afterAll(async () => await stage?.close());

    const browser = async (): Promise<string> => {
      const [pod = ""] = await stage.pods("app.kubernetes.io/name=browser");
      return pod;
    };

    test("finds the service by its name, at its own port", async () => {
      const answer = eventually("an answer", async () => await stage.fetchFrom(await browser(), 8080), PATIENCE_MS);
      expect(await stage.explain(answer)).toBe("the browser sees hello from the overlay\n");
    });

    test("leaves the other names to the cluster, and the application without a right", async () => {
      const script = `
      const { lookup } = require("dns").promises;
      const { readFileSync } = require("fs");
      const status = readFileSync("/proc/self/status", "utf8");
      const [, uid] = /^Uid:\\t(\\d+)/m.exec(status);
      const [, rights] = /^CapEff:\\t(\\w+)/m.exec(status);
      Promise.all(["hello.quickstart", "main-controller.interception.svc", "main-controller"].map((name) => lookup(name)))
        .then((found) => console.log(JSON.stringify({ uid, rights, found: found.map(({ address }) => address) })));`;
      const told = JSON.parse(await stage.node(await browser(), "browser", script));
      const { spec } = await stage.get<{ spec: { clusterIP: string } }>("service", "main-controller");
      expect(told).toEqual({
        uid: "65532",
        rights: "0000000000000000",
        found: [expect.stringMatching(/^100\.64\./), spec.clusterIP, spec.clusterIP],
      });
    });
  },
);
