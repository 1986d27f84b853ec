import { beforeAll, describe, expect, it } from "vitest";
import { RawPeer, rawRequest } from "../../network/raw-peer.ts";
import { errorOf, requestText, valuesOf } from "./requests.ts";
import { CTRL, MIB, type Site } from "./site.ts";

/** Requests that no API may take. */
export function describeApis(site: Site): void {
  describe("the APIs", () => {
    let session: Record<string, string>;

    beforeAll(async () => {
      const password = site.keep("the administrator's password", site.network.adminPassword);
      const login = await site.post(
        "management",
        "/authenticate?method=password",
        JSON.stringify({ username: "admin", password }),
      );
      expect(login.status).toBe(200);
      const { token } = (JSON.parse(login.body) as { data: { token: string } }).data;
      session = { "zt-session": site.keep("the administrator's session", token) };
    });

    it("refuse bodies over 1 MiB, announced or not, with the bare error, once in the log", async () => {
      const announced = await rawRequest(
        site.network.port,
        Buffer.from(
          `POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${MIB + 1}\r\nConnection: close\r\n\r\n`,
        ),
      );
      expect(announced.status).toBe(413);
      expect(JSON.parse(announced.body)).toMatchObject({ code: "REQUEST_ENTITY_TOO_LARGE" });
      const peer = await RawPeer.connect(site.network.port);
      peer.write(
        "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
      );
      for (let sent = 0; sent < 2 * MIB; sent += 65_536) peer.write(`10000\r\n${"x".repeat(65_536)}\r\n`);
      peer.write("0\r\n\r\n");
      expect((await peer.closed).toString()).toMatch(/^HTTP\/1\.1 413 /);
      expect(await site.loggedOnce(CTRL, peer)).toContain("REQUEST_ENTITY_TOO_LARGE");
    });

    it("refuse what is no JSON, and keep it out of the log", async () => {
      const password = site.keep("a password in broken JSON", "s3cret-in-broken-json");
      const answer = await site.post(
        "client",
        "/authenticate?method=password",
        `{"username":"admin","password":"${password}"`,
      );
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toMatchObject({ code: "COULD_NOT_PARSE_BODY" });
      expect(answer.body).not.toContain(password);
      const depth = await site.post("management", "/identities", `${'{"tags":'.repeat(5_000)}1${"}".repeat(5_000)}`, {
        headers: session,
      });
      expect(depth.status).toBe(400);
    });

    it("say which field breaks the schema, and how", async () => {
      const missing = await site.post("management", "/identities", '{"type":"Device"}', { headers: session });
      expect(missing.status).toBe(400);
      expect(errorOf(missing)).toMatchObject({
        code: "COULD_NOT_VALIDATE",
        cause: { field: expect.any(String), reason: expect.stringMatching(/is required$/) },
      });
      const wrong = await site.post("management", "/identities", '{"name":7,"type":"Device","isAdmin":false}', {
        headers: session,
      });
      expect([wrong.status, errorOf(wrong).code]).toEqual([400, "COULD_NOT_PARSE_BODY"]);
      const value = await site.post("management", "/identities", '{"name":"x","type":"Martian","isAdmin":false}', {
        headers: session,
      });
      expect(errorOf(value)).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field: "type", value: "Martian" } });
      const filter = await rawRequest(
        site.network.port,
        requestText("GET", "/edge/management/v1/identities?filter=a2%3D1", session),
      );
      expect([filter.status, errorOf(filter).code]).toEqual([400, "INVALID_FILTER"]);
    });

    it("ignore unknown fields and take explicit nulls for fields that need not be there", async () => {
      const body = {
        name: "with-nulls",
        type: "Device",
        isAdmin: false,
        roleAttributes: null,
        tags: null,
        externalId: null,
        appData: null,
        enrollment: { ott: true, updb: null, ottca: null },
        nobodyKnowsThis: { deep: [1, null] },
      };
      const answer = await site.post("management", "/identities", JSON.stringify(body), { headers: session });
      expect([answer.status, answer.body]).toEqual([201, expect.stringContaining('"_links"')]);
    });

    it("have the instance id and one exact content type on every answer, errors included", async () => {
      const get = (path: string, headers: Record<string, string> = {}) =>
        rawRequest(site.network.port, requestText("GET", path, headers));
      const answers = {
        200: await get("/version"),
        201: await site.post("management", "/services", '{"name":"made-here","encryptionRequired":true}', {
          headers: session,
        }),
        400: await site.post("client", "/authenticate?method=nonsense", "{}"),
        401: await get("/edge/management/v1/identities"),
        404: await get("/edge/management/v1/no-such-thing", session),
        405: await rawRequest(site.network.port, requestText("DELETE", "/edge/management/v1/version", session)),
        413: await site.post("client", "/authenticate?method=password", Buffer.alloc(MIB + 1, "x")),
        415: await site.post("management", "/services", "name: yaml", {
          headers: { ...session, "Content-Type": "text/yaml" },
        }),
      };
      const ids = new Set<string>();
      for (const [status, answer] of Object.entries(answers)) {
        expect([status, String(answer.status)]).toEqual([status, status]);
        expect([status, valuesOf(answer, "content-type")]).toEqual([status, ["application/json"]]);
        expect([status, valuesOf(answer, "ziti-instance-id")]).toEqual([status, [expect.stringMatching(/^\S+$/)]]);
        ids.add(valuesOf(answer, "ziti-instance-id")[0]!);
      }
      const broken = await rawRequest(site.network.port, "THIS IS NOT HTTP\r\n\r\n");
      expect(broken.status).toBe(400);
      ids.add(valuesOf(broken, "ziti-instance-id")[0]!);
      const headers = await rawRequest(
        site.network.port,
        `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(66_000)}\r\n\r\n`,
      );
      expect(headers.status).toBe(431);
      ids.add(valuesOf(headers, "ziti-instance-id")[0]!);
      expect(ids.size).toBe(1);
    });

    it("refuse a wrong password with one line that names the peer and not the password", async () => {
      const password = site.keep("a wrong password", "not-the-password-at-all");
      const peer = await RawPeer.connect(site.network.port);
      const body = JSON.stringify({ username: "admin", password });
      peer.write(
        requestText(
          "POST",
          "/edge/client/v1/authenticate?method=password",
          { "Content-Type": "application/json" },
          body,
        ),
      );
      expect((await peer.closed).toString()).toMatch(/^HTTP\/1\.1 401 /);
      expect(await site.loggedOnce(CTRL, peer)).toContain("INVALID_AUTH");
    });
  });
}
