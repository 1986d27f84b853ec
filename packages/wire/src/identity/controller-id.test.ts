import { once } from "node:events";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { parseCertificates } from "./certificates.ts";
import { controllerIdProblem, controllerTrust } from "./controller-id.ts";

const anchorsOf = (...authorities: TestAuthority[]) => authorities.flatMap(({ certPem }) => parseCertificates(certPem));
const named = (uri: string) => TestAuthority.create("root", undefined, true, [uri]);

describe("the certificate of a server that was dialled as a controller", () => {
  it.each<[uri: string[], isRight: boolean]>([
    [[], true],
    [["https://ctrl.example/"], true],
    [["spiffe://net/controller/ctrl1"], true],
    [["SPIFFE://NET/controller/ctrl1"], true],
    [["spiffe://other/controller/ctrl1"], false],
    [["spiffe://net/identity/i/apiSession/s"], false],
    [["spiffe://net/identity/i/apiSession/s/apiSessionCertificate/c"], false],
    [["spiffe://net/router/r1"], false],
    [["spiffe://net/controller"], false],
    [["spiffe://net/controller/"], false],
    [["spiffe://net/controller/a/identity/b"], false],
    [["spiffe://net/x/controller/ctrl1"], false],
    [["spiffe://net"], false],
    [["spiffe:ctrl1"], false],
    [["spiffe://net/controller/ctrl1", "spiffe://net/controller/ctrl2"], false],
  ])("with the URI names %j is right: %s", async (uri, isRight) => {
    const root = await named("spiffe://net");
    const [leaf] = parseCertificates((await root.issue({ commonName: "ctrl1", uri })).certPem);
    expect(controllerIdProblem(leaf!, anchorsOf(root)) === undefined).toBe(isRight);
  });

  it("may be of any trust domain of the anchors, and of each where they name none", async () => {
    const [one, two, silent] = [
      await named("spiffe://one"),
      await named("spiffe://two/"),
      await TestAuthority.create(),
    ];
    const uri = ["spiffe://two/controller/ctrl1"];
    const [leaf] = parseCertificates((await one.issue({ uri })).certPem);
    expect(controllerIdProblem(leaf!, anchorsOf(one, two))).toBeUndefined();
    expect(controllerIdProblem(leaf!, anchorsOf(silent))).toBeUndefined();
    expect(controllerIdProblem(leaf!, [])).toBeUndefined();
    expect(controllerIdProblem(leaf!, anchorsOf(one, silent))).toMatchObject({
      code: "NOT_A_CONTROLLER",
      message: expect.stringContaining(
        "a controller of the trust domain one, got one for spiffe://two/controller/ctrl1",
      ),
    });
  });

  it("is checked by TLS clients besides the host's name", async () => {
    const root = await named("spiffe://net");
    const ask = async (uri: string, dns: string) => {
      const { certPem, keyPem } = await root.issue({ dns: [dns], uri: [uri] });
      const server = createServer({ cert: certPem, key: keyPem }, (_request, response) => response.end("hello"));
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      try {
        const asked = request({ host: "localhost", port, agent: false, ...controllerTrust(root.certPem) });
        const [answer] = await once(asked.end(), "response");
        answer.resume();
        return answer.statusCode;
      } catch (error) {
        return (error as { code: string }).code;
      } finally {
        server.closeAllConnections();
        server.close();
      }
    };
    expect(await ask("spiffe://net/controller/ctrl1", "localhost")).toBe(200);
    expect(await ask("spiffe://net/identity/i/apiSession/s", "localhost")).toBe("NOT_A_CONTROLLER");
    expect(await ask("spiffe://net/controller/ctrl1", "elsewhere")).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  });
});
