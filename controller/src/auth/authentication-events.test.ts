import { apiError } from "@sallyport/api";
import { silentLogger } from "@sallyport/wire";
import { expect, it } from "vitest";
import { startTestController } from "../api/testing/test-controller.ts";
import { Dispatcher } from "../events/dispatcher.ts";
import { readSubscription } from "../events/subscription.ts";
import { collector } from "../events/testing/collector.ts";
import { Authentication } from "./authentication.ts";
import { tellFailure } from "./authentication-events.ts";
import { AUTH_DEFAULTS } from "./settings.ts";

it("tells of logins that succeed and that fail, and never of what was typed", async () => {
  const c = await startTestController();
  const dispatcher = new Dispatcher({ sourceId: "ctrl1", log: silentLogger });
  const output = collector();
  dispatcher.subscribe(output, [readSubscription("edge.authentications", {})]);
  try {
    const authentication = new Authentication({ ...c.ctx, events: dispatcher }, c.model, AUTH_DEFAULTS);
    const login = (password: string) =>
      authentication.login({
        method: "password",
        username: "admin",
        password,
        peerCertificates: [],
        bearerTokens: [],
        remoteIp: "192.0.2.7",
      });
    const { identity } = await login("admin");
    await expect(login("wrong-password-1")).rejects.toThrow();
    expect(output.events).toMatchObject([
      {
        namespace: "edge.authentications",
        event_type: "success",
        type: "password",
        success: true,
        identity_id: identity.id,
        auth_policy_id: "default",
        remote_address: "192.0.2.7",
        reason: "",
      },
      { event_type: "fail", success: false, identity_id: "", reason: expect.stringContaining("password") },
    ]);
    expect(JSON.stringify(output.events)).not.toContain("wrong-password-1");
    tellFailure(dispatcher, { method: "cert", remoteIp: "192.0.2.8" }, apiError("INVALID_AUTH"));
    expect(output.events.at(-1)).toMatchObject({ type: "cert", reason: expect.stringMatching(/./) });
  } finally {
    await c.close();
  }
});
