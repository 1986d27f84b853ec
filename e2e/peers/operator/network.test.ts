/** A Network whose controller is OpenZiti's: trusted by its authority's fingerprint, entered by password, lost and found again. */
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { x509 } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { networkReconciler } from "../../../operator/src/kinds/network/reconcile.ts";
import { overlayServiceReconciler } from "../../../operator/src/kinds/overlay-service/reconcile.ts";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS } from "../../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { type PeerController, startPeerController } from "../../network/openziti/peer-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

const reconcilers = [
  networkReconciler({ controllerImage: "unused", times: { refusedLoginMs: 300 } }),
  overlayServiceReconciler,
] as unknown as KindReconciler[];

describe.skipIf(peer.isMissing)("a Network with OpenZiti's controller", () => {
  let scratch: string;
  let t: TestOperator;
  let network: PeerController;
  let url: string;

  beforeAll(async () => {
    scratch = makeScratch("operator-peer-network");
    network = await startPeerController(peer.path, join(scratch, "controller"));
    url = `https://localhost:${network.port}`;
    t = await startOperator({ reconcilers, patienceMs: 60_000 });
  });

  afterAll(async () => {
    await t?.close();
    await network?.controller.stop();
    if (scratch !== undefined) removeScratch(scratch);
  });

  function putPassword(password: string): void {
    const data = { username: "admin", password };
    const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
    t.server.put(KINDS.Secret, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "admin", namespace: "default" },
      data: Object.fromEntries(encoded),
    });
  }

  /** As an administrator who sets up the Network would: from the CA store, compared by other means. */
  function fingerprints(): string[] {
    const answer = execFileSync("curl", ["-sk", `${url}/edge/client/v1/.well-known/est/cacerts`], {
      encoding: "latin1",
    });
    const found = new x509.X509Certificates(Buffer.from(answer, "base64"));
    return found.map(({ rawData }) => new X509Certificate(Buffer.from(rawData)).fingerprint256);
  }

  test("is entered by password, and serves a resource", async () => {
    const [fingerprint] = fingerprints();
    putPassword("admin");
    await t.apply("Network", "peer", {
      external: {
        endpoints: [`${url}/edge/management/v1`],
        caBundle: null,
        bootstrapTrust: { fingerprint },
        auth: { certificateSecretRef: null, passwordSecretRef: { name: "admin" } },
      },
    });
    const { status } = await t.ready("Network", "peer");
    expect(status).toMatchObject({ serverVersion: expect.stringMatching(/^v1\./), sessionIdentity: "Default Admin" });
    await t.apply("OverlayService", "web", { networkRef: { name: "peer" } });
    await t.ready("OverlayService", "web");
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("refuses a wrong password, and takes the right one again", async () => {
    putPassword("wrong");
    const { status } = await t.ready("Network", "peer", "False", "NetworkUnauthorized");
    expect(conditionOf(status.conditions, "Connected")?.status).toBe("True");
    putPassword("admin");
    await t.ready("Network", "peer");
  });
});
