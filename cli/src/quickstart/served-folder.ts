/** Folders that a quick start serves as web pages, each on a loopback port that a service leads to. */
import { readFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { endianness } from "node:os";
import serveStatic from "serve-static";
import { CommandError } from "../errors.ts";
import type { Exposure, ServedFolder } from "./exposure.ts";

const HOST = "127.0.0.1";
/** Of ports for them: the first one that is tried. */
export const SERVED_PORT = 20_080;

/** @throws CommandError for a folder that cannot be served */
export async function checkFolder({ name, folder }: ServedFolder): Promise<void> {
  const found = await stat(folder).catch((error: Error) => {
    throw new CommandError(`the folder of --serve ${name}=${folder} cannot be read: ${error.message}`);
  });
  if (!found.isDirectory()) throw new CommandError(`--serve expects a folder, and ${folder} is none`);
}

/** Serves the files of a folder. Those whose names begin with a dot are left out. @throws CommandError when the port cannot be opened */
export async function serveFolder({ folder }: ServedFolder, port: number): Promise<Server> {
  const files = serveStatic(folder, { dotfiles: "ignore", fallthrough: false });
  const server = createServer((request, response) => {
    files(
      request,
      response,
      (error?: { readonly status: number; readonly headers?: Record<string, string> | undefined }) => {
        // The client may have gone while its file was read.
        if (response.headersSent) response.destroy();
        else sayStatus(error?.status ?? 404, error?.headers ?? {}, response);
      },
    );
  });
  // Every user of this machine can reach the port; the files may be for their owner alone.
  server.on("connection", (socket) => {
    if (!isOfThisUser(socket)) socket.destroy();
  });
  const { promise: listening, resolve: onListening, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(port, HOST, onListening);
  await listening.catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`port ${port}, on which ${folder} is served, cannot be opened: ${error.code}`);
  });
  return server;
}

/** Whether a program of this user, or of root, has opened the connection. True where the system does not say. */
function isOfThisUser({ remoteAddress, remotePort, localAddress, localPort }: Socket): boolean {
  const own = process.getuid?.();
  if (process.platform !== "linux" || own === undefined) return true;
  const ends = ` ${tableEnd(remoteAddress, remotePort)} ${tableEnd(localAddress, localPort)} `;
  try {
    const line = readFileSync("/proc/net/tcp", "latin1")
      .split("\n")
      .find((each) => each.includes(ends));
    const uid = line?.trim().split(/\s+/)[7];
    return uid === String(own) || uid === "0";
  } catch {
    return true;
  }
}

/** An end of a connection as the kernel's table has it: the four bytes of the address in the order of the processor. */
function tableEnd(address = "", port = 0): string {
  const bytes = address.split(".").map(Number);
  return `${hex(endianness() === "LE" ? bytes.toReversed() : bytes)}:${hex([port >> 8, port & 0xff])}`;
}

function hex(bytes: readonly number[]): string {
  return Buffer.from(bytes).toString("hex").toUpperCase();
}

function sayStatus(status: number, headers: Readonly<Record<string, string>>, response: ServerResponse): void {
  const text = `${status} ${STATUS_CODES[status] ?? ""}\n`;
  response.writeHead(status, { ...headers, "content-type": "text/plain", "content-length": text.length }).end(text);
}

export function exposureOfFolder(name: string, port: number): Exposure {
  return { name, host: HOST, port };
}
