import { once } from "node:events";
import { createServer as createTcpServer } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { BaseHeader, BaseType } from "../catalogue/base.ts";
import { UNKNOWN_VERSION_RESPONSE } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage, type Outgoing } from "../frame/message.ts";
import type { Identity } from "../identity/identity.ts";
import { TestAuthority } from "../testing/authority.ts";
import { type ChannelDialOptions, dialChannel } from "./dialer.ts";

let authority: TestAuthority;
let identity: Identity;
const closers: (() => void)[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
  identity = await authority.identity("rtr");
});
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

function portOf(server: Server | ReturnType<typeof createTcpServer>): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** A TLS server that does what it is told once the hello has come. */
async function server(onHello: (socket: TLSSocket) => void, served: Identity = identity): Promise<number> {
  const tls = createServer(
    {
      cert: served.certPem,
      key: served.keyPem,
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ["ziti-link"],
    },
    (socket) => {
      closers.push(() => socket.destroy());
      socket.on("error", () => {});
      socket.once("data", () => onHello(socket));
    },
  );
  tls.listen(0, "127.0.0.1");
  await once(tls, "listening");
  closers.push(() => tls.close());
  return portOf(tls);
}

const dial = (port: number, options: Partial<ChannelDialOptions> = {}) =>
  dialChannel({ address: `tls:127.0.0.1:${port}`, identity, hello: { idToken: "me" }, ...options });

const result = (headers: Headers, out: Partial<Outgoing> = {}): Buffer =>
  encodeMessage({ contentType: BaseType.Result, headers, ...out }, -1);
const yes = (): Headers => new Headers().setI32(1, -1).setBool(2, true).setString(0, "Jz8q").setString(8, "wRk0aZBn2");

