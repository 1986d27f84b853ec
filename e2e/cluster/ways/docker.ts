import { existsSync } from "node:fs";
import { request } from "node:http";

const SOCKET = "/var/run/docker.sock";
const ANSWER_MS = 5_000;

/** Path of the socket at which a Docker engine of this machine answers; undefined when none does. One elsewhere sees none of our folders. */
export async function dockerSocket(host = process.env.DOCKER_HOST): Promise<string | undefined> {
  const path = host === undefined || host === "" ? SOCKET : /^unix:\/\/(.+)$/.exec(host)?.[1];
  if (path === undefined || !existsSync(path)) return undefined;
  return await new Promise((resolve) => {
    const ping = request({ socketPath: path, path: "/_ping", timeout: ANSWER_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200 ? path : undefined);
    });
    ping.on("timeout", () => ping.destroy());
    ping.on("error", () => resolve(undefined));
    ping.end();
  });
}
