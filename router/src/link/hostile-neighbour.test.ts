/** A router that an attacker controls links to another one. */
import {
  dialChannel,
  Headers,
  type Identity,
  LINK_ALPN,
  LinkHello,
  SplitLinkChannel,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Link } from "./link.ts";
import { acceptLinks } from "./link-accept.ts";

let beta: Identity;
let evil: Identity;
let good: Identity;
let port: TlsPort;
let stop: () => void;
const links: Link[] = [];

beforeAll(async () => {
  const network = await TestAuthority.create();
  [beta, evil, good] = (await Promise.all(["beta", "evil", "good"].map((name) => network.identity(name)))) as [
    Identity,
    Identity,
    Identity,
  ];
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: beta });
  stop = acceptLinks({
    port,
    ...{ routerId: "beta", identity: () => beta, protocol: "tls", localBinding: "" },
    ...{ advertise: `tls:localhost:${port.port}`, helloTimeoutMs: 10_000 },
    verify: async () => {},
    onLink: (link) => links.push(link),
    log: silentLogger,
  });
});
afterAll(async () => {
  stop();
  for (const link of links) link.close();
  await port.close();
});

function dial(identity: Identity, id: string, more: (headers: Headers) => void = () => {}) {
  const headers = new Headers().setString(LinkHello.RouterId, identity.id).setU32(LinkHello.Iteration, 1);
  more(headers);
  const address = `tls:127.0.0.1:${port.port}`;
  return dialChannel({ address, identity, alpn: LINK_ALPN, hello: { idToken: id, headers }, timeoutMs: 20_000 });
}

it("gets a hundred connections, as links and as halves of links, and more when some have ended; others get theirs", async () => {
  const first = await dial(evil, "first");
  // Each in the place of another router's interface: no two of them are duplicates.
  for (let i = 0; i < 49; i++) await dial(evil, `l${i}`, (h) => h.setString(LinkHello.Binding, `if${i}`));
  for (let i = 0; i < 50; i++) {
    await dial(evil, `h${i}`, (h) =>
      h.setString(LinkHello.ConnectionId, `c${i}`).setByte(LinkHello.ChannelType, SplitLinkChannel.Payload),
    );
  }
  expect(links).toHaveLength(50);
  const closed = async (id: string) => (await dial(evil, id)).closed;
  await closed("beyond");
  await closed("again");
  expect(links).toHaveLength(50);
  await dial(good, "good");
  expect(links).toHaveLength(51);
  const gone = links[0]?.channel.closed;
  first.close();
  await gone;
  await dial(evil, "later");
  expect(links.at(-1)?.id).toBe("later");
});

it.each([
  ["id", "l".repeat(257), () => {}],
  ["name of an interface", "l", (h: Headers) => void h.setString(LinkHello.Binding, "i".repeat(257))],
])("gets no link with a long %s", async (_, id, more) => {
  await expect(dial(good, id, more)).rejects.toThrow();
});
