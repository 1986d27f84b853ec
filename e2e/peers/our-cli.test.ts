import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { enroll } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli, type CliResult } from "../network/cli.ts";
import { type PeerController, startPeerController } from "../network/openziti/peer-network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

describe.skipIf(peer.isMissing)("our command line on OpenZiti's controller", () => {
  let folder = "";
  let theirs: PeerController;
  let cli: Cli;

  beforeAll(async () => {
    folder = makeScratch("cli-on-peer");
    theirs = await startPeerController(peer.path, join(folder, "network"));
    cli = await Cli.packed(folder);
    writeFileSync(join(folder, "password"), "admin\n", { mode: 0o600 });
    const url = `https://localhost:${theirs.port}`;
    const refused = await cli.run("login", url, "-u", "admin", "--password-file", join(folder, "password"));
    const [, fingerprint = ""] = /SHA-256 ([0-9A-F:]+)/.exec(refused.errors) ?? [];
    const trusted = ["--password-file", join(folder, "password"), "--fingerprint", fingerprint];
    await cli.done("login", url, "-u", "admin", ...trusted);
  });

  afterAll(async () => {
    await theirs?.controller.stop();
    removeScratch(folder);
  });

  it("logs in with the fingerprint that is shown, and says who one is", async () => {
    expect(JSON.parse(await cli.done("whoami", "-o", "json"))).toMatchObject({ isAdmin: true });
  });

  it("gets every kind that their API has", async () => {
    const rows = (await cli.done("explain")).split("\n").slice(1, -1);
    const results = new Map<string, CliResult>();
    for (const kind of rows.map((row) => row.split(" ", 1)[0] ?? ""))
      results.set(kind, await cli.run("get", kind, "-o", "wide"));
    const refused = [...results].filter(([, { code }]) => code !== 0).map(([kind, { errors }]) => `${kind}: ${errors}`);
    // A list of OpenZiti's 2.x.
    expect(refused).toEqual([expect.stringMatching(/^revocation: .*does not serve revocations: 'sallyport version'/)]);
  });

  it("creates, changes, describes and deletes entities with others by name", async () => {
    await cli.done("create", "service", "web", "--role-attributes", "public");
    const roles = ["--service-roles", "@web", "--identity-roles", "#clients"];
    await cli.done("create", "service-policy", "dial", "--type", "Dial", "--semantic", "AnyOf", ...roles);
    expect(await cli.done("get", "sp", "dial")).toMatch(/^dial +Dial +AnyOf +#clients +@web +-$/m);
    await cli.done("patch", "service", "web", "--role-attributes", "private");
    expect(await cli.done("describe", "service", "web")).toMatch(/^Role attributes: +#?private$/m);
    const listed = await theirs.cli.listed("services", 'name = "web"');
    expect(listed).toMatchObject([{ roleAttributes: ["private"] }]);
    await cli.done("delete", "sp", "dial", "--yes");
    expect(await theirs.cli.listed("service-policies", 'name = "dial"')).toEqual([]);
  });

  it("makes an identity whose token enrolls, and logs in with its file", async () => {
    const text = "jsonpath=$.enrollment.ott.jwt";
    const jwt = await cli.done("create", "identity", "robot", "--is-admin", "--enrollment-ott", "-o", text);
    const file = join(folder, "robot.json");
    writeFileSync(file, JSON.stringify(await enroll(jwt.trim())), { mode: 0o600 });
    expect(await cli.done("login", "--identity", file, "-n", "robot")).toContain("as robot");
    expect(await cli.done("get", "services", "-o", "name")).toBe("service/web\n");
    await cli.done("networks", "use", `localhost-${theirs.port}`);
  });

  it("applies files, finds nothing to change afterwards, and prunes by label", async () => {
    const declare = (kind: string, name: string, spec: object) =>
      JSON.stringify({
        ...{ apiVersion: "sallyport.dev/v1alpha1", kind, spec },
        metadata: { name, labels: { team: "red" } },
      });
    const ref = (name: string) => [{ name }];
    const certs = declare("AuthPolicy", "f-certs", { primary: { cert: { allowExpiredCerts: true } } });
    const documents = [
      certs,
      declare("ServiceConfig", "f-host", {
        ...{ type: "host.v1", data: { protocol: "tcp", address: "localhost", port: 80 } },
      }),
      declare("OverlayService", "f-web", { configRefs: ref("f-host"), roleAttributes: ["b", "a"] }),
      declare("EdgeRouter", "f-eu", { replicas: 2, cost: 3 }),
      declare("Identity", "f-laptop", {
        ...{ type: "Device", authPolicyRef: { name: "f-certs" }, disabled: true, roleAttributes: ["clients"] },
        ...{ serviceConfigs: [{ serviceRef: { name: "f-web" }, configRef: { name: "f-host" } }] },
      }),
      declare("PostureCheck", "f-linux", { operatingSystem: { operatingSystems: [{ type: "Linux" }] } }),
      declare("PostureCheck", "f-code", { mfa: { timeoutSeconds: 60 } }),
      declare("ServicePolicy", "f-dial", {
        ...{ type: "Dial", semantic: "AnyOf", identityRefs: ref("f-laptop"), serviceRefs: ref("f-web") },
        postureCheckRefs: [...ref("f-linux"), ...ref("f-code")],
      }),
      declare("EdgeRouterPolicy", "f-all", { semantic: "AnyOf", edgeRouterRefs: ref("f-eu"), identityRoles: ["#all"] }),
      declare("ServiceEdgeRouterPolicy", "f-all", {
        ...{ semantic: "AnyOf", edgeRouterRoles: ["#all"], serviceRefs: ref("f-web") },
      }),
    ];
    const given = (input: string, ...args: string[]) => cli.runWith({ input }, ...args, "-f", "-");
    const file = documents.join("\n---\n");
    expect(await given(file, "apply")).toMatchObject({ code: 0, errors: "11 created\n" });
    expect(await given(file, "apply")).toMatchObject({ code: 0, output: "", errors: "11 unchanged\n" });
    const changed = file.replace('"cost":3', '"cost":4').replace('"disabled":true', '"disabled":false');
    expect(await given(changed, "apply")).toMatchObject({ code: 0, errors: "3 changed, 8 unchanged\n" });
    expect(await given(changed, "diff")).toEqual({ code: 0, output: "", errors: "" });
    const printed = await cli.run("export");
    expect(printed.code).toBe(0);
    expect(await given(printed.output, "diff")).toMatchObject({ code: 0, output: "" });
    const pruned = await given(certs, "apply", "--prune", "-l", "team=red", "--yes");
    expect(pruned).toMatchObject({ code: 0, errors: "10 deleted, 1 unchanged\n" });
  });

  it("says what their API does not have", async () => {
    const asked = await cli.run("why", "robot", "web");
    expect(asked).toMatchObject({
      code: 1,
      output: "",
      errors: expect.stringContaining("knows both, but cannot say why"),
    });
    const misspelt = await cli.run("why", "robot", "wbe");
    expect(misspelt).toMatchObject({ code: 3, output: "", errors: expect.stringContaining("did you mean 'web'?") });
  });

  it("completes their names", async () => {
    const words = await cli.done("__complete", "describe", "service", "w");
    expect(words).toContain("web");
  });
});
