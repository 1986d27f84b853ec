/** Certificates that live for minutes: those of identities in Secrets and those of routers are renewed, and nobody who uses them is started again. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RouterStatus } from "../../../operator/src/resources/edge-router.ts";
import { sample } from "../../../operator/src/resources/testing/samples.ts";
import type { SecretObject } from "../../../operator/src/secrets/secret-content.ts";
import { eventually } from "../../network/eventually.ts";
import { textOf } from "../../operator/identity-secrets.ts";
import { hasCluster, Stage } from "../stage.ts";

/**
 * They begin a minute before they are issued, and the visitor's are renewed in the middle: each is the only one that counts for half a
 * minute, which is long enough for a slow machine to look at it.
 */
const LIFE = "4m";
const PATIENCE_MS = 180_000;

/** Runs in a pod. Logs in by the certificate of an identity file; prints the status of the answer. */
const LOG_IN = `
const { request } = require("node:https");
const { ztAPI, id } = FILE;
const pem = (text) => text.replace(/^pem:/, "");
const url = new URL("/edge/client/v1/authenticate?method=cert", ztAPI);
const material = { cert: pem(id.cert), key: pem(id.key), ca: pem(id.ca), allowPartialTrustChain: true };
const headers = { "content-type": "application/json" };
const sent = request(url, { ...material, method: "POST", headers, timeout: 20000 }, (answer) => {
  console.log(answer.statusCode);
  answer.resume();
});
sent.on("timeout", () => sent.destroy(new Error("no answer")));
sent.end("{}");`;

describe.skipIf(!hasCluster)("certificates of a short life", { timeout: 600_000 }, () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open("certificates");
    const overrides = { certificates: { identity: LIFE, router: LIFE } };
    const network = sample("Network", { external: null, managed: { config: { overrides } } }, "main");
    await stage.apply({ ...network, metadata: { name: "main" } });
    await stage.applyFolder("examples/quickstart");
    const renewed = { enrollment: { output: "IdentitySecret", renewBefore: "5m" } };
    await stage.apply({ ...sample("Identity", renewed, "visitor"), metadata: { name: "visitor" } });
    await stage.ready(300);
    await stage.explained("wait", "--for=condition=Available", "deployments", "--all", "--timeout=300s");
  }, 600_000);
  afterAll(async () => await stage?.close(), 300_000);

  const secretOf = async (name: string) => await stage.get<SecretObject>("secret", name);
  const routers = async () =>
    ((await stage.get("edgerouter", "edge")).status as { routers?: RouterStatus[] }).routers ?? [];
  /** Status of a login by an identity file of a Secret. */
  async function logIn(file: string | undefined): Promise<number> {
    const [pod] = await stage.pods("app.kubernetes.io/name=hello");
    return Number(
      await stage.node(
        pod ?? "",
        "hello",
        LOG_IN.replace("FILE", () => file ?? "{}"),
      ),
    );
  }
  const containers = async (): Promise<string[]> => {
    const each = "{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}";
    return (await stage.kubectl("get", "pods", `--output=jsonpath={range .items[*]}${each}{"\\n"}{end}`)).split("\n");
  };
  const ends = (text: string | undefined): number => Date.parse(text ?? "");

  test("identities and routers get new ones in time; both of an identity let in for a while; a tunneler takes the new one", async () => {
    const [running, routersBefore] = [await containers(), await routers()];
    expect(routersBefore).toHaveLength(2);
    const client = (await stage.pods("app.kubernetes.io/name=hello-client"))[0] ?? "";

    // Where the Secret changes while its pods run: the new one is there, and the former one counts still.
    let before: string | undefined;
    const during = await stage.explain(
      eventually(
        "the visitor's is renewed",
        async () => {
          const secret = await secretOf("visitor-identity");
          if (textOf(secret, "former-identity.json") !== undefined) return before === undefined ? undefined : secret;
          before = textOf(secret, "identity.json");
          return undefined;
        },
        PATIENCE_MS,
      ),
    );
    const [former, next] = [textOf(during, "former-identity.json"), textOf(during, "identity.json")];
    expect(former).toBe(before);
    expect(next).not.toBe(before);
    expect([await logIn(former), await logIn(next)]).toEqual([200, 200]);
    const isConfirmed = async () => {
      const secret = await secretOf("visitor-identity");
      return textOf(secret, "former-identity.json") === undefined && textOf(secret, "identity.json") === next;
    };
    await stage.explain(eventually("the former one counts no more", isConfirmed, PATIENCE_MS));
    expect([await logIn(former), await logIn(next)]).toEqual([401, 200]);

    const renewed = "the identity was read again: it was renewed";
    await stage.explain(
      eventually(
        "the client's tunneler has read its new identity",
        async () => {
          // The kubelet looks at volumes when something of the pod changes, else about once a minute.
          await stage.kubectl("annotate", "--overwrite", `pod/${client}`, `example.org/looked-at=${Date.now()}`);
          return (await stage.kubectl("logs", client, "--container=tunnel")).includes(renewed);
        },
        PATIENCE_MS,
      ),
    );
    await stage.explain(
      eventually(
        "both routers have later certificates",
        async () =>
          (await routers()).every(
            ({ certificateNotAfter }, i) => ends(certificateNotAfter) > ends(routersBefore[i]?.certificateNotAfter),
          ),
        PATIENCE_MS,
      ),
    );
    expect(await stage.fetchFrom(client, 8080)).toBe("hello from the overlay\n");
    await stage.ready(300);
    expect((await routers()).map(({ online, id }) => [online, id])).toEqual(routersBefore.map(({ id }) => [true, id]));
    expect(await containers()).toEqual(running);
    const notAfter = (await stage.get("secret", "visitor-identity")).metadata.annotations;
    expect(ends(notAfter?.["sallyport.dev/certificate-not-after"])).toBeGreaterThan(Date.now());
  });
});
