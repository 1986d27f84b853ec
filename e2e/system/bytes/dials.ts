import { Context } from "@sallyport/sdk";
import { beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type BytesScene, MIB } from "./scene.ts";

/** Dials that fail, and dials that the caller gives up. */
export function describeDials(scene: BytesScene): void {
  describe("dials that cannot succeed", () => {
    let client: Context;
    beforeAll(async () => {
      client = await scene.load(scene.service("secret").clientFile);
    });

    it("a service that does not exist", async () => {
      await expect(client.dial("never-made")).rejects.toMatchObject({
        name: "ServiceError",
        code: "SERVICE_NOT_AVAILABLE",
        message: expect.stringContaining("there is no service never-made for this identity"),
      });
    });

    it("a service of another identity looks the same", async () => {
      await expect(client.dial("plain")).rejects.toMatchObject({
        name: "ServiceError",
        code: "SERVICE_NOT_AVAILABLE",
        message: expect.stringContaining("there is no service plain for this identity"),
      });
    });

    it("permission to host is none to dial, and the reverse", async () => {
      const hosting = await scene.load(scene.service("unhosted").hostFile);
      await expect(hosting.dial("unhosted")).rejects.toMatchObject({
        name: "ServiceError",
        message: expect.stringContaining("may not dial unhosted"),
      });
      await expect(client.listen("secret")).rejects.toMatchObject({
        name: "ServiceError",
        message: expect.stringContaining("may not host secret"),
      });
    });

    it("a service without a host", async () => {
      const dialing = await scene.load(scene.service("unhosted").clientFile);
      await expect(dialing.dial("unhosted")).rejects.toMatchObject({
        name: "RouterDialError",
        code: "DIAL_REFUSED",
        message: expect.stringMatching(/unhosted could not be dialled through router r1 .*has no terminators/),
      });
    });

    it("an instance that no host is", async () => {
      await expect(client.dial("secret", { instance: "none-such" })).rejects.toMatchObject({
        code: "DIAL_REFUSED",
        message: expect.stringMatching(/terminator/),
      });
    });

    it("an identity file that the network does not know", async () => {
      const identity = await scene.network.management.listIdentities({ query: { filter: 'name = "churn-host"' } });
      const file = scene.service("churn").hostFile;
      await scene.network.management.disableIdentity({
        params: { id: identity.data[0]!.id },
        body: { durationMinutes: 0 },
      });
      await expect(Context.load(file)).rejects.toMatchObject({
        name: "AuthenticationError",
        code: "CREDENTIALS_REFUSED",
      });
      await scene.network.management.enableIdentity({ params: { id: identity.data[0]!.id } });
      await (await Context.load(file)).close();
    });
  });

  describe("a dial that is given up", () => {
    it("rejects with the signal's reason, before and while it runs, and the next one works", async () => {
      const client = await scene.load(scene.service("secret").clientFile);
      const reason = new Error("changed my mind");
      await expect(scene.dial(client, "secret", "echo", AbortSignal.abort(reason))).rejects.toBe(reason);
      const abort = new AbortController();
      const attempts = Array.from({ length: 8 }, () => scene.dial(client, "secret", "drain", abort.signal));
      setImmediate(() => abort.abort(reason));
      for (const outcome of await Promise.allSettled(attempts)) {
        expect(outcome).toEqual({ status: "rejected", reason });
      }
      await exchange(await scene.dial(client, "secret", "echo"), 5, MIB);
      await eventually(
        "the host's ends of given up dials are gone",
        () => ![...scene.hosted.values()].includes("drain"),
      );
    });
  });
}
