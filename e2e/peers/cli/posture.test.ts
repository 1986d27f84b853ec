import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

const HASH = "ab".repeat(64);
const SIGNER = "cd".repeat(20);

describe.skipIf(peer.isMissing)("OpenZiti's CLI administers posture", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;

  const listed = async (kind: string, filter?: string) =>
    new Map<unknown, Readonly<Record<string, unknown>>>(
      (await cli.listed(kind, filter)).map((entity) => [entity.name ?? entity.id, entity]),
    );
  const check = async (name: string) => (await listed("posture-checks", `name="${name}"`)).get(name);

  beforeAll(async () => {
    folder = makeScratch("posture-cli");
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  });

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  it("creates, shows, updates and deletes checks of domains", async () => {
    const create = ["create", "posture-check", "domain", "domains"];
    await cli.edge(...create, "-d", "a.example,b.example", "-a", "checks");
    expect(await check("domains")).toMatchObject({
      typeId: "DOMAIN",
      domains: expect.toSatisfy((given: string[]) => given.toSorted().join() === "a.example,b.example"),
      roleAttributes: ["checks"],
    });
    await cli.edge("update", "posture-check", "domain", "domains", "-d", "c.example", "-n", "renamed");
    expect(await check("renamed")).toMatchObject({ domains: ["c.example"], roleAttributes: ["checks"] });
    expect(await cli.edge("list", "posture-checks")).toContain("renamed");
    await cli.edge("delete", "posture-check", "renamed");
    expect(await check("renamed")).toBeUndefined();
  });

  it("creates and updates checks of addresses", async () => {
    await cli.edge("create", "posture-check", "mac", "macs", "-m", "01:23:45:67:89:ab,ff-ff-ff-ff-ff-ff");
    const made = (await check("macs"))?.macAddresses as string[];
    // The CLI keeps such lists as sets, and sends them in any order.
    expect(made.map((address) => address.replaceAll(/[:-]/g, "")).toSorted()).toEqual(["0123456789ab", "ffffffffffff"]);
    await cli.edge("update", "posture-check", "mac", "macs", "-a", "checks");
    expect(await check("macs")).toMatchObject({ typeId: "MAC", macAddresses: made, roleAttributes: ["checks"] });
  });

  it("creates and updates checks of systems", async () => {
    await cli.edge("create", "posture-check", "os", "systems", "-o", "Linux:>=5.4.0:<4.0.0,Windows");
    expect(await check("systems")).toMatchObject({
      typeId: "OS",
      operatingSystems: [
        { type: "Linux", versions: [">=5.4.0", "<4.0.0"] },
        { type: "Windows", versions: null },
      ],
    });
    await cli.edge("update", "posture-check", "os", "systems", "-o", "macOS:>=14.0.0");
    expect(await check("systems")).toMatchObject({ operatingSystems: [{ type: "macOS", versions: [">=14.0.0"] }] });
    await expect(cli.edge("create", "posture-check", "os", "bad", "-o", "Linux:five")).rejects.toThrow(/five/);
  });

  it("creates and updates checks of a process", async () => {
    const create = ["create", "posture-check", "process", "process", "Linux", "/usr/bin/av"];
    await cli.edge(...create, "-s", HASH, "-f", SIGNER);
    const process = { osType: "Linux", path: "/usr/bin/av", hashes: [HASH], signerFingerprint: SIGNER };
    expect(await check("process")).toMatchObject({ typeId: "PROCESS", process });
    const update = ["update", "posture-check", "process", "process"];
    await cli.edge(...update, "-o", "macOS", "-p", "/opt/av", "-s", HASH, "-f", SIGNER);
    expect(await check("process")).toMatchObject({ process: { osType: "macOS", path: "/opt/av" } });
  });

  it("creates checks of several processes", async () => {
    const create = ["create", "posture-check", "process-multi", "processes", "AnyOf", "Linux,macOS", "/a,/b"];
    await cli.edge(...create, "-s", `${HASH},${HASH}`, "-f", `${SIGNER},${SIGNER}`);
    expect(await check("processes")).toMatchObject({
      typeId: "PROCESS_MULTI",
      semantic: "AnyOf",
      processes: [
        { osType: "Linux", path: "/a", hashes: [HASH], signerFingerprints: [SIGNER] },
        { osType: "macOS", path: "/b", hashes: [HASH], signerFingerprints: [SIGNER] },
      ],
    });
  });

  it("creates and updates checks for one-time codes", async () => {
    await cli.edge("create", "posture-check", "mfa", "codes", "-s", "600", "-w", "-u", "--ignore-legacy");
    const made = { timeoutSeconds: 600, promptOnWake: true, promptOnUnlock: true, ignoreLegacyEndpoints: true };
    expect(await check("codes")).toMatchObject({ typeId: "MFA", ...made });
    await cli.edge("update", "posture-check", "mfa", "codes", "-s", "-1", "-z");
    expect(await check("codes")).toMatchObject({ ...made, timeoutSeconds: -1, promptOnWake: false });
  });

  it("lists types and attributes, and gives checks to policies", async () => {
    const types = await cli.edge("list", "posture-check-types");
    for (const type of ["OS", "PROCESS", "DOMAIN", "MAC", "PROCESS_MULTI"]) expect(types).toContain(type);
    expect(await cli.edge("list", "posture-check-role-attributes")).toContain("checks");
    const create = ["create", "service-policy", "gate", "Dial", "--identity-roles", "#all", "--service-roles", "#all"];
    await cli.edge(...create, "--posture-check-roles", "#checks,@codes");
    const policy = (await listed("service-policies")).get("gate");
    expect(policy).toMatchObject({
      postureCheckRolesDisplay: expect.arrayContaining([
        { role: "#checks", name: "#checks" },
        { role: expect.stringMatching(/^@/), name: "@codes" },
      ]),
    });
    const asked = await cli.edge("list", "service-policy", "posture-checks", "gate");
    for (const name of ["macs", "codes"]) expect(asked).toContain(name);
    await cli.edge("update", "service-policy", "gate", "--posture-check-roles", "@codes");
    expect(await cli.edge("list", "service-policy", "posture-checks", "gate")).not.toContain("macs");
    await expect(cli.edge("delete", "posture-check", "nothing of that name")).resolves.toBeDefined();
    for (const name of ["macs", "systems", "process", "processes", "codes"]) {
      await cli.edge("delete", "posture-check", name);
    }
    expect((await listed("posture-checks")).size).toBe(0);
  });
});
