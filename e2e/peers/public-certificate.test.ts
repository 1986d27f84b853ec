import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../network/openziti/peer-network.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { PublicCertificate, shownBy } from "../network/public-certificate.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

describe.skipIf(peer.isMissing)(
  "OpenZiti's programs on our controller, whose API has a certificate of a public authority",
  () => {
    let folder = "";
    let certificate: PublicCertificate;
    let network: Network;
    let cli: PeerCli;
    let echo: TcpServer;
    let router: Program | undefined;
    let service: TunnelledService | undefined;

    const path = (name: string) => join(folder, name);
    const save = (name: string, text: string): string => {
      writeFileSync(path(name), text, { mode: 0o600 });
      return path(name);
    };
    /** Logs in with the certificate in an identity file, as a client that knows no authority yet. */
    const loginWith = async (name: string): Promise<string> => {
      const own = credentialsOf(path(`${name}.json`));
      const [cert, key] = [save(`${name}.cert`, own.cert), save(`${name}.key`, own.key)];
      const anonymous = new PeerCli(peer.path, path(`cli-${name}`));
      return await anonymous.edge("login", `localhost:${network.port}`, "-c", cert, "-k", key, "-y");
    };
    const isOnline = async (): Promise<boolean> => {
      const { data } = await network.management.listEdgeRouters({ query: { filter: 'name = "p1"' } });
      return data[0]?.isOnline === true && Object.keys(data[0].supportedProtocols ?? {}).length > 0;
    };

    beforeAll(async () => {
      folder = makeScratch("public-certificate");
      echo = await startEcho();
      certificate = await PublicCertificate.create(folder);
      await certificate.renew("public 1");
      network = await startNetwork(path("network"), { controllerSettings: (text) => certificate.settings(text) });
      cli = new PeerCli(peer.path, folder);
    });

    afterAll(async () => {
      await service?.stop();
      await router?.stop();
      await network?.stop();
      await echo?.close();
      removeScratch(folder);
    });

    it("the CLI logs in", async () => {
      expect(await shownBy(network.port, "localhost", "http/1.1")).toBe("public 1");
      const login = cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      expect(await login).toMatch(/Token|Saving/i);
    });

    it("identities enroll by one-time token and by user name, and log in with what they got", async () => {
      for (const algorithm of ["RSA", "EC"]) {
        const name = `ott-${algorithm}`;
        await cli.edge("create", "identity", name, "-o", path(`${name}.jwt`));
        await cli.edge("enroll", path(`${name}.jwt`), "-a", algorithm, "-o", path(`${name}.json`));
        expect(await loginWith(name)).toMatch(/Token|Saving/i);
      }
      await cli.edge("create", "identity", "updb", "--updb", "peer-user", "-o", path("updb.jwt"));
      await cli.edge("enroll", path("updb.jwt"), "-u", "peer-user", "-p", "correct horse", "-o", path("updb.json"));
    });

    it("a router joins, over the control channel with the network's own certificate", async () => {
      const [edgePort = 0, linkPort = 0] = await freePorts(2);
      await cli.edge("create", "edge-router", "p1", "-o", path("p1.jwt"), "-t", "-a", "p1");
      save("p1.yml", peerRouterFile({ folder, name: "p1", controllerPort: network.port, edgePort, linkPort }));
      await cli.run("router", "enroll", path("p1.yml"), "--jwt", path("p1.jwt"));
      router = new Program({
        name: "p1",
        command: peer.path,
        args: ["router", "run", path("p1.yml")],
        env: { ZITI_HOME: folder },
        logFile: path("p1.log"),
      });
      await router.ready("being online", isOnline);
    });

    it("its tunnelers carry bytes through that router", async () => {
      const started = await startTunnelledService({
        ...{ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port },
        ...{ clientRouter: "p1", hostRouter: "p1" },
      });
      service = started;
      await started.client.ready("an echo", async () => {
        await exchangeThenEnd(await openTcp(started.port), 1, 100_000);
        return true;
      });
    });

    it("tokens that were handed out when the certificate was replaced are available again, and enroll", async () => {
      await cli.edge("create", "identity", "late", "-o", path("late.jwt"));
      const before = readFileSync(path("late.jwt"), "utf8").trim();
      await certificate.renew("public 2");
      await eventually("the new one is served", async () => {
        return (await shownBy(network.port, "localhost", "http/1.1")) === "public 2";
      });
      await expect(cli.edge("enroll", path("late.jwt"), "-o", path("late.json"))).rejects.toThrow(/JWT|signature/i);
      // A client that has logged in or enrolled trusts the issuer and goes on.
      const { data } = await network.management.listIdentities({ query: { filter: 'name = "late"' } });
      let token = before;
      await eventually("the token is signed again", async () => {
        const detail = await network.management.detailIdentity({ params: { id: data[0]?.id ?? "" } });
        token = detail.data.enrollment.ott?.jwt ?? before;
        return token !== before;
      });
      save("late.jwt", token);
      await cli.edge("enroll", path("late.jwt"), "-o", path("late.json"));
      expect(await loginWith("late")).toMatch(/Token|Saving/i);
      await cli.edge("list", "identities");
      if (service) await exchangeThenEnd(await openTcp(service.port), 1, 100_000);
    });
  },
);