describe("a dial", () => {
  test("of a listener whose certificate is outside its dates tells both times", async () => {
    const [hour, now] = [3_600_000, Date.now()];
    const early = await authority.identity("ctrl1", { notBefore: new Date(now + hour) });
    await expect(dial(await server(() => {}, early))).rejects.toMatchObject({
      code: "DIAL_FAILED",
      message: expect.stringMatching(
        /the certificate is valid from 20.*Z on, and the clock of this machine shows 20.*Z/,
      ),
    });
    const late = await authority.identity("ctrl1", {
      notBefore: new Date(now - 2 * hour),
      notAfter: new Date(now - hour),
    });
    await expect(dial(await server(() => {}, late))).rejects.toMatchObject({
      message: expect.stringMatching(
        /the certificate was valid until 20.*Z, and the clock of this machine shows 20.*Z/,
      ),
    });
  });

  test("of a listener whose certificate is known looks at nothing else of it, and says hello to no other one", async () => {
    const late = await authority.identity("ctrl1", {
      notAfter: new Date(Date.now() - 3_600_000),
      notBefore: new Date(0),
    });
    let hellos = 0;
    const port = await server((socket) => {
      hellos += 1;
      socket.write(result(yes()));
    }, late);
    const channel = await dial(port, { peerFingerprint: late.leafFingerprint });
    channel.close();
    await expect(dial(port, { peerFingerprint: identity.leafFingerprint })).rejects.toMatchObject({
      code: "WRONG_PEER",
      message: expect.stringContaining(`found ${late.leafFingerprint}`),
    });
    expect(hellos).toBe(1);
  });

  test("to a controller is not answered by another component that its certificate names", async () => {
    const uri = ["spiffe://net/identity/i/apiSession/s"];
    const other = await authority.identity("ctrl1", { uri });
    const controller = await authority.identity("ctrl1", { uri: ["spiffe://net/controller/ctrl1"] });
    const hellos: unknown[] = [];
    const answer = (socket: TLSSocket) => hellos.push(socket.write(result(yes())));
    const refused = dial(await server(answer, other), { alpn: "ziti-link", isToController: true });
    await expect(refused).rejects.toMatchObject({
      code: "DIAL_FAILED",
      message: expect.stringContaining("expected the certificate of a controller"),
    });
    expect(hellos).toEqual([]);
    (await dial(await server(answer, controller), { alpn: "ziti-link", isToController: true })).close();
    (await dial(await server(answer, other), { alpn: "ziti-link" })).close();
  });

  test("gives a channel that knows who answered, and loses nothing that came with the answer", async () => {
    const port = await server((socket) =>
      socket.write(Buffer.concat([result(yes()), encodeMessage({ contentType: 70, body: Buffer.from("hi") }, 1)])),
    );
    const channel = await dial(port, { alpn: "ziti-link" });
    const greeting = new Promise<string>((resolve) =>
      channel.handle(70, (message) => resolve(message.body.toString())),
    );
    expect(await greeting).toBe("hi");
    expect([channel.remoteId, channel.connectionId, channel.isGrouped]).toEqual(["wRk0aZBn2", "Jz8q", false]);
    expect(channel.peer.fingerprint).toBe(identity.leafFingerprint);
    channel.close();
  });

  test("takes an answer without header 1, and the certificate's name without header 8", async () => {
    const port = await server((socket) => socket.write(result(new Headers().setBool(2, true))));
    const channel = await dial(port, {
      hello: { idToken: "link", headers: new Headers().setString(BaseHeader.ConnectionId, "mine") },
    });
    expect([channel.remoteId, channel.connectionId]).toEqual(["rtr", "mine"]);
    channel.close();
  });

  test("that asks for a group takes no for an answer", async () => {
    const port = await server((socket) => socket.write(result(yes())));
    const headers = new Headers().setBool(9, true).setBool(11, true).setString(7, "link.default");
    const channel = await dial(port, { hello: { idToken: "l", headers } });
    expect([channel.isGrouped, channel.underlays.map((underlay) => underlay.type)]).toEqual([false, [""]]);
    channel.close();
  });

  const grouped = { hello: { idToken: "l", headers: new Headers().setBool(9, true).setBool(11, true) } };
  test.each<[string, Buffer, Partial<ChannelDialOptions>, object]>([
    [
      "is refused",
      result(yes().setBool(2, false), { body: Buffer.from("not you") }),
      {},
      { code: "HELLO_REFUSED", message: expect.stringContaining("not you") },
    ],
    ["is refused without a word", result(new Headers().setI32(1, -1)), {}, { code: "HELLO_REFUSED" }],
    ["is answered for another hello", result(yes().setI32(1, 1)), {}, { code: "NOT_A_RESULT" }],
    [
      "is answered with another message",
      encodeMessage({ contentType: 1, headers: yes() }, -1),
      {},
      { code: "NOT_A_RESULT" },
    ],
    ["is told that its version is unknown", UNKNOWN_VERSION_RESPONSE, {}, { code: "BAD_MAGIC" }],
    ["reaches a web server", Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"), {}, { code: "BAD_MAGIC" }],
    ["is granted a group without a secret", result(yes().setBool(9, true)), grouped, { code: "NO_GROUP_SECRET" }],
  ])("fails when it %s", async (_what, answer, options, error) => {
    const port = await server((socket) => socket.write(answer));
    await expect(dial(port, options)).rejects.toMatchObject({ name: "ProtocolError", ...error });
  });

  test("fails when the connection ends instead of an answer", async () => {
    const port = await server((socket) => socket.end());
    await expect(dial(port)).rejects.toMatchObject({ code: "CLOSED_BY_PEER" });
  });

  test("fails without a listener, and says where", async () => {
    const tcp = createTcpServer().listen(0, "127.0.0.1");
    await once(tcp, "listening");
    const port = portOf(tcp);
    tcp.close();
    await expect(dial(port)).rejects.toMatchObject({
      name: "HandshakeError",
      code: "DIAL_FAILED",
      message: expect.stringContaining(`tls:127.0.0.1:${port}`),
    });
  });

  test.each([
    ["an authority it does not trust", async () => (await TestAuthority.create("Other")).identity("rtr")],
    ["the name of another host", () => authority.identity("rtr", { dns: ["elsewhere"], ip: ["127.0.0.2"] })],
  ])("fails when the listener's certificate has %s", async (_what, make) => {
    let reached = false;
    const port = await server(
      () => {
        reached = true;
      },
      await make(),
    );
    await expect(dial(port)).rejects.toMatchObject({ code: "DIAL_FAILED" });
    expect(reached).toBe(false);
  });

  test("ends in time, whether TLS or the answer does not come", async () => {
    const silent = createTcpServer((socket) => closers.push(() => socket.destroy())).listen(0, "127.0.0.1");
    await once(silent, "listening");
    closers.push(() => silent.close());
    await expect(dial(portOf(silent), { timeoutMs: 30 })).rejects.toMatchObject({ code: "DIAL_TIMEOUT" });
    const port = await server((socket) => socket.write(result(yes()).subarray(0, 30)));
    await expect(dial(port, { timeoutMs: 100 })).rejects.toMatchObject({ code: "DIAL_TIMEOUT" });
  });

  test("ends with its signal, before and during it", async () => {
    const reason = new Error("no longer needed");
    const abort = new AbortController();
    const port = await server(() => abort.abort(reason));
    await expect(dial(port, { signal: abort.signal })).rejects.toBe(reason);
    await expect(dial(port, { signal: abort.signal })).rejects.toBe(reason);
  });

  test.each(["tcp:127.0.0.1:1", "wss:localhost:1", "localhost:1", "tls://localhost:1"])(
    "does not know %s",
    async (address) => {
      await expect(dial(1, { address })).rejects.toMatchObject({
        code: expect.stringMatching(/UNSUPPORTED|ADDRESS_INVALID/),
      });
    },
  );
});
