import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { type Keyed, ThirdParty } from "../../controller/src/auth/testing/third-party.ts";

const MONTH_MS = 30 * 86_400_000;
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

/** Files as a program that fetches certificates from a public authority leaves them: the certificate with its issuer, without the root, and the key. */
export class PublicCertificate {
  readonly cert: string;
  readonly key: string;
  readonly #issuer: ThirdParty;

  private constructor(folder: string, issuer: ThirdParty) {
    this.cert = join(folder, "fullchain.pem");
    this.key = join(folder, "privkey.pem");
    this.#issuer = issuer;
  }

  static async create(folder: string): Promise<PublicCertificate> {
    const root = await ThirdParty.create("Public Root", { key: "rsa" });
    return new PublicCertificate(folder, await ThirdParty.create("Public Issuer", { parent: root }));
  }

  async issue(commonName: string): Promise<Keyed> {
    const leaf = { commonName, dns: ["localhost"], usages: [SERVER_AUTH], validMs: MONTH_MS };
    return await this.#issuer.issue(leaf);
  }

  write(part: "cert" | "key", { certPem, keyPem }: Keyed): void {
    const path = this[part];
    writeFileSync(`${path}.new`, part === "cert" ? certPem + this.#issuer.certPem : keyPem, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }

  /** Puts a new certificate with a new key for `localhost` in place of the files. */
  async renew(commonName: string): Promise<void> {
    const issued = await this.issue(commonName);
    this.write("cert", issued);
    this.write("key", issued);
  }

  /** A controller's file with these in it. */
  settings(text: string): string {
    const entry = `  serverCertificates:\n    - cert: ${JSON.stringify(this.cert)}\n      key: ${JSON.stringify(this.key)}\n`;
    return text.replace(/^ {2}# serverCertificates: .*\n/m, entry);
  }
}

/** Common name of the certificate that a server on this machine shows. */
export async function shownBy(port: number, servername: string | undefined, ...protocols: string[]): Promise<string> {
  const socket: TLSSocket = connect({
    ...{ host: "127.0.0.1", port, rejectUnauthorized: false },
    ...(servername === undefined ? {} : { servername }),
    ...(protocols.length === 0 ? {} : { ALPNProtocols: protocols }),
  });
  try {
    await once(socket, "secureConnect");
    return String(socket.getPeerCertificate().subject.CN);
  } finally {
    socket.destroy();
  }
}
