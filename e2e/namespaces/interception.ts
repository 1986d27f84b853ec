import { existsSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import type { InterceptTarget } from "@sallyport/tunnel";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { type Host, Site } from "./network-namespace.ts";

/** `interceptor-program.ts` running on a host, and the commands it takes. */
export class InterceptingHost {
  readonly program: Program;
  readonly #socket: string;

  private constructor(program: Program, socket: string) {
    this.program = program;
    this.#socket = socket;
  }

  static async start(
    host: Host,
    folder: string,
    options: object = {},
    env: Readonly<Record<string, string>> = {},
    prefix: readonly string[] = [],
  ): Promise<InterceptingHost> {
    // Below 108 bytes, as socket paths have to be; free also while a predecessor is being killed.
    let number = 1;
    while (existsSync(join(folder, `control-${number}`))) number++;
    const socket = join(folder, `control-${number}`);
    const file = join(import.meta.dirname, "interceptor-program.ts");
    const [command = "", ...args] = [...prefix, process.execPath, file, socket, JSON.stringify(options)];
    const program = host.start({ name: `interceptor on ${host.label}`, command, args, env });
    await program.line(/^ready$/);
    return new InterceptingHost(program, socket);
  }

  async intercept(target: Partial<InterceptTarget> & { readonly name: string }): Promise<{ kind: string }> {
    const whole = {
      id: target.name,
      protocols: ["tcp"],
      addresses: [],
      portRanges: [{ low: 80, high: 80 }],
      allowedSourceAddresses: [],
    };
    return (await this.#command("intercept", { ...whole, ...target })) as { kind: string };
  }

  async forget(id: string): Promise<void> {
    await this.#command("forget", { id });
  }

  async source(prefix: string): Promise<void> {
    await this.#command("source", { prefix });
  }

  async #command(name: string, body: unknown): Promise<unknown> {
    return await new Promise((resolve, reject) => {
      const ask = request({ socketPath: this.#socket, path: `/${name}`, method: "POST" }, (response) => {
        let text = "";
        response.on("data", (chunk) => {
          text += chunk;
        });
        response.on("end", () => {
          const answer = JSON.parse(text) as { code?: string; message?: string };
          if (response.statusCode === 200) resolve(answer);
          else reject(new Error(`${answer.code}: ${answer.message}`));
        });
      });
      ask.on("error", reject);
      ask.end(JSON.stringify(body));
    });
  }
}

/** A router on which an interceptor may run, a client behind it, and a network in which services have their addresses. */
export class InterceptionSite {
  readonly folder = makeScratch("interception");
  router!: Host;
  client!: Host;
  readonly #site = new Site();

  async build(): Promise<void> {
    this.router = await this.#site.host("router");
    this.client = await this.#site.host("client");
    const [ofRouter, ofClient] = [
      ["192.0.2.1/24", "2001:db8::1/64"],
      ["192.0.2.2/24", "2001:db8::2/64"],
    ];
    await this.#site.cable(this.router, ofRouter, this.client, ofClient);
    await this.client.ip("route", "add", "default", "via", "192.0.2.1");
    await this.client.ip("-6", "route", "add", "default", "via", "2001:db8::1");
    this.router.resolveWith("127.0.0.1");
    this.client.resolveWith("192.0.2.1");
  }

  /** Starts an interceptor on the router. @param prefix a command that starts it, such as `setpriv` */
  async start(
    options: object = {},
    env: Readonly<Record<string, string>> = {},
    prefix: readonly string[] = [],
  ): Promise<InterceptingHost> {
    return await InterceptingHost.start(this.router, this.folder, options, env, prefix);
  }

  async close(): Promise<void> {
    await this.#site.close();
    removeScratch(this.folder);
  }
}

/** What a program wrote of the ends that the interceptor saw. */
export interface Seen {
  readonly service: string;
  readonly protocol: string;
  readonly sourceIp: string;
  readonly sourcePort: number;
  readonly destinationIp: string;
  readonly destinationPort: number;
  readonly destinationHostname?: string;
}

/** Requests a URL with curl on a host; resolves with the ends, or with curl's exit code (7: refused, 28: no answer, 55 and 56: reset). */
export async function curl(host: Host, url: string, ...options: string[]): Promise<Seen | number> {
  const ran = await host.attempt("curl", "-sS", "--max-time", "30", "-g", ...options, url);
  return ran.code === 0 ? (JSON.parse(ran.stdout) as Seen) : ran.code;
}

/** Sends a datagram of `size` bytes from a host and resolves with the answer's first line or size; "silence" when there is none. */
export async function datagram(
  host: Host,
  address: string,
  port: number,
  size = 4,
  timeoutMs = 10_000,
): Promise<string> {
  const program = `
    const socket = require("node:dgram").createSocket(${JSON.stringify(address.includes(":") ? "udp6" : "udp4")});
    socket.connect(${port}, ${JSON.stringify(address)}, () => socket.send(Buffer.alloc(${size}, 65)));
    socket.on("message", (m) => { console.log(m.length < 1000 ? String(m).split("\\n")[0] : m.length); process.exit() });
    socket.on("error", (e) => { console.log(e.code); process.exit() });
    setTimeout(() => { console.log("silence"); process.exit() }, ${timeoutMs});`;
  return (await host.run(process.execPath, "-e", program)).stdout.trim();
}

/** Everything that interception can change on a host, as text. */
export async function hostState(host: Host): Promise<string> {
  const parts = [
    (await host.run("nft", "list", "ruleset")).stdout,
    await host.ip("-4", "route", "show", "table", "all"),
    await host.ip("-6", "route", "show", "table", "all"),
    await host.ip("rule", "show"),
    await host.ip("-o", "addr", "show", "dev", "lo"),
  ];
  // The kernel makes link-local addresses usable in its own time.
  return parts.join("---\n").replaceAll(/^local fe80:.*\n/gm, "");
}
