import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { BaseHeader, BaseType } from "./catalogue/base.ts";
import type { Channel } from "./channel.ts";
import { type DialOptions, dialChannel } from "./dialer.ts";
import { Headers } from "./headers.ts";
import type { Identity } from "./identity.ts";
import { type AcceptOptions, acceptChannels } from "./listener.ts";
import { silentLogger } from "./log.ts";
import { TestAuthority } from "./testing/authority.ts";
import { TlsPort } from "./tls-port.ts";

let authority: TestAuthority;
let serverId: Identity;
let clientId: Identity;
beforeAll(async () => {
  authority = await TestAuthority.create();
  serverId = await authority.identity("rtr");
  clientId = await authority.identity("cli");
});

test("messages flow", async () => {
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: serverId });
  const accepted = Promise.withResolvers<Channel>();
  const stop = acceptChannels(port, {
    name: "edge",
    protocols: ["ziti-edge"],
    acceptsNoAlpn: true,
    id: "rtr",
    log: silentLogger,
    onChannel: (ch) => {
      ch.handle(7000, (m) => ch.reply(m, { contentType: 7001, body: m.body }));
      accepted.resolve(ch);
    },
  });
  const ch = await dialChannel({
    address: `tls:127.0.0.1:${port.port}`,
    identity: clientId,
    alpn: "ziti-edge",
    hello: { idToken: "me" },
  });
  expect(ch.remoteId).toBe("rtr");
  const r = await ch.request({ contentType: 7000, body: Buffer.from("hello") });
  expect(r.body.toString()).toBe("hello");
  const ping = await ch.request({ contentType: BaseType.Ping });
  expect(ping.headers.getBool(BaseHeader.ResultSuccess)).toBe(true);
  const big = Buffer.alloc(5_000_000, 7);
  const r2 = await ch.request({ contentType: 7000, body: big });
  expect(r2.body.equals(big)).toBe(true);
  const s = await accepted.promise;
  expect(s.peer.certificates.length).toBe(2);
  ch.close();
  await s.closed;
  stop();
  await port.close();
});
