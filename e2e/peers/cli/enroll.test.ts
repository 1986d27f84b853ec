import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ThirdParty } from "../../../controller/src/auth/testing/third-party.ts";
import { eventually } from "../../network/eventually.ts";
import { credentialsOf } from "../../network/login/identity-file.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

describe.skipIf(peer.isMissing)(
  "OpenZiti's programs enroll on our controller, also while its authority is rotated",
  () => {
    let folder = "";
    let network: Network;
    let cli: PeerCli;
    let router: Program;
    let authority: ThirdParty;

    const path = (name: string) => join(folder, name);
    const save = (name: string, text: string): string => {
      writeFileSync(path(name), text, { mode: 0o600 });
      return path(name);
    };
    const identityNamed = async (name: string) => {
      const { data } = await network.management.listIdentities({ query: { filter: `name = "${name}"` } });
      return data[0];
    };
    const jwtOf = async (name: string, method = "ott"): Promise<string> => {
      const id = (await identityNamed(name))?.id ?? "";
      const { data } = await network.management.getIdentityEnrollments({ params: { id } });
      return data.find((enrollment) => enrollment.method === method)?.jwt ?? "";
    };
    /** Logs in with a certificate, as a client that knows no authority yet. */
    const loginWith = async (name: string, cert: string, key: string): Promise<string> => {
      const anonymous = new PeerCli(peer.path, path(`cli-${name}`));
      return await anonymous.edge("login", `localhost:${network.port}`, "-c", cert, "-k", key, "-y");
    };
    /** The certificate and key in an identity file, as files. */
    const partsOf = (name: string): [string, string] => {
      const { cert, key } = credentialsOf(path(`${name}.json`));
      return [save(`${name}.cert`, cert), save(`${name}.key`, key)];
    };
    const isOnline = async (): Promise<boolean> => {
      const { data } = await network.management.listEdgeRouters({ query: { filter: 'name = "p1"' } });
      return data[0]?.isOnline === true;
    };
    const startRouter = async (): Promise<void> => {
      router = new Program({
        name: "p1",
        command: peer.path,
        args: ["router", "run", path("p1.yml")],
        env: { ZITI_HOME: folder },
        logFile: path("p1.log"),
      });
      await router.ready("being online", isOnline);
    };

    beforeAll(async () => {
      folder = makeScratch("enroll");
      network = await startNetwork(join(folder, "network"));
      cli = new PeerCli(peer.path, folder);
      await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      authority = await ThirdParty.create("Acme CA", { key: "rsa" });
      save("ca.pem", authority.certPem);
      save("ca.key", authority.keyPem);
      const [edgePort = 0, linkPort = 0] = await freePorts(2);
      await cli.edge("create", "edge-router", "p1", "-o", path("p1.jwt"), "-a", "p1");
      save("p1.yml", peerRouterFile({ folder, name: "p1", controllerPort: network.port, edgePort, linkPort }));
      await cli.run("router", "enroll", path("p1.yml"), "--jwt", path("p1.jwt"));
      await startRouter();
    });

    afterAll(async () => {
      await router?.stop();
      await network?.stop();
      removeScratch(folder);
    });

    it("ott: with both kinds of keys, and logs in with what it got", async () => {
      for (const algorithm of ["RSA", "EC"]) {
        const name = `ott-${algorithm}`;
        await cli.edge("create", "identity", name, "-o", path(`${name}.jwt`));
        await cli.edge("enroll", path(`${name}.jwt`), "-a", algorithm, "-o", path(`${name}.json`));
        expect(await loginWith(name, ...partsOf(name))).toMatch(/Token|Saving/i);
      }
    });

    it("updb: sets user name and password", async () => {
      await cli.edge("create", "identity", "updb", "--updb", "peer-user", "-o", path("updb.jwt"));
      await cli.edge("enroll", path("updb.jwt"), "-u", "peer-user", "-p", "correct horse", "-o", path("updb.json"));
      const anonymous = new PeerCli(peer.path, path("cli-updb"));
      const login = anonymous.edge(
        "login",
        `localhost:${network.port}`,
        "-u",
        "peer-user",
        "-p",
        "correct horse",
        "-y",
      );
      expect(await login).toMatch(/Token|Saving/i);
    });

    it("ca: registers and verifies an authority, by whose certificates identities make themselves", async () => {
      await cli.edge(
        "create",
        "ca",
        "acme",
        path("ca.pem"),
        "-e",
        "-u",
        "-o",
        "-a",
        "acme,phones",
        "-f",
        "[caName]/[requestedName]",
      );
      await cli.edge("verify", "ca", "acme", "--cacert", path("ca.pem"), "--cakey", path("ca.key"));
      const { data } = await network.management.listCas({ query: { filter: 'name = "acme"' } });
      expect(data[0]).toMatchObject({ isVerified: true, isAuthEnabled: true, identityRoles: ["acme", "phones"] });
      const jwt = await network.management.getCaJwt({ params: { id: data[0]?.id ?? "" } });
      save("acme.jwt", jwt.data.toString());
      const leaf = await authority.issue({ commonName: "phone", key: "rsa" });
      const [cert, key] = [save("phone.pem", leaf.certPem), save("phone.key", leaf.keyPem)];
      await cli.edge("enroll", path("acme.jwt"), "-c", cert, "-k", key, "-n", "my-phone", "-o", path("phone.json"));
      expect(await identityNamed("acme/my-phone")).toMatchObject({ roleAttributes: ["acme", "phones"] });
      expect(await loginWith("phone", cert, key)).toMatch(/Token|Saving/i);
      // The CLI removes a token that it has used.
      save("acme.jwt", jwt.data.toString());
      const again = cli.edge("enroll", path("acme.jwt"), "-c", cert, "-k", key, "-o", path("again.json"));
      await expect(again).rejects.toThrow(/already been enrolled/);
    });

    it("ottca: an identity that exists, by a certificate of that authority", async () => {
      await cli.edge("create", "identity", "tablet");
      await cli.edge("create", "enrollment", "ottca", "tablet", "acme");
      save("tablet.jwt", await jwtOf("tablet", "ottca"));
      const leaf = await authority.issue({ commonName: "tablet" });
      const [cert, key] = [save("tablet.pem", leaf.certPem), save("tablet.key", leaf.keyPem)];
      await cli.edge("enroll", path("tablet.jwt"), "-c", cert, "-k", key, "-o", path("tablet.json"));
      expect(await loginWith("tablet", cert, key)).toMatch(/Token|Saving/i);
    });

    it("an external id claim, as the CLI describes it", async () => {
      const other = await ThirdParty.create("Claims CA");
      save("claims.pem", other.certPem);
      save("claims.key", other.keyPem);
      const claim = ["-l", "SAN_URI", "-m", "SCHEME", "-x", "spiffe", "-p", "SPLIT", "-z", "/", "-d", "4"];
      await cli.edge("create", "ca", "claims", path("claims.pem"), "-e", ...claim);
      await cli.edge("verify", "ca", "claims", "--cacert", path("claims.pem"), "--cakey", path("claims.key"));
      await cli.edge("create", "identity", "tenant", "--external-id", "42");
      const leaf = await other.issue({ commonName: "x", uris: ["spiffe://acme.example/tenant/42"] });
      const login = loginWith("tenant", save("tenant.pem", leaf.certPem), save("tenant.key", leaf.keyPem));
      expect(await login).toMatch(/Token|Saving/i);
      const { data } = await network.management.listAPISessions({ query: { limit: -1 } });
      expect(data.map(({ identityId }) => identityId)).toContain((await identityNamed("tenant"))?.id);
      await cli.edge("delete", "ca", "claims");
      const rest = await network.management.listAPISessions({ query: { limit: -1 } });
      expect(rest.data.map(({ identityId }) => identityId)).not.toContain((await identityNamed("tenant"))?.id);
    });

    it("after a rotation with new keys: tokens are signed again, and no earlier client is cut off", async () => {
      await cli.edge("create", "identity", "between", "-o", path("between.jwt"));
      const old = await jwtOf("between");
      const { code, output } = await network.runToEnd(
        "controller",
        "pki",
        "rotate",
        network.controllerFile,
        "--new-keys",
      );
      expect(output).toMatch(/in use of the former authority: +certificates of \d+ identities, 3 routers/);
      expect(code).toBe(0);
      await eventually("the token is signed again", async () => (await jwtOf("between")) !== old);
      await expect(cli.edge("enroll", path("between.jwt"), "-o", path("between.json"))).rejects.toThrow();
      save("between.jwt", await jwtOf("between"));
      await cli.edge("enroll", path("between.jwt"), "-o", path("between.json"));
      expect(await loginWith("between", ...partsOf("between"))).toMatch(/Token|Saving/i);

      // The CLI's login and the identities of before know only the former root.
      expect(await cli.edge("list", "identities")).toContain("between");
      expect(await loginWith("after", ...partsOf("ott-EC"))).toMatch(/Token|Saving/i);
      expect(await isOnline()).toBe(true);
      await router.stop();
      await eventually("the router is gone", async () => !(await isOnline()));
      await startRouter();

      // One that joins now is linked to those of before.
      const anonymous = createClient("client", {
        baseUrl: `https://localhost:${network.port}`,
        tls: { rejectUnauthorized: false },
      });
      expect((await anonymous.listWellKnownCas()).data.length).toBeGreaterThan(0);
      anonymous.close();
      await network.restartController();
      await eventually("the router is online again", isOnline);
    });
  },
);
