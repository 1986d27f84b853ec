/** The network as an identity sees it that has joined. */
import { Backoff, pause } from "@sallyport/async";
import type { CommandContext } from "../../context.ts";
import { type Entity, valueAt } from "../../entities/entity.ts";
import { listPath } from "../../entities/list.ts";
import { CommandError, ExitStatus } from "../../errors.ts";
import { ApiCaller } from "../../network/api-caller.ts";
import { CLIENT_API } from "../../network/api-paths.ts";
import { authenticate } from "../../network/authenticate.ts";
import { identityFile } from "../../network/login-material.ts";
import { HOST_CONFIGS, hostedPlaces } from "./hosted-place.ts";

export interface ReachableService {
  readonly name: string;
  readonly isDialled: boolean;
  readonly isHosted: boolean;
  /** Where this machine connects to for clients of the network, if it hosts the service. */
  readonly hostedPlaces: readonly string[];
  readonly protocols: readonly ("tcp" | "udp")[];
  /** As clients call it where they are intercepted. */
  readonly hostNames: readonly string[];
  /** The first one that is intercepted. */
  readonly port: number | undefined;
}

/** A session of an identity, which is begun again when it has ended. */
export class IdentitySession {
  readonly name: string;
  readonly #caller: ApiCaller;

  private constructor(caller: ApiCaller, name: string) {
    this.#caller = caller;
    this.name = name;
  }

  /**
   * Logs in with an identity file, and waits for a controller that cannot be reached.
   *
   * @param onAway called once, when the controller cannot be reached
   * @throws CommandError when the network refuses the identity; the signal's reason
   */
  static async open(file: string, context: CommandContext, onAway: (why: string) => void): Promise<IdentitySession> {
    const backoff = new Backoff({ firstMs: 1_000, maxMs: 30_000 });
    for (;;) {
      try {
        return await IdentitySession.#begin(file, context);
      } catch (error) {
        if (!(error instanceof CommandError) || error.status !== ExitStatus.Unreachable) throw error;
        if (backoff.failures === 0) onAway(error.message);
        await pause(backoff.next(), context.signal);
        context.signal.throwIfAborted();
      }
    }
  }

  static async #begin(file: string, context: CommandContext): Promise<IdentitySession> {
    const { controller, ca, cert, key } = await identityFile(file, context);
    const caller = new ApiCaller({ controller, ca, cert, key }, context.signal);
    const renew = async (): Promise<string> => {
      const { token } = await authenticate(caller, { method: "cert" }, context);
      caller.useSession(token, renew);
      return token;
    };
    try {
      const { token, identity } = await authenticate(caller, { method: "cert" }, context);
      caller.useSession(token, renew);
      return new IdentitySession(caller, identity);
    } catch (error) {
      caller.close();
      throw error;
    }
  }

  /** What the identity may dial or host, by name. */
  async services(): Promise<readonly ReachableService[]> {
    const kind = { plural: "services", isPaged: true, hasName: true };
    const found = await listPath(`${CLIENT_API}/services?${CONFIGS}`, kind, {}, this.#caller);
    return found.map(reachable);
  }

  async close(): Promise<void> {
    const request = { method: "DELETE", path: `${CLIENT_API}/current-api-session` };
    await this.#caller.json(request).catch(() => undefined);
    this.#caller.close();
  }
}

const CONFIGS = ["intercept.v1", ...HOST_CONFIGS].map((type) => `configTypes=${type}`).join("&");

function reachable(service: Entity): ReachableService {
  const permissions = Array.isArray(service.permissions) ? service.permissions : [];
  const configs = service.config as Entity | undefined;
  const config = configs?.["intercept.v1"];
  const texts = (path: string): string[] => {
    const value = valueAt(config, path);
    return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
  };
  const protocols = (["tcp", "udp"] as const).filter((each) => texts("protocols").includes(each));
  const ranges = valueAt(config, "portRanges");
  const low: unknown = Array.isArray(ranges) ? ranges[0]?.low : undefined;
  return {
    name: String(service.name),
    isDialled: permissions.includes("Dial"),
    isHosted: permissions.includes("Bind"),
    hostedPlaces: hostedPlaces(configs),
    protocols: protocols.length === 0 ? ["tcp"] : protocols,
    hostNames: texts("addresses").filter((each) => /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(each) && /[a-z]/i.test(each)),
    port: typeof low === "number" ? low : undefined,
  };
}
