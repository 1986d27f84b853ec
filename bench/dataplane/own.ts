import { join } from "node:path";
import { declareService, type Network } from "../../e2e/network/network.ts";
import { Program } from "../../e2e/network/program.ts";

/** A service between two processes of our SDK, its path forced over both routers. */
export interface SdkPath {
  readonly port: number;
  readonly host: Program;
  readonly client: Program;
  stop(): Promise<void>;
}

/** Hosts and dials an encrypted service that ends at `targetPort`; connections to `port` come out there. */
export async function startSdkPath(network: Network, targetPort: number): Promise<SdkPath> {
  const name = "sdk-path";
  const { hostFile, clientFile } = await declareService(network, { name });
  const start = (side: string, ...args: string[]): Program =>
    new Program({
      name: `${name}-${side}`,
      command: process.execPath,
      args: [join(import.meta.dirname, `sdk-${side}.ts`), ...args],
      logFile: join(network.folder, `${name}-${side}.log`),
    });
  const host = start("host", hostFile, name, String(targetPort));
  const client = start("client", clientFile, name);
  const stop = async (): Promise<void> => {
    await Promise.all([client.stop(), host.stop()]);
  };
  try {
    await host.line(/^hosting/);
    const port = Number((await client.line(/^port /)).slice(5));
    return { port, host, client, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
