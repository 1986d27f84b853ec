import { sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

const { path: binary, version, isMissing } = peer.generation2;
const isBefore21 = version.startsWith("v2.0.");
const UNAUTHORIZED = /401|UNAUTHORIZED/i;
const PASSWORD = "a-long-password";

describe.skipIf(isMissing)(`the CLI of OpenZiti ${version} (OPENZITI2) on our controller`, { timeout: 60_000 }, () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;

  const path = (name: string): string => join(folder, name);
  /** A CLI with a login of its own. */
  const other = (name: string): PeerCli => new PeerCli(binary, path(`cli-of-${name}`));
  const login = (of: PeerCli, ...args: string[]): Promise<string> =>
    of.edge("login", `localhost:${network.port}`, ...args, "-y");
  const loginAsAdmin = (of: PeerCli): Promise<string> => login(of, "-u", "admin", "-p", network.adminPassword);
  /** How a CLI is logged in: `oidc` or `legacy`. */
  const kindOf = (name: string): string => {
    const file = readFileSync(path(join(name, "cli", "ziti-cli.json")), "utf8");
    const { edgeIdentities } = JSON.parse(file) as { edgeIdentities: { default: { apiSession: { type: string } } } };
    return edgeIdentities.default.apiSession.type;
  };
  const one = async (kind: string, name: string) => (await cli.listed(kind, `name = "${name}"`))[0];
  /** An administrator with a user name, and a CLI that is logged in as it. */
  const administrator = async (name: string): Promise<{ id: string; cli: PeerCli; folder: string }> => {
    await cli.edge("create", "identity", name, "--admin");
    await cli.edge("create", "authenticator", "updb", name, name, PASSWORD);
    const of = other(name);
    await login(of, "-u", name, "-p", PASSWORD);
    return { id: String((await one("identities", name))?.id), cli: of, folder: `cli-of-${name}` };
  };

  beforeAll(async () => {
    folder = makeScratch("cli-generation-2");
    network = await startNetwork(path("network"), { login: "oidc" });
    cli = new PeerCli(binary, folder);
    await loginAsAdmin(cli);
  });

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  describe("logs in by OIDC", () => {
    it("with a password; a wrong one, or an unknown user, is refused", async () => {
      expect(kindOf("")).toBe("oidc");
      for (const [user, password] of [
        ["admin", "not the password"],
        ["unknown", network.adminPassword],
      ] as const) {
        await expect(login(other("wrong"), "-u", user, "-p", password)).rejects.toThrow(UNAUTHORIZED);
      }
      expect(existsSync(path("cli-of-wrong/cli/ziti-cli.json"))).toBe(false);
    });

    it("with a token of an external signer", async () => {
      const issued = await (await TestAuthority.create("issuer")).issue({ commonName: "token signing" });
      writeFileSync(path("signer.pem"), issued.certPem);
      const signer = ["create", "ext-jwt-signer", "pinned", "https://pinned.example", "-a", "cli", "-k", "key"];
      await cli.edge(...signer, "-f", path("signer.pem"), "-x");
      await cli.edge("create", "identity", "by-token", "--external-id", "me@example.org", "--admin");
      const token = (sub: string): string => {
        const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
        const exp = Math.floor(Date.now() / 1_000) + 300;
        const claims = { iss: "https://pinned.example", aud: "cli", sub, exp };
        const signed = `${part({ alg: "ES256", kid: "key", typ: "JWT" })}.${part(claims)}`;
        const key = { key: issued.keyPem, dsaEncoding: "ieee-p1363" } as const;
        const file = path("token.jwt");
        writeFileSync(file, `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`);
        return file;
      };
      const of = other("by-token");
      await login(of, "--ext-jwt", token("me@example.org"));
      expect(kindOf("cli-of-by-token")).toBe("oidc");
      expect(await of.edge("list", "identities", 'name = "by-token"')).toContain("by-token");
      await expect(login(of, "--ext-jwt", token("nobody@example.org"))).rejects.toThrow(UNAUTHORIZED);
    });

    it("with an identity file; its commands then come without the certificate, to which the session is bound", async () => {
      await cli.edge("create", "identity", "by-file", "--admin", "-o", path("by-file.jwt"));
      await cli.edge("enroll", path("by-file.jwt"), "-a", "EC", "-o", path("by-file.json"));
      const of = other("by-file");
      await login(of, "-f", path("by-file.json"));
      expect(kindOf("cli-of-by-file")).toBe("oidc");
      await expect(of.edge("list", "identities")).rejects.toThrow(UNAUTHORIZED);
    });

    it("and is not let in to the management API without being an administrator", async () => {
      await cli.edge("create", "identity", "user", "--permissions", "service.read");
      expect(await one("identities", "user")).toMatchObject({ isAdmin: false, permissions: ["service.read"] });
      await cli.edge("create", "authenticator", "updb", "user", "user-name", PASSWORD);
      const of = other("user");
      await login(of, "-u", "user-name", "-p", PASSWORD);
      await expect(of.edge("list", "services")).rejects.toThrow(UNAUTHORIZED);
    });
  });

  describe("ends logins", () => {
    it("by a revocation of an identity; it may log in again", async () => {
      const ended = await administrator("ended");
      await ended.cli.edge("list", "services");
      expect(await cli.edge("create", "revocation", "identity", ended.id)).toContain(ended.id);
      await expect(ended.cli.edge("list", "services")).rejects.toThrow(UNAUTHORIZED);
      expect(await cli.listed("revocations", 'type = "IDENTITY"')).toHaveLength(1);
      // Tokens have whole seconds: one of the same second as the revocation is one of before it.
      await eventually("a login after the revocation", async () => {
        await login(ended.cli, "-u", "ended", "-p", PASSWORD);
        return await ended.cli.edge("list", "services");
      });
    });

    it.each(["session", "token"])("by a revocation of a %s; the other logins of the identity go on", async (what) => {
      const name = `ended-${what}`;
      const first = await administrator(name);
      const second = other(`${name}-again`);
      await login(second, "-u", name, "-p", PASSWORD);
      const file = readFileSync(path(join(first.folder, "cli", "ziti-cli.json")), "utf8");
      const token = /"oidcAccessToken": "[^.]+\.([^.]+)\./.exec(file)?.[1] ?? "";
      const claims = JSON.parse(Buffer.from(token, "base64url").toString()) as { jti: string; z_asid: string };
      const [kind, id] = what === "session" ? ["api-session", claims.z_asid] : ["jti", claims.jti];
      await first.cli.edge("list", "services");
      await cli.edge("create", "revocation", kind, id);
      await expect(first.cli.edge("list", "services")).rejects.toThrow(UNAUTHORIZED);
      await second.edge("list", "services");
      expect((await cli.listed("revocations", "limit none")).map((each) => each.id)).toContain(id);
    });

    it("by deleting the session, and by logging out", async () => {
      const { id, cli: of } = await administrator("deleted");
      await cli.edge("delete", "api-session", "where", `identity = "${id}"`);
      await expect(of.edge("list", "services")).rejects.toThrow(UNAUTHORIZED);
      await login(of, "-u", "deleted", "-p", PASSWORD);
      await of.edge("list", "services");
      await of.edge("logout");
      await expect(of.edge("list", "services")).rejects.toThrow(/log in/);
    });
  });

  describe("administers what 2.x has", () => {
    it("config types with their targets", async () => {
      const types = new Map((await cli.listed("config-types", "limit none")).map(({ name, target }) => [name, target]));
      for (const name of ["interfaces.v1", "host-interfaces.v1", "proxy.v1", "l2.host.v1", "l2.intercept.v1"]) {
        expect(types.get(name), name).toBe("service");
      }
      expect(types.get("router.link.v1")).toBe("router");
    });

    // The CLI of 2.0 has no flags for them.
    it.skipIf(isBefore21)("config types with a target, and configs of routers", async () => {
      const configsOfR1 = async () => (await one("edge-routers", "r1"))?.configs;
      await cli.edge("create", "config-type", "places", '{"type":"object"}', "--target", "router");
      await cli.edge("create", "config", "here", "places", '{"rack":7}');
      await cli.edge("update", "edge-router", "r1", "--config", "here");
      expect(await configsOfR1()).toEqual([(await one("configs", "here"))?.id]);
      await expect(cli.edge("create", "service", "misplaced", "--configs", "here")).rejects.toThrow(/400|config/);
      await cli.edge("delete", "config", "here");
      expect(await configsOfR1()).toBeNull();
      await cli.edge("delete", "config-type", "places");
    });

    it("signers that enroll identities", async () => {
      const create = ["create", "ext-jwt-signer", "jit", "https://idp.example", "-u", "https://idp.example/jwks"];
      const selectors = ["--enroll-name-claims-selector", "/name", "--enroll-attr-claims-selector", "/roles"];
      await cli.edge(...create, "-a", "aud", "--enroll-to-cert", "--enroll-to-token", ...selectors);
      expect(await one("ext-jwt-signers", "jit")).toMatchObject({
        ...{ enrollToCertEnabled: true, enrollToTokenEnabled: true },
        ...{ enrollNameClaimsSelector: "/name", enrollAttributeClaimsSelector: "/roles" },
      });
      await cli.edge("update", "ext-jwt-signer", "jit", "--enroll-to-cert=false");
      expect(await one("ext-jwt-signers", "jit")).toMatchObject({ enrollToCertEnabled: false });
      await cli.edge("delete", "ext-jwt-signer", "jit");
    });

    it("routers with addresses for controllers, and transit routers", async () => {
      const listener = ["--bootstrap-ctrl-chan-listener", "tls:127.0.0.1:6262=group"];
      await cli.edge("create", "edge-router", "reachable", ...listener, "-a", "far");
      expect(await one("edge-routers", "reachable")).toMatchObject({ roleAttributes: ["far"] });
      await cli.edge("update", "edge-router", "reachable", "-a", "near");
      expect(await cli.edge("list", "edge-router-role-attributes")).toContain("near");
      await cli.edge("delete", "edge-router", "reachable");
      await cli.edge("create", "transit-router", "on-the-way", "--cost", "7");
      expect(await one("transit-routers", "on-the-way")).toMatchObject({ cost: 7 });
      await cli.edge("delete", "transit-router", "on-the-way");
    });

    it("services, policies found by the name of their kind, and what a policy allows", async () => {
      await cli.edge("create", "identity", "dialer", "-a", "dialers");
      await cli.edge("create", "service", "web", "-a", "web");
      for (const kind of ["Dial", "Bind"]) {
        const roles = ["--identity-roles", "#dialers", "--service-roles", "#web", "--semantic", "AnyOf"];
        await cli.edge("create", "service-policy", `web-${kind}`, kind, ...roles);
        const found = await cli.listed("service-policies", `type = "${kind}"`);
        expect(found.map(({ name }) => name)).toEqual([`web-${kind}`]);
      }
      expect(await cli.edge("policy-advisor", "identities", "dialer", "web")).toContain("web");
      expect(await cli.edge("list", "services", "--as-identity", "dialer")).toContain("web");
      expect(await cli.edge("list", "identity-role-attributes")).toContain("dialers");
      expect(await cli.edge("list", "summary")).toMatch(/revocations +│ +\d/);
      await cli.edge("delete", "service-policy", "where", "true");
      await cli.edge("delete", "service", "web");
    });
  });

  describe("looks into the fabric", () => {
    it("lists routers, links and controllers", async () => {
      const names = (await cli.fabricListed("routers")).map(({ name }) => name);
      expect(names.sort()).toEqual(["r1", "r2"]);
      expect((await cli.fabricListed("links")).length).toBeGreaterThan(0);
      // The members of a cluster: a single controller has none.
      expect(await cli.fabricListed("controllers")).toEqual([]);
      expect(await cli.edge("version")).toContain("Version");
    });

    it.each(["circuits", "identity-connection-statuses", "router-data-model", "router-ert-terminators"])(
      "validates %s",
      async (kind) => {
        const validate = () => cli.run("fabric", "validate", kind);
        expect(await eventually("an answer without errors", validate)).toMatch(/\b0 errors found/);
      },
    );

    it.each(["router-links", "router-sdk-terminators"])("validates %s", async (kind) => {
      expect(await cli.run("fabric", "validate", kind)).toMatch(/validation of 2 routers[\s\S]*\b0 errors found/);
    });

    it("inspects routers", async () => {
      for (const kind of [
        "config",
        "links",
        "metrics",
        "router-circuits",
        "router-sdk-circuits",
        "router-data-model",
      ]) {
        expect(await cli.run("fabric", "inspect", kind), kind).toMatch(/Results: \([1-9]\d*\)/);
      }
    });

    it.each([["--all"], ["--alerts", "--api-sessions"]])("streams events: %s", async (...flags) => {
      const args = ["fabric", "stream", "events", ...flags];
      const stream = new Program({ name: "events", command: binary, args, env: cli.env });
      try {
        const of = other("streamed");
        await stream.ready("an event of a login", async () => {
          await loginAsAdmin(of);
          return stream.tail.some((line) => line.includes('"namespace":"apiSession"'));
        });
      } finally {
        await stream.stop();
      }
    });
  });

  it("says what is not served", async () => {
    await expect(cli.run("fabric", "validate", "controller-dialers")).rejects.toThrow(
      /controllers of Sallyport do not dial routers/,
    );
    for (const args of [["list"], ["add", "tls:localhost:1"], ["remove", "other"], ["transfer-leadership"]]) {
      await expect(cli.run("ops", "cluster", ...args), args[0]).rejects.toThrow(/cluster\w+BadRequest|status 400/);
    }
    for (const kind of ["ctrl-dialer", "cluster-config"]) {
      expect(await cli.run("fabric", "inspect", kind), kind).toContain("Results: (0)");
    }
  });

  it("logs in by the old way when OIDC is turned off; what it has ended with it", { timeout: 120_000 }, async () => {
    await network.changeLogin("legacy");
    await expect(cli.edge("list", "services")).rejects.toThrow(UNAUTHORIZED);
    const of = other("old");
    await expect(login(of, "-u", "admin", "-p", "not the password")).rejects.toThrow(UNAUTHORIZED);
    await loginAsAdmin(of);
    expect(kindOf("cli-of-old")).toBe("legacy");
    await of.edge("create", "service", "old");
    expect(await of.edge("list", "services")).toContain("old");
    await login(of, "-f", path("by-file.json"));
    expect(await of.edge("list", "identities", 'name = "by-file"')).toContain("by-file");
    await eventually("links of routers that are back", async () => (await of.fabricListed("links")).length > 0);
    await of.edge("logout");
    await expect(of.edge("list", "services")).rejects.toThrow(/log in/);
  });
});
