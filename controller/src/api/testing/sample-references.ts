/** Entities of a test's controller that the samples of `field-samples.ts` refer to. */
import { ThirdParty } from "../../auth/testing/third-party.ts";
import { authPolicy } from "./auth-policy.ts";
import type { SampleReferences } from "./field-samples.ts";
import { registerCa } from "./registered-ca.ts";
import type { TestController } from "./test-controller.ts";

export async function sampleReferences(c: TestController): Promise<SampleReferences> {
  let count = 0;
  const authorities = await Promise.all(Array.from({ length: 12 }, (_, i) => ThirdParty.create(`authority ${i}`)));
  const certificate = (): string => authorities[count++ % authorities.length]?.certPem ?? "";
  const service = (name: string) => c.make("services", { name, encryptionRequired: true });
  const identity = await c.make("identities", { name: "identity", type: "Default", isAdmin: false });
  return {
    certificate,
    identity,
    fingerprint: () => (count++).toString(16).padStart(40, "a"),
    policy: await c.make("auth-policies", authPolicy("policy")),
    signer: await c.make("external-jwt-signers", {
      ...{ name: "signer", issuer: "https://signer.example", audience: "us", enabled: true },
      jwksEndpoint: "https://signer.example/jwks",
    }),
    ca: await registerCa(c, await ThirdParty.create("registered"), { name: "registered" }),
    service: await service("service"),
    otherService: await service("other service"),
    routerConfig: await c.make("configs", { name: "links", configTypeId: "router.link.v1", data: {} }),
    config: await c.make("configs", {
      ...{ name: "config", configTypeId: "NH5p4FpGR", data: { protocol: "tcp", address: "a", port: 1 } },
    }),
    router: await c.make("edge-routers", { name: "router" }),
    otherRouter: await c.make("edge-routers", { name: "other router" }),
    check: await c.make("posture-checks", { typeId: "MFA", name: "check" }),
  };
}
