/** A definition of a kind is taken away under the running operator and comes again; and a quota that leaves no room for a Secret. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { eventually } from "../../network/eventually.ts";
import { kindsServed } from "../kinds-served.ts";
import { hasCluster } from "../tools.ts";
import { PATIENCE_MS, type Running, readyOf, Scene } from "./scene.ts";

const NAMESPACE = "overlay";
const CRDS = join(import.meta.dirname, "..", "..", "..", "crds");
const SERVICES = "overlayservices.sallyport.dev";

describe.skipIf(!hasCluster)(
  "an operator, of whose cluster somebody changes more than resources",
  {
    timeout: 240_000,
  },
  () => {
    let scene: Scene;
    let controller: TestController;
    let operator: Running;

    beforeAll(async () => {
      [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
      await scene.place(NAMESPACE, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
      operator = await scene.run();
      await scene.ready(NAMESPACE, "Network", "main");
    });
    afterAll(async () => {
      await scene?.close();
      await controller?.close();
    });

    const services = async (): Promise<string[]> => {
      const { json } = await controller.admin("GET", "/services");
      return (json.data as { readonly name: string }[]).map(({ name }) => name);
    };

    test("cleans up when a definition is deleted, goes on with the other kinds, and takes the kind up again when it is back", async () => {
      await scene.declare(NAMESPACE, "OverlayService", "web");
      await scene.ready(NAMESPACE, "OverlayService", "web");
      await scene.cluster.kubectl(["delete", "crd", SERVICES, "--timeout=60s"]);
      expect(await services()).toEqual([]);

      await eventually(
        "the operator says that it does not hear of the kind",
        async () => (await operator.page("/readyz")).includes("overlayservices"),
        PATIENCE_MS,
      );
      await scene.declare(NAMESPACE, "Identity", "meanwhile");
      await scene.ready(NAMESPACE, "Identity", "meanwhile");

      await scene.cluster.kubectl(["apply", "--server-side", "-k", CRDS]);
      await kindsServed(scene.cluster, [SERVICES]);
      await scene.declare(NAMESPACE, "OverlayService", "again");
      await scene.ready(NAMESPACE, "OverlayService", "again");
      expect(await services()).toEqual(["again"]);
      await operator.ready(PATIENCE_MS);
      expect(operator.program.isRunning).toBe(true);
    });

    test("says that a quota leaves no room for a Secret, and goes on when there is room", async () => {
      await scene.cluster.kubectl(["create", "quota", "full", "--hard=secrets=0", "--namespace", NAMESPACE]);
      await scene.cluster.kubectl([
        ...["wait", "quota/full", "--for=jsonpath={.status.hard.secrets}=0", "--namespace", NAMESPACE, "--timeout=60s"],
      ]);
      await scene.declare(NAMESPACE, "Identity", "crowded");
      const refused = await scene.ready(NAMESPACE, "Identity", "crowded", "False", "ObjectRefused");
      expect(readyOf(refused)?.message).toContain("quota");
      await scene.cluster.kubectl(["delete", "quota", "full", "--namespace", NAMESPACE]);
      await scene.lookAgain(NAMESPACE, "Identity", "crowded");
      await scene.ready(NAMESPACE, "Identity", "crowded");
    });
  },
);
