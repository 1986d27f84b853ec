/** The login of `sallyport` at the network of a quick start. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { CommandContext } from "../context.ts";
import { writeOwn } from "../network/own-files.ts";
import { NetworkStore } from "../network/saved-network.ts";
import { ADMINISTRATOR, fingerprint } from "./controller-program.ts";
import type { NetworkState } from "./network-state.ts";
import type { Places } from "./places.ts";
import type { RunOptions } from "./programs/run-to-end.ts";

const NETWORK = "quickstart";

/** The password stands in a file before the controller is made, so that no interruption can lose it. */
export async function ensurePassword({ passwordFile }: Places): Promise<void> {
  if (!existsSync(passwordFile)) await writeOwn(passwordFile, `${randomBytes(18).toString("base64url")}\n`);
}

/**
 * Saves the network as `sallyport login` does, and makes it the current one where it is new.
 *
 * @returns its name
 */
export async function saveLogin(
  { controllerPort }: NetworkState,
  places: Places,
  setup: RunOptions,
  context: CommandContext,
): Promise<string> {
  const store = new NetworkStore(context.env);
  const controller = `https://localhost:${controllerPort}`;
  const { passwordFile } = places;
  const known = new Set(await store.names());
  for (let count = 1; ; count++) {
    const name = count === 1 ? NETWORK : `${NETWORK}-${count}`;
    const saved = known.has(name) ? await store.read(name).catch(() => undefined) : undefined;
    if (saved?.login.method === "password" && saved.login.passwordFile === passwordFile) {
      if (saved.controller === controller) return name;
    } else if (known.has(name)) continue;
    const { firstTrust } = await import("../network/first-trust.ts");
    const ca = await firstTrust({ controller, fingerprint: await fingerprint(places, setup) }, context);
    const login = { method: "password", username: ADMINISTRATOR, passwordFile } as const;
    await store.write(name, { controller, login, ...(ca !== undefined && { ca }) });
    await store.use(name);
    return name;
  }
}
