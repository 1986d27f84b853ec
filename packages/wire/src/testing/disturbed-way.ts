import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TLS record of application data that no key has sealed. */
export const GARBLED = Buffer.concat([Buffer.from([23, 3, 3, 0, 64]), Buffer.alloc(64, 0xa5)]);

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

/** A way to a TCP port of this machine that carries what comes, until it is disturbed. */
export class DisturbedWay {
  readonly port: number;
  readonly #pairs: Pair[];
  readonly #close: () => void;

  private constructor(port: number, pairs: Pair[], close: () => void) {
    this.port = port;
    this.#pairs = pairs;
    this.#close = close;
  }

  static async start(targetPort: number): Promise<DisturbedWay> {
    const pairs: Pair[] = [];
    const server = createServer((near) => {
      const far = connect(targetPort, "127.0.0.1");
      pairs.push({ near, far });
      for (const socket of [near, far]) socket.on("error", () => {});
      near.pipe(far).pipe(near);
      near.once("close", () => far.destroy());
      far.once("close", () => near.destroy());
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    return new DisturbedWay((server.address() as AddressInfo).port, pairs, () => {
      server.close();
      for (const { near, far } of pairs) for (const socket of [near, far]) socket.destroy();
    });
  }

  /** The accepting ends read something that they cannot decrypt. */
  garble(): void {
    for (const { far } of this.#pairs) far.write(GARBLED);
  }

  /** What the dialling end (`there`) or the accepting one (`back`) sends on the n-th connection gets lost from now on. */
  silence(n: number, direction: "there" | "back"): void {
    const { near, far } = this.#pairs[n] as Pair;
    const [from, to] = direction === "there" ? [near, far] : [far, near];
    from.unpipe(to);
    from.resume();
  }

  close(): void {
    this.#close();
  }
}
