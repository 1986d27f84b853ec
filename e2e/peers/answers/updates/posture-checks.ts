import { it } from "vitest";
import type { Both } from "../ask.ts";
import { get, patch, post, put, remove } from "../steps.ts";

export function postureCheckUpdates(both: () => Both): void {
  it("posture checks", async () => {
    const check = (typeId: string, more: object) => ({ name: `u-${typeId}`, typeId, ...more });
    const process = {
      osType: "Linux",
      path: "/bin/av",
      hashes: ["ab".repeat(64)],
      signerFingerprint: "cd".repeat(20),
    };
    await both().expectSame(
      post("/posture-checks", check("DOMAIN", { domains: ["a"], roleAttributes: ["c"] }), { keep: { domain: "id" } }),
      get("/posture-checks/{domain}"),
      post("/posture-checks", check("DOMAIN", { domains: ["a"] })),
      post("/posture-checks", check("DOMAIN", { name: "bad" })),
      post("/posture-checks", check("BOGUS", { domains: ["a"] })),
      post("/posture-checks", check("MAC", { macAddresses: ["0123456789ab"] }), { keep: { mac: "id" } }),
      get("/posture-checks/{mac}"),
      post("/posture-checks", check("OS", { operatingSystems: [{ type: "Linux", versions: [">=1.0.0"] }] }), {
        keep: { os: "id" },
      }),
      get("/posture-checks/{os}"),
      post("/posture-checks", check("OS", { name: "bad", operatingSystems: [{ type: "Bogus" }] })),
      post("/posture-checks", check("PROCESS", { process }), { keep: { process: "id" } }),
      get("/posture-checks/{process}"),
      post("/posture-checks", check("PROCESS", { name: "bad", process: { path: "/x" } })),
      post("/posture-checks", check("MFA", { timeoutSeconds: 60, promptOnWake: true }), { keep: { mfa: "id" } }),
      get("/posture-checks/{mfa}"),
      patch("/posture-checks/{domain}", { typeId: "DOMAIN", domains: ["b", "c"], tags: { k: "v" } }),
      get("/posture-checks/{domain}"),
      patch("/posture-checks/{domain}", { typeId: "DOMAIN", roleAttributes: null }),
      get("/posture-checks/{domain}"),
      put("/posture-checks/{mac}", { name: "u-mac-2", typeId: "MAC", macAddresses: ["ab:cd:ef:01:23:45"] }),
      get("/posture-checks/{mac}"),
      patch("/posture-checks/nowhere", { typeId: "DOMAIN", domains: ["b"] }),
      get("/posture-checks?filter=typeId%3D%22MFA%22"),
      get("/posture-check-role-attributes"),
      ...["domain", "mac", "os", "process", "mfa"].map((name) => remove(`/posture-checks/{${name}}`)),
      remove("/posture-checks/{mfa}"),
    );
  });
}
