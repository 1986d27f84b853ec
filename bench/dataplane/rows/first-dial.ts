import { join } from "node:path";
import { declareService, type Network } from "../../../e2e/network/network.ts";
import type { Program } from "../../../e2e/network/program.ts";
import { emit, median } from "../figure.ts";
import type { Paths } from "../paths.ts";
import type { Effort } from "../row.ts";

const SHARE = 10;
const SERVICE = "first-dial";

/** From the first dial of a service to its first byte, routers being connected: by an access token alone, beside a login and a session of the old kind. */
export async function firstDial(paths: Paths, effort: Effort): Promise<void> {
  const rounds = Math.max(3, Math.ceil(effort.circuits / 2 / SHARE));
  const clients = {
    token: await startClient(paths, await paths.oursBy("oidc"), "token", rounds * SHARE),
    session: await startClient(paths, await paths.oursBy("legacy"), "session", rounds * SHARE),
  };
  const times: Record<keyof typeof clients, number[]> = { token: [], session: [] };
  for (let round = 0; round < rounds; round++) {
    for (const kind of ["token", "session"] as const) times[kind].push(...(await dialShare(clients[kind])));
  }
  const [value, beside] = [median(times.token), median(times.session)];
  emit({
    figure: "first dial of a service to its first byte, p50",
    of: "by an access token, beside a session",
    value,
    unit: "ms",
    beside,
    ratio: value / beside,
    target: { atMost: 0.7 },
    details: { services: times.token.length },
  });
}

async function startClient(paths: Paths, network: Network, name: string, services: number): Promise<Program> {
  const { hostFile, clientFile } = await declareService(network, { name: SERVICE });
  for (let index = 0; index <= services; index++) {
    await network.management.createService({
      body: { name: `${SERVICE}-${index}`, roleAttributes: [SERVICE], encryptionRequired: true },
    });
  }
  const start = (side: string, ...args: string[]): Program => {
    const file = join(import.meta.dirname, "..", "first-dial-ends.ts");
    return paths.program(`${SERVICE}-${name}-${side}`, process.execPath, file, side, ...args);
  };
  await start("host", hostFile).line(/^hosting/, 300_000);
  const client = start("client", clientFile, String(SHARE));
  await client.line(/^ready/, 120_000);
  return client;
}

async function dialShare(client: Program): Promise<number[]> {
  const answer = client.nextLine(/^times /);
  client.signal("SIGUSR2");
  return JSON.parse((await answer).slice("times ".length));
}
