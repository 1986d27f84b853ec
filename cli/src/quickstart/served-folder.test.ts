import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testContext } from "../testing/test-context.ts";
import { qrCode } from "./qr-code.ts";
import { checkFolder, serveFolder } from "./served-folder.ts";

describe("a folder that is served", () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-served-"));
  const www = join(folder, "www");
  let server: Server;
  beforeAll(async () => {
    for (const path of [www, join(folder, "www-secret"), join(www, "docs")]) mkdirSync(path);
    writeFileSync(join(www, "index.html"), "<p>first page</p>");
    writeFileSync(join(www, "docs", "a b.txt"), "0123456789");
    for (const path of ["www/.env", "www-secret/key"]) writeFileSync(join(folder, path), "secret");
    server = await serveFolder({ name: "www", folder: www }, 0);
  });
  afterAll(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });

  const port = () => (server.address() as AddressInfo).port;
  /** The answer to a request as it stands, which a client for browsers would change. */
  const ask = async (path: string, headers = "", method = "GET") => {
    const socket = connect(port(), "127.0.0.1");
    socket.write(`${method} ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${headers}\r\n`);
    const answer = await text(socket);
    return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]), body: answer.split("\r\n\r\n")[1] };
  };

  it("has pages, files and parts of files", async () => {
    expect(await ask("/")).toEqual({ status: 200, body: "<p>first page</p>" });
    expect(await ask("/docs/a%20b.txt")).toEqual({ status: 200, body: "0123456789" });
    expect(await ask("/docs/a%20b.txt", "range: bytes=2-4\r\n")).toEqual({ status: 206, body: "234" });
    expect((await ask("/", "", "HEAD")).status).toBe(200);
  });

  it.each([
    ["/none", 404],
    ["/docs/", 404],
    ["/.env", 404],
    ["/../www-secret/key", 403],
    ["/%2e%2e/www-secret/key", 403],
    ["/%00", 400],
    ["/%", 400],
    ["//etc/passwd", 404],
  ])("has no %s, and says so with %d", async (path, status) => {
    expect(await ask(path)).toMatchObject({ status, body: expect.stringMatching(new RegExp(`^${status} [A-Z]`)) });
  });

  it.skipIf(process.platform !== "linux" || process.getuid?.() !== 0)("is not for other users of the machine", () => {
    // Of a shell, because this program's Node may be in a folder that others cannot enter.
    const script = `exec 3<>/dev/tcp/127.0.0.1/${port()} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`;
    const askAs = async (uid: number) => {
      const child = spawn("bash", ["-c", script], { uid, gid: uid, cwd: "/", stdio: ["ignore", "pipe", "ignore"] });
      return await text(child.stdout);
    };
    return expect(Promise.all([askAs(0), askAs(65_534)])).resolves.toEqual([
      expect.stringContaining("<p>first page</p>"),
      "",
    ]);
  });

  it("goes on after requests that make no sense, and clients that leave", async () => {
    expect((await ask("/index.html", "range: bytes=10-5\r\n")).status).toBe(416);
    expect((await ask("/", "", "POST")).status).toBe(405);
    const gone = connect(port(), "127.0.0.1");
    gone.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    gone.destroy();
    await once(gone, "close");
    expect((await ask("/")).status).toBe(200);
  });

  it("has to be one, on a port that is free", async () => {
    await expect(checkFolder({ name: "a", folder: join(folder, "none") })).rejects.toThrow(
      /--serve a=.*none cannot be read/,
    );
    await expect(checkFolder({ name: "a", folder: join(www, "index.html") })).rejects.toThrow("index.html is none");
    await expect(serveFolder({ name: "a", folder: www }, port())).rejects.toThrow(`port ${port()}, on which`);
  });
});

describe("a QR code", () => {
  const token = "a".repeat(500);
  const linesOf = (text: string) => text.split("\n").slice(0, -1);

  it("is dark on light on a terminal that is wide enough", async () => {
    const plain = linesOf(await qrCode(token, testContext()));
    const width = plain[0]?.length ?? 0;
    expect(new Set(plain.map((line) => line.length))).toEqual(new Set([width]));
    const painted = linesOf(await qrCode(token, testContext({}, { columns: width })));
    expect(painted).toEqual(plain.map((line) => `\u001b[30;107m${line}\u001b[0m`));
    expect(await qrCode(token, testContext({}, { columns: width - 1 }))).toContain(
      `needs ${width} columns, and this terminal has ${width - 1}`,
    );
  });
});
