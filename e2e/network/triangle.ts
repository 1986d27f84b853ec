import { Context, type EdgeConnection } from "@sallyport/sdk";
import { exchange } from "./bytes.ts";
import { eventually } from "./eventually.ts";
import { hostEcho } from "./hosted-echo.ts";
import { type Mesh, type MeshOptions, type Pair, startMesh } from "./mesh.ts";
import { declareService } from "./network.ts";

/** Three routers, each linked with each: whichever way is cut, there is another. */
export const TRIANGLE: readonly [Pair, ...Pair[]] = [
  ["r1", "r2"],
  ["r1", "r3"],
  ["r3", "r2"],
];

/** A triangle of routers with an echo at `r2`, and a client at `r1`. */
export interface EchoTriangle {
  readonly mesh: Mesh;
  /** Opens a circuit to the echo. */
  dial(): Promise<EdgeConnection>;
  stop(): Promise<void>;
}

/** Starts it in `folder`; resolves when an echo has come back. */
export async function startEchoTriangle(folder: string, options: Omit<MeshOptions, "pairs">): Promise<EchoTriangle> {
  const mesh = await startMesh(folder, { ...options, pairs: TRIANGLE });
  const contexts: Context[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(contexts.map((context) => context.close()));
    await mesh.stop();
  };
  try {
    const { hostFile, clientFile } = await declareService(mesh.network, { name: "echo" });
    const host = await Context.load(hostFile);
    contexts.push(host);
    const client = await Context.load(clientFile);
    contexts.push(client);
    await hostEcho(host, "echo");
    const dial = async (): Promise<EdgeConnection> =>
      await client.dial("echo", { allowHalfOpen: true, timeoutMs: 20_000 });
    await eventually("a first echo", async () => {
      await exchange(await dial(), 1, 1000);
      return true;
    });
    return { mesh, dial, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
