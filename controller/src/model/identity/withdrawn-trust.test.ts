import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { DenialCode } from "../../fabric/ports.ts";
import { Pki } from "../../pki/pki.ts";
import { TUNNELER } from "../testing/client-info.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const DAY = 86_400_000;

describe("a router's identity that is disabled", () => {
  it("gets neither services nor sessions until it is enabled again", async () => {
    const id = await c.make("edge-routers", { name: "disabled-tunneler", isTunnelerEnabled: true });
    const service = await c.make("services", { name: "disabled-svc", encryptionRequired: false });
    const roles = { semantic: "AnyOf", serviceRoles: [`@${service}`] };
    await c.make("service-policies", { name: "p", type: "Dial", ...roles, identityRoles: [`@${id}`] });
    await c.make("service-edge-router-policies", { name: "p", ...roles, edgeRouterRoles: ["#all"] });
    const opened = await c.fabricModel.openTunnelApiSession(id, TUNNELER);
    const dial = {
      routerId: id,
      apiSessionId: (opened as { id: string }).id,
      serviceName: "disabled-svc",
      type: "Dial",
      remoteAddress: "10.0.0.1:5",
    } as const;
    expect(await c.fabricModel.openTunnelSession(dial)).toMatchObject({ identityId: id });

    await c.model.identities.disable(id, 0);
    const denied = { denied: DenialCode.AccessDenied };
    expect(await c.fabricModel.openTunnelApiSession(id, TUNNELER)).toMatchObject({ identityId: id });
    expect(await c.fabricModel.tunnelServices(id, "")).toMatchObject(denied);
    expect(await c.fabricModel.openTunnelSession(dial)).toMatchObject(denied);

    await c.model.identities.enable(id);
    expect(await c.fabricModel.openTunnelSession(dial)).toMatchObject({ identityId: id });
  });
});

describe("a router's certificate renews over HTTP", () => {
  it("neither while the router is disabled, nor after it has ended", async () => {
    const id = await c.make("edge-routers", { name: "renewing" });
    const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    const { keyPem: key } = await createKeyPair();
    const csr = await createCsr({ commonName: id, keyPem: key });
    const body = { certCsr: csr, serverCertCsr: csr };
    const enrolled = await c.call("POST", `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`, { body });
    const { cert } = enrolled.json.data;
    const renew = () => c.call("POST", "/edge/client/v1/enroll/extend/router", { body, cert, key });

    expect((await c.admin("PATCH", `/edge-routers/${id}`, { disabled: true })).status).toBe(200);
    expect((await renew()).status).toBe(401);
    expect((await c.admin("PATCH", `/edge-routers/${id}`, { disabled: false })).status).toBe(200);
    c.clock.offsetMs = 366 * DAY;
    try {
      expect((await renew()).status).toBe(401);
    } finally {
      c.clock.offsetMs = 0;
    }
    expect((await renew()).status).toBe(200);
  });
});

describe("a router that gets a new enrollment while its renewed certificate is being made", () => {
  it.each(["over HTTP", "over its control channel", "over its control channel, to be confirmed"])(
    "does not get in by that one (%s)",
    async (way) => {
      const id = await c.make("edge-routers", { name: `withdrawn ${way}` });
      const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
      const { keyPem: key } = await createKeyPair();
      const csr = await createCsr({ commonName: id, keyPem: key });
      const body = { certCsr: csr, serverCertCsr: csr };
      const enrolled = await c.call("POST", `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`, { body });
      const { cert } = enrolled.json.data;
      const held = (await c.fabricModel.findRouter(id))?.fingerprint ?? "";
      const original = Pki.prototype.issueRouterCertificates.bind(c.pki);
      const issue = vi.spyOn(c.pki, "issueRouterCertificates");
      issue.mockImplementation(async (request) => {
        const issued = await original(request);
        expect((await c.admin("POST", `/edge-routers/${id}/re-enroll`)).status).toBe(200);
        return issued;
      });
      try {
        if (way === "over HTTP") {
          expect((await c.call("POST", "/edge/client/v1/enroll/extend/router", { body, cert, key })).status).toBe(401);
        } else {
          const requireVerification = way.endsWith("confirmed");
          const request = { fingerprint: held, clientCsrPem: csr, serverCsrPem: csr, requireVerification };
          await expect(c.fabricModel.extendRouterCertificates(request)).rejects.toMatchObject({ status: 401 });
        }
      } finally {
        issue.mockRestore();
      }
      expect(await c.model.routers.get(c.ctx.store.db, id)).toMatchObject({
        fingerprint: null,
        unverified_fingerprint: null,
        is_verified: false,
      });
    },
  );
});

describe("an instance id of a service", () => {
  it("belongs to one host, also when several ask for it at the same moment", async () => {
    const serviceId = await c.make("services", { name: "instances", encryptionRequired: false });
    const routerId = await c.make("edge-routers", { name: "instances" });
    const hosts: string[] = [];
    for (let i = 0; i < 8; i++) {
      hosts.push(await c.make("identities", { name: `instance host ${i}`, type: "Device", isAdmin: false }));
    }
    await c.make("service-policies", {
      ...{ name: "instances", type: "Bind", semantic: "AnyOf", serviceRoles: [`@${serviceId}`] },
      identityRoles: hosts.map((id) => `@${id}`),
    });
    const outcomes = await Promise.all(
      hosts.map((hostId, i) =>
        c.fabricModel.createTerminator({
          id: `instance-${i}`,
          serviceId,
          routerId,
          binding: "edge",
          address: `instance-${i}`,
          instanceId: "primary",
          cost: 0,
          precedence: "default",
          peerData: new Map(),
          hostId,
        }),
      ),
    );
    expect(outcomes.filter(({ outcome }) => outcome === "created")).toHaveLength(1);
    expect(outcomes.filter(({ outcome }) => outcome === "rejected")).toHaveLength(7);
  });
});
