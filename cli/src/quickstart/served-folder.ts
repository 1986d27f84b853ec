/** Folders that a quick start serves as web pages, each on a loopback port that a service leads to. */
import { stat } from "node:fs/promises";
import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http";
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
  const { promise: listening, resolve: onListening, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(port, HOST, onListening);
  await listening.catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`port ${port}, on which ${folder} is served, cannot be opened: ${error.code}`);
  });
  return server;
}

function sayStatus(status: number, headers: Readonly<Record<string, string>>, response: ServerResponse): void {
  const text = `${status} ${STATUS_CODES[status] ?? ""}\n`;
  response.writeHead(status, { ...headers, "content-type": "text/plain", "content-length": text.length }).end(text);
}

export function exposureOfFolder(name: string, port: number): Exposure {
  return { name, host: HOST, port };
}
