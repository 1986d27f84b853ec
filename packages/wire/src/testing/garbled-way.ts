import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TLS record of application data that no key has sealed. */
export const GARBLED = Buffer.concat([Buffer.from([23, 3, 3, 0, 64]), Buffer.alloc(64, 0xa5)]);

/** A way to a TCP port of this machine that carries what comes, until bytes of its own get in between. */
export class GarbledWay {
  readonly port: number;
  readonly #close: () => void;
  readonly #far: Set<Socket>;

  private constructor(port: number, far: Set<Socket>, close: () => void) {
    this.port = port;
    this.#far = far;
    this.#close = close;
  }

  static async start(targetPort: number): Promise<GarbledWay> {
    const ends = new Set<Socket>();
    const far = new Set<Socket>();
    const server = createServer((near) => {
      const other = connect(targetPort, "127.0.0.1");
      far.add(other);
      for (const socket of [near, other]) {
        ends.add(socket);
        socket.on("error", () => {});
      }
      near.pipe(other).pipe(near);
      near.once("close", () => other.destroy());
      other.once("close", () => near.destroy());
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    return new GarbledWay((server.address() as AddressInfo).port, far, () => {
      server.close();
      for (const socket of ends) socket.destroy();
    });
  }

  /** The accepting ends read something that they cannot decrypt. */
  garble(): void {
    for (const socket of this.#far) socket.write(GARBLED);
  }

  close(): void {
    this.#close();
  }
}
