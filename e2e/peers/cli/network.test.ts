import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

describe.skipIf(peer.isMissing)("OpenZiti's CLI administers our controller", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;

  /** What the CLI lists as JSON, by name. */
  const listed = async (kind: string, filter?: string) =>
    new Map<unknown, Readonly<Record<string, unknown>>>(
      (await cli.listed(kind, filter)).map((entity) => [entity.name ?? entity.id, entity]),
    );

  beforeAll(async () => {
    folder = makeScratch("cli");
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  });

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  it("refuses a wrong password", async () => {
    const anonymous = new PeerCli(peer.path, join(folder, "anonymous"));
    const attempt = anonymous.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", "not the password", "-y");
    await expect(attempt).rejects.toThrow(/INVALID_AUTH|401/);
  });

  it("creates, updates, enrolls and deletes an identity", async () => {
    const token = join(folder, "one.jwt");
    await cli.edge("create", "identity", "one", "-o", token, "-a", "first,second");
    expect((await listed("identities")).get("one")).toMatchObject({ roleAttributes: ["first", "second"] });
    await cli.edge("update", "identity", "one", "-a", "third", "-n", "renamed");
    expect((await listed("identities", 'name = "renamed"')).get("renamed")).toMatchObject({
      roleAttributes: ["third"],
    });

    // The CLI removes a token that it has used.
    const copy = join(folder, "copy.jwt");
    copyFileSync(token, copy);
    const file = join(folder, "one.json");
    await cli.edge("enroll", token, "-o", file);
    const identity = JSON.parse(readFileSync(file, "utf8")) as { id: Record<string, string> };
    expect(Object.keys(identity.id).sort()).toEqual(["ca", "cert", "key"]);
    await expect(cli.edge("enroll", copy, "-o", join(folder, "again.json"))).rejects.toThrow(
      /INVALID_ENROLLMENT_TOKEN|invalid/i,
    );
    expect(existsSync(join(folder, "again.json"))).toBe(false);

    await cli.edge("delete", "identity", "renamed");
    expect((await listed("identities")).has("renamed")).toBe(false);
  });

  it("creates, updates and deletes an edge router", async () => {
    await cli.edge("create", "edge-router", "spare", "-o", join(folder, "spare.jwt"), "-t", "-a", "public");
    expect((await listed("edge-routers")).get("spare")).toMatchObject({
      isOnline: false,
      isVerified: false,
      isTunnelerEnabled: true,
    });
    expect((await listed("identities", 'name = "spare"')).get("spare")).toMatchObject({ typeId: "Router" });
    await cli.edge("update", "edge-router", "spare", "-a", "private", "--cost", "100");
    expect((await listed("edge-routers")).get("spare")).toMatchObject({ roleAttributes: ["private"], cost: 100 });
    await cli.edge("re-enroll", "edge-router", "spare");
    await cli.edge("delete", "edge-router", "spare");
    expect((await listed("edge-routers")).has("spare")).toBe(false);
  });

  it("creates, updates and deletes configs, services, terminators and policies", async () => {
    await cli.edge("create", "config", "web-host", "host.v1", '{"protocol":"tcp","address":"127.0.0.1","port":8080}');
    await expect(cli.edge("create", "config", "bad", "host.v1", '{"protocol":"tcp"}')).rejects.toThrow();
    await cli.edge("update", "config", "web-host", "-d", '{"protocol":"tcp","address":"127.0.0.1","port":8081}');
    expect((await listed("configs")).get("web-host")).toMatchObject({ data: { port: 8081 } });

    await cli.edge("create", "service", "web", "-c", "web-host", "-a", "web", "-e", "ON");
    await cli.edge("update", "service", "web", "-a", "web,public");
    expect((await listed("services")).get("web")).toMatchObject({
      roleAttributes: expect.arrayContaining(["web", "public"]),
      encryptionRequired: true,
    });
    await expect(cli.edge("create", "service", "web")).rejects.toThrow(/web|unique|duplicate/i);

    await cli.edge("create", "terminator", "web", "r1", "tcp:127.0.0.1:8081", "--binding", "transport");
    const [terminator] = (await listed("terminators")).values();
    expect(terminator).toMatchObject({ address: "tcp:127.0.0.1:8081", binding: "transport" });
    await cli.edge("update", "terminator", String(terminator?.id), "--cost", "7");
    await cli.edge("delete", "terminator", String(terminator?.id));
    expect((await listed("terminators")).size).toBe(0);

    await cli.edge(
      "create",
      "service-policy",
      "web-dial",
      "Dial",
      "--identity-roles",
      "#clients",
      "--service-roles",
      "@web",
    );
    await cli.edge("update", "service-policy", "web-dial", "--identity-roles", "#all");
    expect((await listed("service-policies")).get("web-dial")).toMatchObject({ identityRoles: ["#all"], type: "Dial" });
    await cli.edge("create", "edge-router-policy", "all", "--identity-roles", "#all", "--edge-router-roles", "#all");
    await cli.edge("update", "edge-router-policy", "all", "--edge-router-roles", "#r1");
    await cli.edge(
      "create",
      "service-edge-router-policy",
      "all",
      "--service-roles",
      "#all",
      "--edge-router-roles",
      "#all",
    );
    await cli.edge("update", "service-edge-router-policy", "all", "--edge-router-roles", "#r1");

    await cli.edge("create", "identity", "dialer", "-a", "clients", "-o", join(folder, "dialer.jwt"));
    const advice = await cli.edge("policy-advisor", "identities", "-q");
    expect(advice).toMatch(/dialer.*web/s);

    await cli.edge("delete", "service-policy", "web-dial");
    await cli.edge("delete", "edge-router-policy", "all");
    await cli.edge("delete", "service-edge-router-policy", "all");
    await cli.edge("delete", "service", "web");
    await cli.edge("delete", "config", "web-host");
    await cli.edge("delete", "identity", "dialer");
    for (const kind of ["service-policies", "services", "configs"]) expect((await listed(kind)).has("web")).toBe(false);
  });
});
